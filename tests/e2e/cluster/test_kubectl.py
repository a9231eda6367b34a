"""What people do with kubectl: logs, controllers, drains, looks; and who may."""

import json
import re
import ssl
import subprocess
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.clusters import Keys
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.workers import Worker

pytestmark = pytest.mark.anyio


def prepare(worker: Worker) -> None:
    """Answer the machine's own question for its health, where a kubelet does."""
    worker.settings["healthzPort"] = 10248


# logs


async def test_logs_and_their_options(worker: Worker) -> None:
    script = "if test -f /d/x; then echo second; else touch /d/x; echo first; exit 1; fi;"
    mounts = [{"name": "d", "mountPath": "/d"}]
    main = a_shell("main", f"{script} {FOREVER}", volumeMounts=mounts)
    side = a_shell("side", f"seq 1 5; sleep 1.5; echo late; {FOREVER}")
    volumes = [{"name": "d", "emptyDir": {}}]
    await worker.create(a_manifest("talks", main, side, volumes=volumes))

    async def said() -> bool:
        texts = [
            await worker.kubectl("logs", "talks", "-c", c, check=False) for c in ("main", "side")
        ]
        return texts == ["second\n", "1\n2\n3\n4\n5\nlate\n"]

    await worker.wait_until("both have spoken", said)
    logs = ("logs", "talks")
    assert await worker.kubectl(*logs, "-c", "main", "--previous") == "first\n"
    assert await worker.kubectl(*logs, "-c", "side", "--tail=2") == "5\nlate\n"
    assert await worker.kubectl(*logs, "-c", "side", "--limit-bytes=3") == "1\n2"
    stamped = (await worker.kubectl(*logs, "-c", "side", "--timestamps")).splitlines()
    assert all(re.match(r"\d{4}-\d\d-\d\dT[\d:]+\.\d{9}Z \w+$", line) for line in stamped)
    since = stamped[-1].split()[0]
    assert await worker.kubectl(*logs, "-c", "side", f"--since-time={since}") in (
        "late\n",
        "5\nlate\n",
    )
    assert await worker.kubectl(*logs, "-c", "side", "--since=10m", "--tail=1") == "late\n"
    both = await worker.kubectl(*logs, "--all-containers", "--prefix", "--tail=1")
    assert set(both.splitlines()) == {"[pod/talks/main] second", "[pod/talks/side] late"}
    by_label = await worker.kubectl("logs", "-l", "app=talks", "-c", "side", "--tail=1")
    assert by_label == "late\n"


async def test_logs_of_what_has_none(worker: Worker) -> None:
    """Errors of the node come to the person who asked."""
    await worker.create(a_manifest("waits", a_shell("main", FOREVER, image="localhost/no/such:1")))

    async def refused() -> bool:
        done = await worker.kubectl_done("logs", "waits")
        text = 'container "main" in pod "waits" is waiting to start: '
        return done.returncode == 1 and text in done.stderr.decode()

    await worker.wait_until("the reason is told", refused)
    done = await worker.kubectl_done("logs", "waits", "--previous")
    text = 'previous terminated container "main" in pod "waits" not found'
    assert text in done.stderr.decode()


async def test_B56_logs_f_over_rotations(worker: Worker) -> None:
    script = "i=0; while [ $i -lt 300 ]; do echo line $i; i=$((i+1)); sleep 0.01; done"
    await worker.create(a_manifest("counter", a_shell("main", script), restartPolicy="Never"))

    async def counts() -> bool:
        return bool(await worker.output("counter", "main"))

    await worker.wait_until("it counts", counts)
    (container,) = await worker.containers("counter")
    path = (await worker.client.runtime.container_status(container.id)).log_path
    async with following(worker, "logs", "-f", "counter") as shown:
        for number in range(3):
            so_far = len(shown)
            await worker.wait_until("more is shown", lambda seen=so_far: len(shown) > seen)
            await anyio.Path(path).rename(f"{path}.{number}")
            await worker.client.runtime.reopen_container_log(container.id)
        await worker.wait_until("it ends by itself", lambda: bool(shown) and shown[-1] == b"")
    text = b"".join(shown).decode()
    assert text.splitlines() == [f"line {number}" for number in range(300)]


