"""The apiserver or the agent is away: what runs goes on, and afterwards both agree.

Between them stand two proxies: one that can refuse and stall, and behind it one that counts.
"""

import os
import signal
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from minikubelet.cri import messages as m
from tests.e2e.administrator import path_of
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.workers import Worker
from tests.integration.proxy import Front, Seen, Wire

pytestmark = pytest.mark.anyio

PROXIES: dict[str, tuple[Wire, Front]] = {}
NOPATH = "localhost/minikubelet/busybox:nopath"
LEASE = path_of("lease", "kube-node-lease", "worker")
SCRATCH = {"volumes": [{"name": "d", "emptyDir": {}}]}
MOUNT = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}


def prepare(worker: Worker) -> None:
    """Stand in between; let no restart wait for longer than a second."""
    front = worker.behind_a_front()
    PROXIES[worker.node] = (worker.behind_a_wire(front), front)
    worker.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


@pytest.fixture
def wire(worker: Worker) -> Any:
    """The way to the apiserver; open again after the test."""
    found, _ = PROXIES[worker.node]
    yield found
    if found._server is None:
        found.accept()
    found.resume()


@pytest.fixture
def front(worker: Worker) -> Any:
    """What sees the agent's requests; answers none of them by itself after the test."""
    _, found = PROXIES[worker.node]
    yield found
    found.forget()


def tokenless(
    worker: Worker, name: str, *containers: dict[str, Any], **spec: Any
) -> dict[str, Any]:
    """Return a pod that needs nothing of the apiserver to be restarted."""
    return worker.bound(name, *containers, automountServiceAccountToken=False, **spec)


def shell(script: str, **fields: Any) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 1} | fields


def static(worker: Worker, name: str, *containers: dict[str, Any]) -> str:
    """Write NAME.yaml: a static pod of the test's namespace; return its name on the node."""
    document = a_manifest(name, *containers)
    document["metadata"]["namespace"] = worker.namespace
    worker.write(f"{name}.yaml", document)
    return f"{name}-{worker.node}"


def has(value: int, of: Callable[..., Awaitable[int]], *arguments: Any) -> Any:
    async def reached() -> bool:
        return await of(*arguments) == value

    return reached


async def quiet(worker: Worker) -> None:
    """Wait until nothing of earlier tests is left."""

    async def nothing() -> bool:
        return not await worker.client.runtime.list_pod_sandbox()

    await worker.wait_until("the runtime holds no pod", nothing)


async def not_ready(worker: Worker, pod: str) -> bool:
    return not await worker.is_ready(pod)


def log(worker: Worker) -> str:
    return worker.log_file.read_text()


