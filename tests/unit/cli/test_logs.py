"""`minikubelet logs` against a server on a real socket."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.server.callables import LogRequest, NotReady
from tests.unit.cli.asking import ask, run
from tests.unit.cli.documents import a_pod, running
from tests.unit.server.serving import Log, callables, serving

pytestmark = pytest.mark.anyio

PODS = {"items": [a_pod(running("app"), running("side"))]}
NOTE = 'Defaulted container "app" out of: app, side\n'


def served(log: Log) -> Any:
    return callables(pods=lambda: PODS, log=log)


async def test_a_log_and_which_one_it_is(tmp_path: Path) -> None:
    log = Log([b"one\n", b"\xff\xfe raw\n"])
    async with serving(tmp_path, served(log)) as agent:
        said = await ask(agent, "logs", "web")
    assert (said.code, said.err) == (0, NOTE)
    assert said.out == "one\n�� raw\n"
    assert log.requests == [LogRequest("default", "web-node1", "app")]


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (("-f",), {"follow": True}),
        (("-p", "--timestamps"), {"previous": True, "timestamps": True}),
        (("--tail", "0"), {"tail_lines": 0}),
        (("--tail=-1",), {}),
        (("--limit-bytes", "9"), {"limit_bytes": 9}),
        (("--since", "10s"), {"since_seconds": 10}),
        (("--since", "1h0.5s"), {"since_seconds": 3601}),
        (
            ("--since-time", "2026-01-02T03:04:05+01:00"),
            {"since_time": "2026-01-02T03:04:05+01:00"},
        ),
    ],
)
async def test_options(tmp_path: Path, arguments: tuple[str, ...], fields: dict[str, Any]) -> None:
    log = Log()
    async with serving(tmp_path, served(log)) as agent:
        assert (await ask(agent, "logs", "web/side", *arguments)).code == 0
    assert log.requests == [LogRequest("default", "web-node1", "side", **fields)]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--since", "soon"), "--since: 'soon' is no duration such as 20s or 1m30s"),
        (("--since", "0s"), "--since: '0s' is not longer than 0s"),
        (("--since", "1s", "--since-time", "x"), "--since and --since-time exclude each other"),
        (("--tail", "-2"), "'--tail': -2 is not in the range"),
    ],
)
def test_wrongly_called(arguments: tuple[str, ...], text: str) -> None:
    said = run("logs", "web", "--socket", "/nowhere", *arguments)
    assert said.code == 2
    assert text in said.err


async def test_the_agents_refusal_is_shown(tmp_path: Path) -> None:
    text = 'container "side" in pod "web-node1" is waiting to start: ContainerCreating'
    async with serving(tmp_path, served(Log(refusal=NotReady(text)))) as agent:
        said = await ask(agent, "logs", "web", "-c", "side")
    assert (said.code, said.out, said.err) == (1, "", f"Error: {text}\n")


def a_process(path: Path) -> "subprocess.Popen[bytes]":
    # Whoever started the tests may ignore Ctrl-C, as a shell has it for what runs behind.
    argv = ["env", "--default-signal=INT", sys.executable, "-m", "minikubelet"]
    argv += ["logs", "-f", "web/app", "--socket", str(path)]
    env = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)


async def test_ctrl_c_ends_a_follower_quietly(tmp_path: Path) -> None:
    log = Log([b"first\n"], endless=True)
    async with serving(tmp_path, served(log)) as agent:
        with a_process(agent.socket_path) as process:
            assert process.stdout is not None
            assert await anyio.to_thread.run_sync(process.stdout.readline) == b"first\n"
            process.send_signal(signal.SIGINT)
            out, err = await anyio.to_thread.run_sync(process.communicate)
        assert (process.returncode, out, err) == (130, b"", b"")
        with anyio.fail_after(2):
            await log.closed.wait()


async def test_a_reader_that_goes_away_ends_it_quietly(tmp_path: Path) -> None:
    log = Log([b"x" * 65536] * 100, endless=True)
    async with serving(tmp_path, served(log)) as agent:
        with a_process(agent.socket_path) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            await anyio.to_thread.run_sync(process.stdout.read, 10)
            process.stdout.close()
            assert await anyio.to_thread.run_sync(process.stderr.read) == b""
            await anyio.to_thread.run_sync(process.wait)


async def test_the_end_of_the_agent_is_told(tmp_path: Path) -> None:
    log = Log([b"first\n"], endless=True)
    async with serving(tmp_path, served(log)) as agent:
        process = a_process(agent.socket_path)
        assert process.stdout is not None
        assert await anyio.to_thread.run_sync(process.stdout.readline) == b"first\n"
    with process:
        _, err = await anyio.to_thread.run_sync(process.communicate)
    assert process.returncode == 1
    assert err == b"Error: the agent ended the connection; it may have been stopped\n"