@asynccontextmanager
async def following(worker: Worker, *arguments: str) -> AsyncIterator[list[bytes]]:
    """Run kubectl and collect its output; an empty piece is its end."""
    shown: list[bytes] = []
    process = await anyio.open_process(worker.kubectl_argv(*arguments), stdin=subprocess.DEVNULL)

    async def collect() -> None:
        assert process.stdout is not None
        async for piece in process.stdout:
            shown.append(piece)  # noqa: PERF401  others look at it meanwhile
        shown.append(b"")

    async with process, anyio.create_task_group() as group:
        group.start_soon(collect)
        yield shown
        process.terminate() if process.returncode is None else None
        group.cancel_scope.cancel()


# controllers


def a_deployment(name: str, replicas: int, script: str) -> dict[str, Any]:
    labels = {"app": name}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [a_shell("main", script)]},
            },
        },
    }


async def pods_of(worker: Worker, name: str) -> list[dict[str, Any]]:
    text = await worker.kubectl("get", "pods", "-l", f"app={name}", "-o", "json")
    found: list[dict[str, Any]] = json.loads(text)["items"]
    return found


async def test_a_deployment_rolls_scales_and_is_drained(worker: Worker) -> None:
    await worker.apply(a_deployment("web", 3, FOREVER))
    await worker.kubectl("rollout", "status", "deployment/web", "--timeout=50s")
    first = {pod["metadata"]["uid"] for pod in await pods_of(worker, "web")}
    await worker.apply(a_deployment("web", 3, f"echo new; {FOREVER}"))
    await worker.kubectl("rollout", "status", "deployment/web", "--timeout=50s")

    async def only_new() -> bool:
        uids = {pod["metadata"]["uid"] for pod in await pods_of(worker, "web")}
        return len(uids) == 3 and not uids & first

    await worker.wait_until("the old ones are gone", only_new)
    await worker.kubectl("rollout", "undo", "deployment/web")
    await worker.kubectl("scale", "deployment/web", "--replicas=1")
    await worker.kubectl("rollout", "status", "deployment/web", "--timeout=50s")

    async def one_is_left() -> bool:
        return len(await pods_of(worker, "web")) == 1

    await worker.wait_until("one is left", one_is_left)
    try:
        arguments = ("--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=40s")
        shown = await worker.kubectl("drain", worker.node, *arguments)
        assert "evicted" in shown
        (pod,) = await pods_of(worker, "web")
        assert pod["status"]["phase"] == "Pending"
        assert "nodeName" not in pod["spec"]
        line = await worker.kubectl("get", "node", worker.node, "--no-headers")
        assert "Ready,SchedulingDisabled" in line
    finally:
        await worker.kubectl("uncordon", worker.node)
    await worker.kubectl("rollout", "status", "deployment/web", "--timeout=50s")
    await worker.kubectl("delete", "deployment", "web")


async def test_get_and_describe(worker: Worker) -> None:
    await worker.run_pod(a_manifest("web", a_shell("main", FOREVER)))
    line = await worker.kubectl("get", "pod", "web", "-o", "wide", "--no-headers")
    ip = (await worker.told("web"))["podIP"]
    assert re.match(rf"web\s+1/1\s+Running\s+0\s+\S+\s+{ip}\s+{worker.node}\s", line)
    shown = await worker.kubectl("describe", "pod", "web")
    assert re.search(rf"^Status: +Running$(.|\n)*^IP: +{ip}$", shown, re.MULTILINE)
    assert re.search(r"Normal +Started +\S+ +kubelet +Container started", shown)
    node = await worker.kubectl("describe", "node", worker.node)
    assert "KubeletReady" in node
    assert "kubelet is posting ready status" in node
    assert re.search(r"Starting\s+\S+\s+kubelet\s+Starting kubelet\.", node)
    assert re.search(rf"{worker.namespace}\s+web", node)
    wide = await worker.kubectl("get", "node", worker.node, "-o", "wide", "--no-headers")
    assert "containerd://2" in wide
    assert f" {worker.cluster.address} " in wide


# who may


