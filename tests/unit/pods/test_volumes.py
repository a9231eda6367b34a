"""When a worker sets volumes up: after failures, and when what they show has changed."""

from itertools import pairwise
from pathlib import Path

import anyio
import pytest

from minikubelet.api.pod import Pod
from minikubelet.pods.worker import Worker
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import Node, a_node, eventually
from tests.unit.pods.test_worker import a_fake

pytestmark = pytest.mark.anyio


def a_pod_with_files() -> Pod:
    return a_pod(a_container("a"), volumes=[{"name": "v", "configMap": {"name": "c"}}])


def pauses(node: Node) -> list[float]:
    times = node.volumes.setups
    return [round(later - earlier, 1) for earlier, later in pairwise(times)]


async def test_a_volume_that_fails_is_tried_less_and_less_often(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake()) as node:
        node.volumes.problem = "no"
        node.add(a_pod_with_files())
        await anyio.sleep(60)
        assert pauses(node)[:7] == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0]


async def test_news_of_the_pod_don_t_hasten_a_volume_that_fails(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake()) as node:
        node.volumes.problem = "no"
        node.add(a_pod_with_files())
        for _ in range(100):
            await anyio.sleep(0.1)
            node.worker().wake()
        assert len(node.volumes.setups) == 5


async def test_an_object_that_appears_is_used_at_once(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake) as node:
        node.volumes.problem = "no"
        node.add(a_pod_with_files())
        await anyio.sleep(60)
        node.volumes.problem = ""
        node.registry.objects_changed("uid-1")
        await eventually(lambda: fake.running() == ["a"], 1)


async def test_files_that_cannot_be_renewed_are_tried_again(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod_with_files())
        await eventually(lambda: fake.running() == ["a"])
        await anyio.sleep(1)
        node.volumes.setups.clear()
        node.volumes.problem = "no"
        node.registry.objects_changed("uid-1")
        await anyio.sleep(2)
        node.volumes.problem = ""
        await anyio.sleep(20)
        assert pauses(node) == [0.5, 1.0, 2.0]
        assert fake.running() == ["a"]


async def is_asked_again(node: Node, worker: Worker) -> bool:
    await eventually(lambda: node.volumes.setups != [])
    worker.refresh_volumes()
    assert node.volumes.gate is not None
    node.volumes.gate.set()
    await anyio.sleep(1)
    return len(node.volumes.setups) > 1


async def test_a_change_during_the_first_setup_is_not_lost(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake()) as node:
        node.volumes.gate = anyio.Event()
        node.add(a_pod_with_files())
        assert await is_asked_again(node, node.worker())
