"""From a kubelet to minikubelet and back, on one node: nothing that runs is restarted."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.cri import messages as m
from tests.clusters import Cluster
from tests.containerds import Containerd
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.kubelets import Kubelet, joining_worker, kernel_settings_kept
from tests.e2e.workers import Worker
from tests.leftovers import Mark

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]
NODE = "takeover"
SETTLED = 12.0
"""Seconds in which an agent that wants to restart something has done it."""
ONCE = "[ -e /data/been ] && exec sh -c '{}'; touch /data/been; sleep 1; exit 1"
"""Fails the first time, so that there is a restart to count."""


@pytest.fixture
async def worker(
    cluster_containerd: Containerd, cluster: Cluster, session_mark: Mark, anyio_backend: str
) -> AsyncIterator[Worker]:
    async with joining_worker(NODE, cluster_containerd, cluster, session_mark) as worker:
        yield worker


@pytest.fixture
def kubelet(worker: Worker) -> Any:
    with kernel_settings_kept():
        kubelet = Kubelet(worker)
        yield kubelet
        kubelet.stop()
        print(kubelet.said())  # noqa: T201  pytest shows it with a failure


def a_static_pod(name: str = "static") -> dict[str, Any]:
    volume = {"name": "data", "emptyDir": {}}
    mount = [{"name": "data", "mountPath": "/data"}]
    return a_manifest(
        name,
        a_shell("calm", FOREVER),
        a_shell("once", ONCE.format(FOREVER.replace("'", "")), volumeMounts=mount),
        initContainers=[a_shell("first", "true")],
        volumes=[volume],
        terminationGracePeriodSeconds=5,
    )


def an_api_pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    pod = a_manifest(name, *containers, nodeName=NODE, terminationGracePeriodSeconds=5, **spec)
    pod["metadata"]["annotations"] = {"for": "people"}
    return pod


API_PODS = (
    an_api_pod(
        "full",
        a_shell(
            "main",
            FOREVER,
            env=[{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "cm", "key": "a"}}}],
            volumeMounts=[{"name": "cm", "mountPath": "/cm"}, {"name": "data", "mountPath": "/d"}],
            readinessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1},
            livenessProbe={"exec": {"command": ["true"]}, "periodSeconds": 1},
            resources={"requests": {"cpu": "10m"}, "limits": {"memory": "32Mi"}},
        ),
        a_shell("side", FOREVER),
        initContainers=[
            a_shell("init", "true"),
            a_shell("sidecar", FOREVER, restartPolicy="Always"),
        ],
        volumes=[
            {"name": "cm", "configMap": {"name": "cm"}},
            {"name": "data", "emptyDir": {}},
        ],
    ),
    an_api_pod("job", a_shell("main", "echo done"), restartPolicy="Never"),
    an_api_pod("host", a_shell("main", FOREVER), hostNetwork=True),
)
PODS = ("full", "job", "host", f"static-{NODE}")


async def settle(worker: Worker) -> None:
    """Wait until the pods are as they shall be."""
    for name in ("full", "host", f"static-{NODE}"):
        await worker.wait_until(f"{name} is ready", lambda n=name: worker.pod_is_ready(n), 60)
    await worker.pod_in_phase("job", "Succeeded", 60)


async def running(worker: Worker) -> dict[str, tuple[str, int]]:
    """Return what the runtime holds: by pod and container, its id and when it was created."""
    found = {}
    for pod in PODS:
        for sandbox in await worker.sandboxes(pod):
            found[f"{pod} {sandbox.id}"] = (m.v1.PodSandboxState.Name(sandbox.state), 0)
        for each in await worker.containers(pod):
            if each.state == m.CONTAINER_RUNNING or pod == "job":
                found[f"{pod}/{each.metadata.name}"] = (each.id, each.created_at)
    return found


async def told(worker: Worker) -> dict[str, Any]:
    """Return what the apiserver knows of the pods and must not change."""
    found = {}
    for name in PODS:
        pod = await worker.pod(name)
        status = pod["status"]
        lists = ("initContainerStatuses", "containerStatuses")
        containers = [each for kind in lists for each in status.get(kind, ())]
        found[name] = {
            "phase": status["phase"],
            "uid": pod["metadata"]["uid"],
            "podIP": status.get("podIP"),
            "restarts": {each["name"]: each["restartCount"] for each in containers},
            "ids": {each["name"]: each["containerID"] for each in containers},
            "started": {each["name"]: each["state"] for each in containers},
            "transitions": {
                each["type"]: each["lastTransitionTime"] for each in status["conditions"]
            },
        }
    return found


async def test_a_node_goes_from_a_kubelet_to_minikubelet_and_back(
    worker: Worker, kubelet: Kubelet
) -> None:
    worker.write("static.yaml", a_static_pod())
    kubelet.start()
    await worker.wait_until("the kubelet's node is ready", worker.node_is_ready, 90)
    await worker.apply(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cm"}, "data": {"a": "b"}},
        *API_PODS,
    )
    await settle(worker)

    async def restarted_once() -> bool:
        return bool((await told(worker))[f"static-{NODE}"]["restarts"]["once"] == 1)

    # The pod may be ready before it is told that its other container was started again.
    await worker.wait_until("the restart is told", restarted_once, 60)
    before, known = await running(worker), await told(worker)
    assert known[f"static-{NODE}"]["restarts"]["once"] == 1
    kubelet.stop()

    # To minikubelet, with the same command line.
    await worker.start()
    await anyio.sleep(SETTLED)
    await settle(worker)
    assert await running(worker) == before
    assert await told(worker) == known
    assert len(list(Path(worker.folder, "pki").glob("kubelet-client-2*.pem"))) == 1

    # What the kubelet made goes on: a volume's content, an exec, a probe's say.
    await worker.patch("configmap", "cm", {"data": {"a": "changed"}})

    async def shows_the_change() -> bool:
        return await worker.exec("full", "main", "cat /cm/a") == "changed"

    await worker.wait_until("the volume shows the change", shows_the_change)
    assert (await worker.kubectl_done("exec", "full", "-c", "side", "--", "true")).returncode == 0

    # A restart of it changes nothing, either.
    worker.kill()
    await worker.start()
    await anyio.sleep(SETTLED)
    assert await running(worker) == before
    assert await told(worker) == known

    # What it starts itself, and what it ends.
    worker.write("own.yaml", a_static_pod("own"))
    await worker.wait_until("own is ready", lambda: worker.pod_is_ready(f"own-{NODE}"))
    own = {each.id for each in await worker.containers(f"own-{NODE}")}
    await worker.run_pod(an_api_pod("late", a_shell("main", FOREVER)))
    late = {each.id for each in await worker.containers("late")}
    await worker.delete("pod", "host")
    await worker.pod_gone("host")
    assert await worker.sandboxes("host") == []
    uid = known["host"]["uid"]
    await worker.wait_until("its folder is gone", lambda: not (worker.root / "pods" / uid).exists())
    before = {key: value for key, value in before.items() if not key.startswith("host")}
    worker.stop()

    # Back to the kubelet: API pods and those that it once started run on.
    kubelet.start()

    async def replaced() -> bool:
        ready = [
            c for c in await worker.containers(f"own-{NODE}") if c.state == m.CONTAINER_RUNNING
        ]
        return {each.id for each in ready}.isdisjoint(own) and len(ready) == 2

    await worker.wait_until("the kubelet has started own anew", replaced, 90)
    await anyio.sleep(SETTLED)
    assert await running(worker) == before
    assert {each.id for each in await worker.containers("late")} == late
    kubelet.stop()


async def test_a_manifest_edited_after_the_take_over_is_followed(
    worker: Worker, kubelet: Kubelet
) -> None:
    worker.write("static.yaml", a_static_pod())
    kubelet.start()
    name = f"static-{NODE}"
    await worker.wait_until("static is ready", lambda: worker.pod_is_ready(name), 90)
    mirror = (await worker.pod(name))["metadata"]["uid"]
    kubelet.stop()
    await worker.start()
    await anyio.sleep(3)
    edited = a_static_pod()
    edited["spec"]["containers"][0]["env"] = [{"name": "NEW", "value": "1"}]
    worker.write("static.yaml", edited)

    async def follows() -> bool:
        return "NEW=1" in await worker.exec(name, "calm", "env")

    await worker.wait_until(
        "another mirror pod is there", lambda: _is_another(worker, name, mirror)
    )
    await worker.wait_until("the new one is ready", lambda: worker.pod_is_ready(name))
    assert await follows()
    assert len(await worker.sandboxes(name)) == 1
    worker.remove("static.yaml")
    await worker.pod_gone(name)
    assert await worker.sandboxes(name) == []


async def _is_another(worker: Worker, name: str, uid: str) -> bool:
    return bool((await worker.pod(name)).get("metadata", {}).get("uid", uid) != uid)
