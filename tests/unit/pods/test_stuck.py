"""Containers and sandboxes that a runtime can't remove: whatever else is to happen goes on."""

from pathlib import Path

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.fake import FakeRuntime
from tests.builders import a_container, a_pod
from tests.unit.pods.cluster import a_cluster
from tests.unit.pods.harness import a_node, eventually
from tests.unit.pods.test_worker import a_fake

pytestmark = pytest.mark.anyio
LOST = CRIError("Remove", "FailedPrecondition", "cannot delete running task")
CUT_OFF = CRIError("StartContainer", "Unknown", "failed to get task pid: context canceled")


def never_removes(fake: FakeRuntime, method: str) -> None:
    for number in range(1, 500):
        fake.script.inject(method, LOST, nth=number)


async def test_a_container_whose_cut_off_start_left_a_task_is_started_under_the_next_name(
    tmp_path: Path,
) -> None:
    fake, starts = a_fake(), list[str]()

    def on_start(config: m.ContainerConfig) -> None:
        starts.append(config.metadata.name)
        if len(starts) == 1:
            raise CUT_OFF

    fake.on_start = on_start
    never_removes(fake, "RemoveContainer")
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: fake.running() == ["a"])
        await anyio.sleep(120)
        assert fake.running() == ["a"]
        assert starts == ["a", "a"]
        assert node.status().container_statuses[0].restart_count == 1


async def test_a_deleted_pod_s_object_goes_though_its_sandbox_stays(tmp_path: Path) -> None:
    fake = a_fake()
    pod = a_pod(a_container("a"))
    async with a_cluster(tmp_path, fake) as cluster:
        cluster.create(pod)
        await eventually(lambda: fake.running() == ["a"])
        never_removes(fake, "RemovePodSandbox")
        cluster.delete(pod)
        await eventually(lambda: not cluster.has(pod), 10)
        assert [sandbox.ready for sandbox in fake.sandboxes.values()] == [False]
        await anyio.sleep(300)
        tries = fake.script.count("RemovePodSandbox")
        assert 10 < tries < 60, "tried on, now and then"
        fake.script.plan_nothing()
        await eventually(lambda: not fake.sandboxes)
        await eventually(lambda: not cluster.node.registry.workers)
