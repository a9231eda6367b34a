"""Pods of an apiserver: their statuses, their deletion to the end, refusals, outages, restarts."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from minikubelet.cri.fake import NEVER, Program
from minikubelet.kube.errors import Unavailable
from minikubelet.pods.worker import Worker
from tests.apiserver import MemoryAPI
from tests.builders import a_container, a_pod
from tests.unit.pods.cluster import Cluster, a_cluster
from tests.unit.pods.harness import eventually
from tests.unit.pods.test_worker import a_fake

pytestmark = pytest.mark.anyio
STUBBORN = Program(term_takes=NEVER)


def phase(cluster: Cluster, pod: Any) -> str:
    return cluster.status(pod).phase if cluster.has(pod) else ""


async def test_a_pod_runs_and_the_apiserver_is_told_with_few_patches(tmp_path: Path) -> None:
    fake = a_fake()
    pod = a_pod(a_container("a"), a_container("b"))
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Running")
        await anyio.sleep(5)
        status = cluster.status(pod)
        assert {c.type for c in status.conditions if c.status == "True"} == {
            "PodReadyToStartContainers",
            "Initialized",
            "Ready",
            "ContainersReady",
            "PodScheduled",
        }
        assert status.pod_ip
        assert len(cluster.api.requests) <= 2


async def test_deletion_goes_on_to_the_end(tmp_path: Path) -> None:
    fake = a_fake(a=Program(term_takes=3))
    pod = a_pod(a_container("a"), volumes=[{"name": "v", "emptyDir": {}}])
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Running")
        cluster.delete(pod)
        await anyio.sleep(2)
        assert cluster.has(pod)
        await eventually(lambda: not cluster.has(pod))
        assert cluster.node.volumes.torn_down[-1] == "uid-1"
        patches = [request.body["status"] for request in cluster.api.sent("PATCH")]
        assert patches[-1]["phase"] == "Failed"
        ended = [p["containerStatuses"] for p in patches if "containerStatuses" in p][-1]
        assert ended[0]["state"]["terminated"]["exitCode"] == 143
        await eventually(lambda: not cluster.node.registry.workers)
        assert fake.sandboxes == {}


async def test_a_shorter_grace_counts_at_once(tmp_path: Path) -> None:
    fake = a_fake(a=STUBBORN)
    pod = a_pod(a_container("a"), terminationGracePeriodSeconds=600)
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Running")
        cluster.delete(pod, grace=600)
        await anyio.sleep(5)
        cluster.delete(pod, grace=3)
        began = anyio.current_time()
        await eventually(lambda: not cluster.has(pod))
        assert anyio.current_time() - began < 6


async def test_a_removal_during_another_end_is_remembered(tmp_path: Path) -> None:
    fake, api = a_fake(a=STUBBORN), MemoryAPI()
    pod = a_pod(a_container("a"), terminationGracePeriodSeconds=60, activeDeadlineSeconds=5)
    async with a_cluster(tmp_path, fake, api) as cluster:
        cluster.create(pod)
        await eventually(lambda: cluster.node.worker().ending)
        await anyio.sleep(1)
        api.drop("/api/v1/namespaces/default/pods/pod")
        await anyio.sleep(1)
    offline = MemoryAPI(always=Unavailable("connection refused"))
    async with a_cluster(tmp_path, fake, offline, sweep=False) as cluster:
        # Without an apiserver nobody else would know that it isn't wanted any more.
        await eventually(lambda: not cluster.node.registry.workers, 120)
        assert fake.sandboxes == {}


async def test_a_forced_deletion_ends_the_pod_without_an_object(tmp_path: Path) -> None:
    fake = a_fake()
    pod = a_pod(a_container("a"))
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Running")
        told = len(cluster.api.requests)
        cluster.api.drop("/api/v1/namespaces/default/pods/pod")
        await eventually(lambda: not cluster.node.registry.workers)
        assert fake.sandboxes == {}
        assert {r.method for r in cluster.api.requests[told:]} <= {"PATCH"}


async def test_the_same_name_created_again_at_once_is_another_pod(tmp_path: Path) -> None:
    fake = a_fake(a=Program(term_takes=5))
    old, new = a_pod(a_container("a")), a_pod(a_container("a"), uid="uid-2")
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(old)
        await eventually(lambda: phase(cluster, old) == "Running")
        cluster.api.drop("/api/v1/namespaces/default/pods/pod")
        cluster.create(new)
        # It doesn't wait for the old one, as a static pod would.
        await eventually(lambda: fake.running() == ["a", "a"])
        await eventually(lambda: phase(cluster, new) == "Running")
        await eventually(lambda: fake.running() == ["a"])
        await anyio.sleep(60)
        assert phase(cluster, new) == "Running"
        assert cluster.api.sent("DELETE") == []


@pytest.mark.parametrize("slow", ["RunPodSandbox", "CreateContainer", "StartContainer"])
async def test_deletion_while_it_starts(tmp_path: Path, slow: str) -> None:
    fake = a_fake()
    fake.script.inject(slow, 5.0)
    pod = a_pod(a_container("a"))
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: fake.script.count(slow) == 1)
        cluster.delete(pod)
        await eventually(lambda: not cluster.has(pod))
        await eventually(lambda: not cluster.node.registry.workers)
        assert fake.sandboxes == {}
        assert fake.containers == {}


async def test_a_pod_deleted_before_it_was_seen_goes_without_a_container(tmp_path: Path) -> None:
    fake = a_fake()
    metadata = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    pod = a_pod(metadata=metadata)
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: not cluster.has(pod))
        assert fake.script.count("RunPodSandbox") == 0
        assert cluster.api.sent("PATCH")[0].body["status"]["phase"] == "Failed"


@pytest.mark.parametrize("final", ["Succeeded", "Failed"])
async def test_a_final_phase_never_flips(tmp_path: Path, final: str) -> None:
    fake = a_fake()
    pod = a_pod(status={"phase": final})
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await anyio.sleep(300)
        assert fake.script.count("RunPodSandbox") == 0
        assert phase(cluster, pod) == final


async def test_a_job_s_pod_succeeds_and_its_object_stays(tmp_path: Path) -> None:
    fake = a_fake(a=Program(runs_for=1))
    pod = a_pod(a_container("a"), restartPolicy="Never")
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Succeeded")
        await anyio.sleep(300)
        assert phase(cluster, pod) == "Succeeded"
        assert fake.script.count("RunPodSandbox") == 1
        cluster.delete(pod)
        await eventually(lambda: not cluster.has(pod))
        await eventually(lambda: not cluster.node.registry.workers)


async def test_a_refused_pod_has_failed_for_good(tmp_path: Path) -> None:
    fake = a_fake()
    pod = a_pod(a_container("a", resources={"requests": {"cpu": "8"}}))
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Failed")
        await anyio.sleep(300)
        status = cluster.status(pod)
        assert status.reason == "OutOfcpu"
        assert status.message == (
            "Pod was rejected: Node didn't have enough resource: cpu, requested: 8000, used: 0, "
            "capacity: 4000"
        )
        assert status.container_statuses == ()
        assert cluster.node.reasons().count("OutOfcpu") == 1
        assert fake.script.count("RunPodSandbox") == 0
        cluster.delete(pod)
        await eventually(lambda: not cluster.has(pod))


async def test_a_host_port_of_an_ending_pod_is_waited_for(tmp_path: Path) -> None:
    fake = a_fake(a=Program(term_takes=8))
    port = {"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}
    old = a_pod(a_container("a", ports=[port]))
    new = a_pod(a_container("b", ports=[port]), uid="uid-2", name="new")
    refused = a_pod(a_container("c", ports=[port]), uid="uid-3", name="refused")
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(old)
        await eventually(lambda: phase(cluster, old) == "Running")
        cluster.delete(old)
        cluster.create(new)
        await anyio.sleep(3)
        assert cluster.status(new).reason == "NodePorts"
        assert phase(cluster, new) == "Pending"
        await eventually(lambda: phase(cluster, new) == "Running")
        cluster.create(refused)
        await eventually(lambda: phase(cluster, refused) == "Failed")
        assert cluster.status(refused).reason == "NodePorts"


async def test_a_critical_pod_makes_room(tmp_path: Path) -> None:
    fake = a_fake(a=Program(term_takes=4))
    large = {"requests": {"cpu": "3"}}
    old = a_pod(a_container("a", resources=large), terminationGracePeriodSeconds=10)
    new = a_pod(a_container("b", resources=large), uid="uid-2", name="new", priority=2_000_000_000)
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(old)
        await eventually(lambda: phase(cluster, old) == "Running")
        cluster.create(new)
        await anyio.sleep(2)
        assert fake.running() == ["a"]  # it ends with its own grace
        await eventually(lambda: phase(cluster, new) == "Running")
        status = cluster.status(old)
        assert (status.phase, status.reason) == ("Failed", "Preempting")
        assert status.message == "Preempted in order to admit critical pod"
        target = next(c for c in status.conditions if c.type == "DisruptionTarget")
        assert (target.status, target.reason) == ("True", "TerminationByKubelet")
        assert cluster.node.reasons().count("Preempting") == 1


async def test_a_wish_for_other_resources_is_refused_by_name(tmp_path: Path) -> None:
    fake = a_fake()
    pod = a_pod(a_container("a", resources={"requests": {"cpu": "1"}}))
    wish = a_pod(a_container("a", resources={"requests": {"cpu": "2"}}))
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Running")
        cluster.create(wish)
        await eventually(
            lambda: "PodResizePending" in {c.type for c in cluster.status(pod).conditions}
        )
        status = cluster.status(pod)
        pending = next(c for c in status.conditions if c.type == "PodResizePending")
        assert pending.reason == "Infeasible"
        assert status.container_statuses[0].allocated_resources == {"cpu": "1"}
        assert status.container_statuses[0].restart_count == 0
        assert cluster.node.reasons().count("ResizeInfeasible") == 1
        cluster.create(pod)
        await eventually(
            lambda: "PodResizePending" not in {c.type for c in cluster.status(pod).conditions}
        )


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        pytest.param({"hostUsers": False}, "PodFeatureUnsupported", id="user-namespaces"),
        pytest.param({"resourceClaims": [{"name": "gpu"}]}, "PodFeatureUnsupported", id="devices"),
        pytest.param({"nodeSelector": {"zone": "b"}}, "NodeAffinity", id="selector"),
        pytest.param({"os": {"name": "windows"}}, "PodOSNotSupported", id="os"),
        pytest.param(
            {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}},
            "AppArmor",
            id="app-armor",
        ),
    ],
)
async def test_what_can_not_be_done_is_refused_by_name(
    tmp_path: Path, spec: dict[str, Any], reason: str
) -> None:
    fake = a_fake()
    pod = a_pod(**spec)
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Failed")
        assert cluster.status(pod).reason == reason


async def test_an_outage_stops_nothing_and_is_caught_up_with_once(tmp_path: Path) -> None:
    fake = a_fake(a=Program(runs_for=40, exit_code=1))
    pod = a_pod(a_container("a"))
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Running")
        cluster.api.always = Unavailable("connection refused")
        await anyio.sleep(300)
        assert fake.script.count("StartContainer") > 3
        told = len(cluster.api.requests)
        cluster.api.always = None
        await anyio.sleep(15)
        assert cluster.status(pod).container_statuses[0].restart_count >= 3
        assert len(cluster.api.requests) - told <= 3


@pytest.mark.parametrize("when", ["running", "deleting", "ended"])
async def test_after_a_restart_apiserver_and_runtime_agree(tmp_path: Path, when: str) -> None:
    fake, api = a_fake(a=Program(term_takes=20)), MemoryAPI()
    pod = a_pod(a_container("a"), terminationGracePeriodSeconds=60)
    async with a_cluster(tmp_path, fake, api) as cluster:
        cluster.create(pod)
        await eventually(lambda: phase(cluster, pod) == "Running")
        if when == "deleting":
            cluster.delete(pod, grace=60)
            await anyio.sleep(5)
        if when == "ended":
            cluster.delete(pod, grace=60)
            api.always = Unavailable("connection refused")
            await eventually(lambda: fake.running() == [])
            await anyio.sleep(5)
    api.always = None
    async with a_cluster(tmp_path, fake, api) as cluster:
        if when == "running":
            await anyio.sleep(60)
            assert fake.script.count("StartContainer") == 1
            assert cluster.status(pod).container_statuses[0].restart_count == 0
            return
        await eventually(lambda: not cluster.has(pod))
        assert fake.script.count("StartContainer") == 1
        await eventually(lambda: not cluster.node.registry.workers)
        assert fake.sandboxes == {}


async def test_what_is_remembered_of_a_silent_apiserver_is_cared_for(tmp_path: Path) -> None:
    fake, api = a_fake(a=Program(runs_for=1000, exit_code=1)), MemoryAPI()
    pod, gone = a_pod(a_container("a")), a_pod(a_container("a"), uid="uid-2", name="gone")
    async with a_cluster(tmp_path, fake, api) as cluster:
        cluster.create(pod)
        cluster.create(gone)
        await eventually(lambda: phase(cluster, pod) == phase(cluster, gone) == "Running")
    del api.objects["/api/v1/namespaces/default/pods/gone"]
    offline = MemoryAPI(always=Unavailable("connection refused"))
    async with a_cluster(tmp_path, fake, offline, sweep=False) as cluster:
        cluster.node.registry.adopt("api")
        await anyio.sleep(2000)
        assert fake.script.count("StartContainer") >= 4
        assert len(fake.running()) == 2
    async with a_cluster(tmp_path, fake, api) as cluster:
        await eventually(lambda: len(fake.running()) == 1)
        await anyio.sleep(60)
        assert phase(cluster, pod) == "Running"
        assert cluster.status(pod).container_statuses[0].restart_count >= 1
        assert len(fake.running()) == 1


async def test_a_status_that_can_not_be_told_is_one_pod_s_trouble(tmp_path: Path) -> None:
    fake = a_fake(a=Program(runs_for=30))
    pod, other = a_pod(a_container("a")), a_pod(a_container("b"), uid="uid-2", name="other")
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        cluster.create(other)
        await eventually(lambda: phase(cluster, pod) == phase(cluster, other) == "Running")
        state = cluster.node.worker().state
        state.progress = None  # type: ignore[assignment]  # as a bug would
        fake.exit(fake.named("a")[0].id, 1)
        await anyio.sleep(20)
        assert cluster.node.worker().crashes > 0
        assert phase(cluster, other) == "Running"
        state.progress = {}
        await eventually(lambda: cluster.status(pod).container_statuses[0].restart_count == 1)


async def test_pods_are_admitted_in_the_order_in_which_they_came(tmp_path: Path) -> None:
    fake = a_fake()
    port = {"ports": [{"containerPort": 80, "hostPort": 80}]}
    first = a_pod(a_container("a", **port), name="first", uid="uid-1")
    second = a_pod(a_container("b", **port), name="second", uid="uid-2")
    async with a_cluster(tmp_path, fake) as cluster:
        fake.script.inject("ListPodSandbox", 0.5)  # the first one's look takes long
        cluster.create(first)
        cluster.create(second)
        await eventually(lambda: phase(cluster, first) == "Running")
        await eventually(lambda: phase(cluster, second) == "Failed")
        assert cluster.status(second).reason == "NodePorts"


async def test_a_pod_that_always_has_something_to_do_leaves_the_others_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0

    async def turn(_worker: Worker) -> None:
        nonlocal turns
        turns += 1
        _worker.wake()

    fake = a_fake()
    async with a_cluster(tmp_path, fake) as cluster:
        monkeypatch.setattr(Worker, "_guarded_turn", turn)
        cluster.create(a_pod())
        for _ in range(50):
            await anyio.lowlevel.checkpoint()
        assert turns > 1
        monkeypatch.undo()
