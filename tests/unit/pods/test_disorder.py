"""A runtime that misbehaves: events lost, doubled, late; the daemon away; late answers."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from minikubelet.cri.fake import EventPolicy, FakeRuntime, Program
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import a_node, eventually

pytestmark = pytest.mark.anyio


def a_fake(policy: EventPolicy | None = None, **programs: Program) -> FakeRuntime:
    fake = FakeRuntime(events=policy or EventPolicy())
    fake.images.add("busybox:1")
    fake.on_start = lambda config: programs.get(config.metadata.name)
    return fake


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("with_uid", [True, False], ids=["cri events", "containerd events"])
async def test_B65_disordered_events_never_start_a_second_container(
    seed: int, with_uid: bool, tmp_path: Path
) -> None:
    policy = EventPolicy(seed=seed, dropped=0.3, doubled=0.3, delay_max=5.0, with_pod_uid=with_uid)
    fake = a_fake(policy, init=Program(runs_for=0.3), main=Program(exit_code=1, runs_for=7))
    twice: list[str] = []

    async def watch() -> None:
        while True:
            counts = Counter(fake.running())
            twice.extend(name for name, count in counts.items() if count > 1)
            await anyio.sleep(0.2)

    async with a_node(tmp_path, fake) as node, anyio.create_task_group() as group:
        group.start_soon(watch)
        init = (a_container("init"), a_container("side", restartPolicy="Always"))
        node.add(a_pod(a_container("main"), a_container("other"), init=init))
        await eventually(lambda: fake.script.count("StartContainer") >= 6, 300)
        assert twice == []
        starts = Counter(
            (c.config.metadata.name, c.config.metadata.attempt) for c in fake.containers.values()
        )
        assert max(starts.values()) == 1
        node.registry.remove("uid-1")
        await eventually(lambda: not fake.sandboxes, 120)
        group.cancel_scope.cancel()


async def test_every_event_lost_is_repaired_by_the_slow_relist(tmp_path: Path) -> None:
    fake = a_fake(EventPolicy(dropped=1.0), a=Program(exit_code=1, runs_for=30))
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: fake.running() == ["a"])
        await eventually(lambda: fake.script.count("StartContainer") == 2, 120)


async def test_the_daemon_stopped_and_started_again(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: fake.running() == ["a"])
        fake.stop_runtime()
        await eventually(lambda: bool(node.monitor.problem))
        fake.exit(fake.named("a")[0].id, 1)
        node.add(a_pod(a_container("b"), name="two", uid="uid-2"))
        await anyio.sleep(20)
        assert fake.script.count("RunPodSandbox") == 1
        fake.start_runtime()
        await eventually(lambda: sorted(fake.running()) == ["a", "b"], 8)
        await eventually(lambda: node.monitor.problem == "", 5)
        assert node.status().container_statuses[0].restart_count == 1


@pytest.mark.parametrize("method", ["RunPodSandbox", "CreateContainer", "StartContainer"])
async def test_B62_an_answer_after_the_deadline_is_adopted(method: str, tmp_path: Path) -> None:
    fake = a_fake()
    fake.script.inject(method, 400.0)
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: fake.running() == ["a"], 600)
        await anyio.sleep(120)
        assert len(fake.sandboxes) == 1
        assert len(fake.containers) == 1
        assert node.status().phase == "Running"


async def test_B62_a_name_reserved_for_ever_raises_the_attempt(tmp_path: Path) -> None:
    fake = a_fake()
    fake.names["pod_default_uid-1_0"] = "nobody"
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: fake.running() == ["a"], 60)
        (sandbox,) = fake.sandboxes.values()
        assert sandbox.config.metadata.attempt == 1