async def test_pods_are_cared_for_while_the_apiserver_is_away(
    worker: Worker, wire: Wire, front: Front
) -> None:
    """Restarts, probes, new manifests: all go on. Back again each pod is told of once."""
    probe = shell("test -f /ready", failureThreshold=1)
    await worker.run_pod(worker.bound("crashes", a_shell("main", FOREVER)))
    probed = a_shell("main", f"touch /ready; {FOREVER}", readinessProbe=probe)
    await worker.run_pod(worker.bound("probed", probed))
    await worker.run_pod(worker.bound("leaves", a_shell("main", FOREVER)))
    for number in range(3):
        await worker.run_pod(worker.bound(f"idle{number}", a_shell("main", FOREVER)))
    before = {name: await worker.told(name) for name in ("crashes", "probed")}
    lines = len(log(worker))
    wire.refuse()
    for number in (1, 2):
        (container,) = await running(worker, "crashes")
        await worker.client.runtime.stop_container(container.id, 0)
        await worker.wait_until(
            "it was restarted", lambda n=number: runs_again(worker, "crashes", n)
        )
    await worker.exec("probed", "main", "rm /ready")
    await worker.wait_until("it isn't ready", lambda: not_ready(worker, "probed"))
    name = static(worker, "local", a_shell("main", FOREVER))
    await worker.wait_until("a new static pod runs", lambda: worker.is_ready(name))
    await worker.wait_until(
        "the lease couldn't be renewed",
        lambda: "cannot renew the node's lease" in log(worker)[lines:],
    )
    assert {name: await worker.told(name) for name in before} == before
    await worker.delete("pod", "leaves")
    await worker.create(worker.bound("arrives", a_shell("main", FOREVER)))
    lease = await worker.admin.get(LEASE)
    begin = len(front.requests)
    wire.accept()
    await worker.wait_until("the restarts are told", has(2, worker.told_restarts, "crashes"))
    await worker.pod_gone("leaves")
    for pod in ("arrives", name):
        await worker.wait_until(f"{pod} is ready", lambda pod=pod: worker.pod_is_ready(pod))
    assert not await worker.pod_is_ready("probed")

    async def renewed() -> bool:
        newest = await worker.admin.get(LEASE)
        return bool(newest["spec"]["renewTime"] > lease["spec"]["renewTime"])

    await worker.wait_until("the lease is renewed", renewed)
    assert await worker.node_is_ready()
    requests = front.requests[begin:]
    patches = Counter(seen.path for seen in requests if seen.method == "PATCH")
    for pod in before:
        assert patches[path_of("pod", worker.namespace, pod, "status")] == 1, patches
    for number in range(3):
        assert patches[path_of("pod", worker.namespace, f"idle{number}", "status")] == 0
    # No herd: each thing is asked for once or twice, not by everybody for himself.
    asked = Counter(
        (seen.method, seen.path, str(seen.query.get("fieldSelector"))) for seen in requests
    )
    posts = path_of("event", worker.namespace)
    often = {key: n for key, n in asked.items() if n > 3 and key[1] != posts}
    assert not often, often
    worker.remove("local.yaml")


async def runs_again(worker: Worker, pod: str, times: int) -> bool:
    status = await worker.container_status(pod, "main")
    return bool(status["restartCount"] == times and "running" in status["state"])


async def running(worker: Worker, pod: str, name: str = "main") -> list[m.Container]:
    found = await worker.containers(pod, name)
    return [each for each in found if each.state == m.CONTAINER_RUNNING]


async def test_a_stalled_connection_loses_nothing(worker: Worker, wire: Wire) -> None:
    """No byte passes for a while, and no word of it: what was sent meanwhile arrives."""
    probe = shell("test -f /ready", failureThreshold=1)
    probed = a_shell("main", f"touch /ready; {FOREVER}", readinessProbe=probe)
    await worker.run_pod(worker.bound("probed", probed))
    wire.stall()
    await worker.exec("probed", "main", "rm /ready")
    await worker.wait_until("it isn't ready", lambda: not_ready(worker, "probed"))
    await worker.create(worker.bound("new", a_shell("main", FOREVER)))
    assert await worker.pod_is_ready("probed")
    wire.resume()

    async def told() -> bool:
        return not await worker.pod_is_ready("probed")

    await worker.wait_until("it is told", told)
    await worker.wait_until("the new pod is ready", lambda: worker.pod_is_ready("new"))


async def test_an_apiserver_that_refuses_and_forgets(
    worker: Worker, wire: Wire, front: Front
) -> None:
    """500, 429 with Retry-After, 410 and slow pieces: a pod comes and goes all the same."""

    def is_about(method: str, kind: str) -> Callable[[Seen], bool]:
        def matches(seen: Seen) -> bool:
            return seen.method == method and f"/{worker.namespace}/{kind}" in seen.path

        return matches

    front.answer(500, is_about("PATCH", "pods"), times=2)
    front.answer(429, is_about("POST", "events"), times=2, retry_after=1)
    front.answer(410, lambda seen: seen.is_watch and seen.path == "/api/v1/pods", reason="Expired")
    front.answer(503, is_about("DELETE", "pods"), times=2)
    wire.cut()
    wire.delay = 0.05
    try:
        await worker.run_pod(worker.bound("web", a_shell("main", FOREVER)))
        await worker.wait_for_events("web", "Pulled", "Created", "Started")
        await worker.delete("pod", "web")
        await worker.pod_gone("web")
    finally:
        wire.delay = 0.0