def answer(worker: Worker, path: str, keys: Keys | None = None, token: str = "") -> tuple[int, str]:
    """Ask the node's own port directly."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if keys is not None:
        context.load_cert_chain(keys.certificate, keys.key)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    url = f"https://{worker.cluster.address}:10250{path}"
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    try:
        with opener.open(urllib.request.Request(url, headers=headers), timeout=20) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


async def ask(
    worker: Worker, path: str, keys: Keys | None = None, token: str = ""
) -> tuple[int, str]:
    return await anyio.to_thread.run_sync(answer, worker, path, keys, token)


async def test_who_may_use_the_node_s_own_port(worker: Worker) -> None:
    """Certificates and tokens say who; the apiserver's RBAC says what they may."""
    cluster = worker.cluster
    admin = cluster.keys("admin", "/O=system:masters/CN=kubernetes-admin", "clientAuth")
    jane = cluster.keys("jane", "/CN=jane", "clientAuth")
    assert await ask(worker, "/healthz") == (401, "Unauthorized")
    assert await ask(worker, "/healthz", token="not-a-token") == (401, "Unauthorized")
    assert await ask(worker, "/healthz", admin) == (200, "ok")
    refused = "Forbidden (user=jane, verb=get, resource=nodes, subresource(s)=[pods proxy])"
    assert await ask(worker, "/pods", jane) == (403, refused + "\n")
    await worker.kubectl(
        "create", "clusterrole", "sees-pods", "--verb=get", "--resource=nodes/pods"
    )
    await worker.kubectl("create", "serviceaccount", "robot")
    token = (await worker.kubectl("create", "token", "robot")).strip()
    name = f"system:serviceaccount:{worker.namespace}:robot"
    status, text = await ask(worker, "/pods", token=token)
    assert (status, text.partition(",")[0]) == (403, f"Forbidden (user={name}")
    # A refusal is kept for half a minute: who is allowed has not asked before.
    await worker.kubectl("create", "serviceaccount", "other")
    subject = f"--serviceaccount={worker.namespace}:other"
    await worker.kubectl("create", "clusterrolebinding", "o", "--clusterrole=sees-pods", subject)
    token = (await worker.kubectl("create", "token", "other")).strip()

    other = f"--as=system:serviceaccount:{worker.namespace}:other"

    async def may() -> bool:
        question = ("auth", "can-i", "get", "nodes", "--subresource=pods", other)
        return (await worker.kubectl_done(*question)).returncode == 0

    await worker.wait_until("the apiserver knows of the right", may)
    status, text = await ask(worker, "/pods", token=token)
    assert (status, json.loads(text)["kind"]) == (200, "PodList")
    status, text = await ask(worker, "/exec/a/b/c?command=x&output=1", token=token)
    assert (status, "subresource(s)=[proxy]" in text) == (403, True)
    status, text = await ask(worker, "/configz", admin)
    shown = json.loads(text)["kubeletconfig"]
    assert shown["authentication"]["anonymous"] == {"enabled": False}
    assert shown["authorization"]["mode"] == "Webhook"
    assert shown["clusterDNS"] == ["10.96.0.10"]
    await worker.kubectl("delete", "clusterrole/sees-pods", "clusterrolebinding/o")


async def test_healthz_for_the_machine_itself(worker: Worker) -> None:
    """Without TLS and for everybody, on loopback only."""
    argv = ["curl", "-sS", "--noproxy", "*", "--max-time", "5"]
    inside = ["nsenter", f"--net={worker.cluster.netns}", *argv]
    done = await anyio.run_process([*inside, "http://127.0.0.1:10248/healthz"])
    assert done.stdout == b"ok"
    for path in ("/pods", "/metrics"):
        done = await anyio.run_process([*inside, f"http://127.0.0.1:10248{path}"])
        assert b"404" in done.stdout
    url = f"http://{worker.cluster.address}:10248/healthz"
    assert (await anyio.run_process([*argv, url], check=False)).returncode != 0


async def test_kubectl_is_told_what_a_user_may_not(worker: Worker) -> None:
    await worker.run_pod(a_manifest("web", a_shell("main", FOREVER)))
    for arguments in (("logs", "web"), ("exec", "web", "--", "true")):
        done = await worker.kubectl_done("--as=jane", *arguments)
        assert done.returncode == 1
        assert 'User "jane" cannot' in done.stderr.decode()
