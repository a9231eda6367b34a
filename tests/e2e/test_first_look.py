"""What a person asks a running agent, by the command line, in processes of their own."""

import http
import json
import re
import signal
import stat
import subprocess
import sys
from typing import Any

import anyio
import pytest

from tests.e2e.agent import NODE, Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio
SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.2; done"


def a_command(agent: Agent, *arguments: str) -> "subprocess.Popen[str]":
    argv = [sys.executable, "-m", "minikubelet", *arguments, f"--root-dir={agent.root}"]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


async def ask(agent: Agent, *arguments: str) -> tuple[int, str, str]:
    process = a_command(agent, *arguments)
    out, err = await anyio.to_thread.run_sync(process.communicate)
    return process.returncode, out, err


async def rows(agent: Agent) -> list[dict[str, str]]:
    _, out, _ = await ask(agent, "get", "pods")
    if not out:
        return []
    head, *lines = out.splitlines()
    begins = [found.start() for found in re.finditer(r"\S+", head)] + [None]
    return [
        {
            name: line[begin:end].strip()
            for name, begin, end in zip(head.split(), begins, begins[1:], strict=False)
        }
        for line in lines
    ]


async def the_row(agent: Agent, status: str) -> dict[str, str]:
    """Wait for the one row to have a status."""
    found: list[dict[str, str]] = []

    async def has_it() -> bool:
        found[:] = await rows(agent)
        return [row["STATUS"] for row in found] == [status]

    await agent.wait_until(f"get pods shows {status}", has_it)
    return found[0]


async def test_pods_and_their_document(agent: Agent) -> None:
    await agent.start()
    agent.write("web.yaml", a_manifest("web", a_shell("main", f"echo hello; {SLEEP}")))
    row = await the_row(agent, "Running")
    assert (row["NAMESPACE"], row["NAME"], row["READY"]) == ("default", f"web-{NODE}", "1/1")
    assert (row["RESTARTS"], row["SOURCE"], row["MESSAGE"]) == ("0", "file", "")
    _, out, _ = await ask(agent, "get", "pods", "web", "-o", "json")
    shown = json.loads(out)["items"][0]
    served: dict[str, Any] = json.loads((await agent.get("/pods"))[1])["items"][0]
    assert shown == served
    assert shown["status"]["podIP"] == row["IP"]


async def test_the_socket_is_roots_and_serves_one_agent(agent: Agent) -> None:
    await agent.start()
    socket = agent.root / "minikubelet.sock"
    assert stat.S_IMODE(socket.stat().st_mode) == 0o600
    second = a_command(
        agent,
        "run",
        f"--container-runtime-endpoint={agent.containerd.endpoint}",
        "--healthz-port=0",
    )
    _, err = await anyio.to_thread.run_sync(second.communicate)
    assert second.returncode == 1
    assert f"cannot serve on {socket}: another agent runs and serves there" in err
    assert (await agent.get("/healthz"))[0] == http.HTTPStatus.OK
    agent.stop()
    assert not socket.exists()
    code, _, err = await ask(agent, "get", "pods")
    assert (code, err.startswith("Error: cannot reach the agent: there is no")) == (1, True)


async def test_a_broken_manifest_and_its_last_good_version(agent: Agent) -> None:
    await agent.start()
    agent.write("web.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {}\nspec: {}\n")
    row = await the_row(agent, "Invalid")
    path = agent.manifests / "web.yaml"
    assert row["MESSAGE"].startswith(f"{path}:3: metadata.name: Required value")
    agent.write("web.yaml", a_manifest("web", a_shell("main", SLEEP)))
    await the_row(agent, "Running")
    agent.write("web.yaml", a_manifest("web", {"name": "main"}))

    async def tells() -> bool:
        return (await rows(agent))[0]["MESSAGE"] != ""

    await agent.wait_until("the error stands beside the pod", tells)
    row = await the_row(agent, "Running")
    assert row["MESSAGE"].startswith(f"the last good version runs: {path}:")
    code, out, _ = await ask(agent, "get", "manifests")
    assert (code, "LastGoodRuns" in out) == (0, True)


async def test_logs_and_those_before_the_restart(agent: Agent) -> None:
    await agent.start()
    script = (
        f"if [ -e /v/seen ]; then echo second; {SLEEP}; else echo first > /v/seen; cat /v/seen; fi"
    )
    pod = a_manifest(
        "web",
        a_shell("main", script, volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    agent.write("web.yaml", pod)

    async def has_restarted() -> bool:
        return (await ask(agent, "logs", "web"))[1] == "second\n"

    await agent.wait_until("the second instance speaks", has_restarted)
    assert await ask(agent, "logs", "web", "--previous") == (0, "first\n", "")
    row = await the_row(agent, "Running")
    assert row["RESTARTS"].startswith("1 (")


async def test_a_follower_sees_lines_as_they_come_and_ends_with_the_container(agent: Agent) -> None:
    await agent.start()
    script = "echo one; while [ ! -e /v/go ]; do sleep 0.05; done; echo two"
    folder = agent.folder / "shared"
    folder.mkdir()
    pod = a_manifest(
        "web",
        a_shell("main", script, volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        volumes=[{"name": "v", "hostPath": {"path": str(folder)}}],
        restartPolicy="Never",
    )
    agent.write("web.yaml", pod)
    await the_row(agent, "Running")
    follower = a_command(agent, "logs", "-f", "web")
    interrupted = a_command(agent, "logs", "-f", "web")
    assert follower.stdout is not None
    assert interrupted.stdout is not None
    assert await anyio.to_thread.run_sync(follower.stdout.readline) == "one\n"
    assert await anyio.to_thread.run_sync(interrupted.stdout.readline) == "one\n"
    interrupted.send_signal(signal.SIGINT)
    assert await anyio.to_thread.run_sync(interrupted.communicate) == ("", "")
    (folder / "go").touch()
    with anyio.fail_after(10):
        assert await anyio.to_thread.run_sync(follower.communicate) == ("two\n", "")
    assert follower.returncode == 0