async def test_B63_started_while_the_apiserver_is_away(worker: Worker, wire: Wire) -> None:
    """Static and remembered pods run and are cared for, nothing is killed; then the truth wins."""
    await worker.create(
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "hidden"},
            "stringData": {"k": "x"},
        }
    )
    env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "k"}}}]
    await worker.run_pod(tokenless(worker, "dies", a_shell("main", FOREVER)))
    await worker.run_pod(worker.bound("crashes", a_shell("main", FOREVER)))
    await worker.run_pod(tokenless(worker, "needs", a_shell("main", FOREVER, env=env)))
    for name in ("stays", "gone", "leaves"):
        await worker.run_pod(worker.bound(name, a_shell("main", FOREVER)))
    name = static(worker, "local", a_shell("main", FOREVER))
    await worker.wait_until("the static pod is seen", lambda: worker.pod_is_ready(name))
    kept = {pod: (await running(worker, pod))[0].id for pod in ("stays", "gone", "leaves")}
    worker.kill()
    wire.refuse()
    # As after a reboot: some of it doesn't run any more.
    (sandbox,) = await worker.sandboxes("dies")
    await worker.client.runtime.stop_pod_sandbox(sandbox.id)
    (sandbox,) = await worker.sandboxes(name)
    await worker.client.runtime.stop_pod_sandbox(sandbox.id)
    for pod in ("crashes", "needs"):
        (container,) = await running(worker, pod)
        await worker.client.runtime.stop_container(container.id, 0)
    await worker.delete("pod", "gone", 0)
    await worker.delete("pod", "leaves", 5)
    await worker.start()
    for pod in (name, "dies", "crashes"):
        await worker.wait_until(f"{pod} runs again", lambda pod=pod: worker.is_ready(pod))

    async def says_so() -> bool:
        waiting = (await worker.container_status("needs", "main"))["state"].get("waiting", {})
        return waiting.get("reason") == "CreateContainerConfigError" and (
            "cannot read secrets" in waiting.get("message", "")
        )

    await worker.wait_until("the one that needs its Secret says so", says_so)
    assert {pod: (await running(worker, pod))[0].id for pod in kept} == kept
    wire.accept()
    await worker.pod_gone("leaves")

    async def no_sandbox() -> bool:
        return not await worker.sandboxes("gone") and not await worker.sandboxes("leaves")

    await worker.wait_until("what was deleted is gone", no_sandbox)
    await worker.wait_until("its Secret is there", lambda: worker.pod_is_ready("needs"))
    for pod in ("dies", "crashes", "needs", name):
        await worker.wait_until("its restart is told", has(1, worker.told_restarts, pod))
    assert (await running(worker, "stays"))[0].id == kept["stays"]
    assert await worker.told_restarts("stays") == 0
    worker.remove("local.yaml")


async def test_B11_the_manifest_alone_decides(worker: Worker, wire: Wire) -> None:
    """Cut off, restarted, manifest removed, back, manifest there again with another image."""
    name = static(worker, "web", a_shell("main", FOREVER))
    await worker.wait_until("it is seen", lambda: worker.pod_is_ready(name))
    (old,) = await running(worker, name)
    wire.refuse()
    worker.kill()
    await worker.start()
    await worker.wait_until("it runs on", lambda: worker.is_ready(name))
    assert (await running(worker, name))[0].id == old.id
    worker.remove("web.yaml")

    async def stopped() -> bool:
        return not await worker.sandboxes(name)

    await worker.wait_until("it stops, whoever is away", stopped)
    wire.accept()
    await worker.pod_gone(name)
    static(worker, "web", a_shell("main", FOREVER, image=NOPATH))
    await worker.wait_until("the new one is seen", lambda: worker.pod_is_ready(name))
    (new,) = await running(worker, name)
    assert new.id != old.id
    assert (await worker.told(name))["containerStatuses"][0]["image"] == NOPATH
    worker.remove("web.yaml")
    await worker.pod_gone(name)


