"""Workers on each runtime: what manifests can't say, ephemeral containers above all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.fake import FakeRuntime
from minikubelet.host.cgroups import detect
from minikubelet.host.clock import SystemClock
from minikubelet.pods.kit import Limits
from tests.builders import a_container, a_pod
from tests.containerds import BUSYBOX
from tests.contract.conftest import NUMBERS, SLEEP, Harness
from tests.unit.pods.harness import Node, SimulatedClock, a_kit, assemble, eventually

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def a_node_on(harness: Harness, tmp_path: Path) -> AsyncIterator[Node]:
    clock = SystemClock() if harness.fake is None else SimulatedClock(harness.fake)
    kit = a_kit(
        tmp_path,
        harness.runtime,
        harness.images,
        clock,
        limits=Limits(),
        allocatable={"cpu": "4", "memory": "1Gi", "pods": "110"},
        cgroup_root=f"/{harness.cgroup}",
        cgroup_version=detect().version,
    )
    async with anyio.create_task_group() as group:
        yield await assemble(group, harness.fake or FakeRuntime(), kit, harness.events)
        group.cancel_scope.cancel()


def shell(name: str, script: str, **fields: object) -> dict[str, object]:
    command = ["/bin/sh", "-c", script]
    return a_container(name, image=BUSYBOX, command=command, **fields)


async def running(harness: Harness, uid: str) -> list[str]:
    listed = await harness.runtime.list_containers(
        label_selector={"io.kubernetes.pod.uid": uid}, state=m.CONTAINER_RUNNING
    )
    return sorted(container.metadata.name for container in listed)


async def test_an_ephemeral_container_joins_a_running_pod_and_is_never_restarted(
    harness: Harness, tmp_path: Path
) -> None:
    uid = f"eph-{next(NUMBERS)}"
    pod = a_pod(shell("main", SLEEP), uid=uid)
    debugged = a_pod(
        shell("main", SLEEP),
        uid=uid,
        ephemeralContainers=[shell("debug", "exit 3", targetContainerName="main")],
    )
    async with a_node_on(harness, tmp_path) as node:
        node.add(pod)
        await eventually(lambda: node.status(uid).phase == "Running")
        before = node.status(uid).container_statuses[0].container_id
        node.add(debugged)
        await eventually(
            lambda: any(
                status.state.terminated for status in node.status(uid).ephemeral_container_statuses
            )
        )
        await anyio.sleep(1)
        status = node.status(uid)
        (ended,) = status.ephemeral_container_statuses
        assert ended.state.terminated is not None
        assert ended.state.terminated.exit_code == 3
        assert ended.restart_count == 0
        assert status.container_statuses[0].container_id == before
        assert status.phase == "Running"
        assert await running(harness, uid) == ["main"]
        node.registry.remove(uid)
        await eventually(lambda: node.registry.worker(uid) is None)


async def test_B27_an_ephemeral_container_removed_by_hand_is_not_made_again(
    harness: Harness, tmp_path: Path
) -> None:
    uid = f"eph-{next(NUMBERS)}"
    debugged = a_pod(shell("main", SLEEP), uid=uid, ephemeralContainers=[shell("debug", "exit 3")])
    async with a_node_on(harness, tmp_path) as node:
        node.add(debugged)
        await eventually(
            lambda: any(
                status.state.terminated for status in node.status(uid).ephemeral_container_statuses
            )
        )
        (ended,) = node.status(uid).ephemeral_container_statuses
        await harness.runtime.remove_container(ended.container_id.partition("://")[2])
        await anyio.sleep(1)
        node.worker(uid).wake()
        await anyio.sleep(1)
        listed = await harness.runtime.list_containers(
            label_selector={"io.kubernetes.container.name": "debug", "io.kubernetes.pod.uid": uid}
        )
        assert listed == []
        node.registry.remove(uid)
        await eventually(lambda: node.registry.worker(uid) is None)