async def test_B23_what_crashes_beside_a_sidecar_after_a_restart_of_the_agent(
    worker: Worker,
) -> None:
    side = a_shell("side", FOREVER, restartPolicy="Always", startupProbe=shell("true"))
    main = a_shell("main", FOREVER)
    await worker.run_pod(worker.bound("beside", main, initContainers=[side]))
    worker.kill()
    await worker.start()
    await worker.exec("beside", "main", "kill 1")
    await worker.wait_until("its restart is told", has(1, worker.told_restarts, "beside"))
    await worker.wait_until("the pod is ready", lambda: worker.pod_is_ready("beside"))
    (status,) = (await worker.told("beside"))["initContainerStatuses"]
    assert (status["restartCount"], status["started"]) == (0, True)


# kill -9 of the agent


async def agree(worker: Worker, pod: str) -> None:
    """Check that apiserver and runtime have one word for a pod that runs."""
    (container,) = await worker.containers(pod, "main")
    (sandbox,) = await worker.sandboxes(pod)
    found = await worker.pod(pod)
    (status,) = found["status"]["containerStatuses"]
    assert status["containerID"] == f"containerd://{container.id}"
    assert status["restartCount"] == container.metadata.attempt == 0
    assert sandbox.metadata.uid == found["metadata"]["uid"]
    assert sandbox.metadata.attempt == 0


@pytest.mark.parametrize(
    "point", ["after:RunPodSandbox:1", "after:CreateContainer:1", "after:StartContainer:1"]
)
async def test_killed_while_a_pod_starts(worker: Worker, point: str) -> None:
    await quiet(worker)
    worker.kill()
    await worker.start(faults=point)
    await worker.create(worker.bound("web", a_shell("main", FOREVER)))
    assert await worker.ended() == -signal.SIGKILL
    await worker.start()
    await worker.wait_until("it is ready", lambda: worker.pod_is_ready("web"))
    await agree(worker, "web")


@pytest.mark.parametrize(
    "point", ["before:StopContainer:1", "after:StopContainer:1", "after:RemovePodSandbox:1"]
)
async def test_killed_while_a_pod_is_deleted(worker: Worker, point: str) -> None:
    await quiet(worker)
    worker.kill()
    await worker.start(faults=point)
    pod = await worker.run_pod(worker.bound("web", a_shell("main", FOREVER)))
    with worker.admin.watch(path_of("pod", worker.namespace)) as watch:
        await worker.delete("pod", "web")
        assert await worker.ended() == -signal.SIGKILL
        assert await worker.pod("web")
        await worker.start()
        await worker.wait_until("its object is gone", lambda: watch.gone("web"))
    last = watch.of("web")[-1].object["status"]
    assert last["phase"] in ("Succeeded", "Failed")
    assert "terminated" in last["containerStatuses"][0]["state"]
    await quiet(worker)
    folder = worker.root / "pods" / pod["metadata"]["uid"]
    await worker.wait_until("its folder is gone", lambda: not folder.exists())


@pytest.mark.parametrize("arrives", [True, False], ids=["arrives", "lost"])
async def test_killed_while_a_status_is_told(worker: Worker, front: Front, arrives: bool) -> None:
    """Its first patch is taken or lost with the agent: afterwards all of it is true."""
    path = path_of("pod", worker.namespace, "web", "status")
    assert worker._process is not None
    pid = worker._process.pid
    told: list[Seen] = []

    def kill(seen: Seen) -> bool:
        if seen.method != "PATCH" or seen.path != path:
            return False
        told.append(seen)
        if len(told) == 1:
            os.kill(pid, signal.SIGKILL)
        return not arrives

    front.answer(500, kill, times=1)
    await worker.create(worker.bound("web", a_shell("main", FOREVER)))
    assert await worker.ended() == -signal.SIGKILL
    front.forget()
    await worker.start()
    await worker.wait_until("it is ready", lambda: worker.pod_is_ready("web"))
    await agree(worker, "web")
