"""kill -9 of the agent around every CRI call: afterwards exactly the right containers run."""

from collections import Counter
from pathlib import Path

import anyio
import pytest

from minikubelet.api.meta import CONFIG_SOURCE
from minikubelet.api.pod import Pod
from minikubelet.api.record import PodRecord
from minikubelet.cri import messages as m
from minikubelet.cri.fake import Exec, FakeRuntime, Program
from minikubelet.criconfig.labels import POD_NAME, POD_NAMESPACE, POD_UID
from minikubelet.pods.kit import NobodyListens
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import Crash, a_node, eventually

pytestmark = pytest.mark.anyio

HOOK = {"exec": {"command": ["hook"]}}
STARTS = (
    "RunPodSandbox:1",
    "PodSandboxStatus:1",
    *(f"{call}:{number}" for call in ("CreateContainer", "StartContainer") for number in (1, 2, 3)),
    "ListPodSandbox:2",
    "ListContainers:2",
    "ContainerStatus:1",
    "ExecSync:1",
)
ENDS = ("StopContainer:1", "StopContainer:2", "RemovePodSandbox:1")


def the_pod() -> Pod:
    return a_pod(
        a_container("main", lifecycle={"postStart": HOOK}),
        init=(a_container("init"), a_container("side", restartPolicy="Always")),
    )


def a_fake() -> FakeRuntime:
    fake = FakeRuntime()
    fake.images.add("busybox:1")
    programs = {"init": Program(runs_for=0.5)}
    fake.on_start = lambda config: programs.get(config.metadata.name)
    fake.on_exec = lambda _config, _command: Exec(takes=0.5)
    return fake


def is_complete(fake: FakeRuntime) -> bool:
    return fake.running() == ["side", "main"] and fake.script.count("ExecSync") > 0


async def crash_at(point: str, tmp_path: Path, fake: FakeRuntime, *, removing: bool) -> None:
    """Run the agent until it dies at the point."""

    async def until_it_dies() -> None:
        async with a_node(tmp_path, fake, desired=(the_pod(),), faults=point) as node:
            if removing:
                await eventually(lambda: is_complete(fake))
                node.registry.remove("uid-1")
            await anyio.sleep(120)

    with pytest.raises(BaseExceptionGroup) as caught:
        await until_it_dies()
    assert caught.group_contains(Crash), f"the fault at {point} was never reached"


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", STARTS)
async def test_a_crash_while_a_pod_starts(call: str, when: str, tmp_path: Path) -> None:
    fake = a_fake()
    await crash_at(f"{when}:{call}", tmp_path, fake, removing=False)
    async with a_node(tmp_path, fake, desired=(the_pod(),)) as node:
        await eventually(lambda: is_complete(fake))
        await eventually(lambda: node.status().phase == "Running")
        await anyio.sleep(90)
        assert fake.running() == ["side", "main"]
        assert len(fake.sandboxes) == 1
        records = Counter(c.config.metadata.name for c in fake.containers.values())
        assert records == {"init": 1, "side": 1, "main": 1}
        statuses = (*node.status().init_container_statuses, *node.status().container_statuses)
        assert {status.name: status.restart_count for status in statuses} == {
            "init": 0,
            "side": 0,
            "main": 0,
        }
        assert fake.script.count("ExecSync") in (1, 2)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ["RunPodSandbox:1", "CreateContainer:1", "StartContainer:1"])
async def test_a_crash_while_a_pod_starts_that_vanishes_meanwhile(
    call: str, when: str, tmp_path: Path
) -> None:
    fake = a_fake()
    await crash_at(f"{when}:{call}", tmp_path, fake, removing=False)
    async with a_node(tmp_path, fake, desired=()) as node:
        await eventually(lambda: not node.registry.workers and not fake.sandboxes)
        left = [path for path in tmp_path.rglob("*") if "uid-1" in path.name]
        assert left == []


@pytest.mark.parametrize("wanted", [True, False], ids=["put back", "gone"])
@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ENDS)
async def test_a_crash_while_a_pod_ends(call: str, when: str, wanted: bool, tmp_path: Path) -> None:
    fake = a_fake()
    await crash_at(f"{when}:{call}", tmp_path, fake, removing=True)
    desired = (the_pod(),) if wanted else ()
    async with a_node(tmp_path, fake, desired=desired) as node:
        if wanted:
            await eventually(lambda: fake.script.count("RunPodSandbox") == 2)
            await eventually(lambda: fake.running() == ["side", "main"])
            assert len(fake.sandboxes) == 1
        else:
            await eventually(lambda: node.registry.worker("uid-1") is None)
            assert not fake.sandboxes
            assert not fake.containers
            assert list((tmp_path / "minikubelet" / "pods").iterdir()) == []


async def test_containers_of_a_vanished_manifest_stop_with_their_own_grace(tmp_path: Path) -> None:
    fake = a_fake()
    fake.on_start = lambda config: Program(term_takes=20)
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: fake.running() == ["a"])
    async with a_node(tmp_path, fake, desired=()) as node:
        await anyio.sleep(15)
        assert fake.running() == ["a"]
        await eventually(lambda: not fake.sandboxes)


async def test_without_any_memory_labels_and_annotations_are_enough_to_end_a_pod(
    tmp_path: Path,
) -> None:
    fake = a_fake()
    fake.on_start = lambda config: Program(term_takes=20)
    async with a_node(tmp_path / "one", fake) as node:
        hooked = a_container("a", lifecycle={"preStop": HOOK})
        node.add(a_pod(hooked, terminationGracePeriodSeconds=60))
        await eventually(lambda: fake.running() == ["a"])
    async with a_node(tmp_path / "two", fake, desired=()) as node:
        await eventually(lambda: fake.script.count("ExecSync") == 1)
        await anyio.sleep(15)
        assert fake.running() == ["a"]
        await eventually(lambda: not fake.sandboxes)


async def test_after_a_reboot_pods_start_anew(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake, desired=(the_pod(),)):
        await eventually(lambda: is_complete(fake))
    fake.reboot()
    async with a_node(tmp_path, fake, desired=(the_pod(),)) as node:
        await eventually(lambda: fake.running() == ["side", "main"])
        await eventually(lambda: node.status().phase == "Running")
        assert len([s for s in fake.sandboxes.values() if s.ready]) == 1


async def test_a_restart_of_the_agent_calls_nothing_that_changes(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake, desired=(the_pod(),)) as node:
        await eventually(lambda: all(c.status == "True" for c in node.status().conditions))
        before = node.status()
    changing = ("Run", "Create", "Start", "Stop", "Remove", "ExecSync")
    fake.script.calls.clear()
    async with a_node(tmp_path, fake, desired=(the_pod(),)) as node:
        await anyio.sleep(200)
        assert [c.method for c in fake.script.calls if c.method.startswith(changing)] == []
        assert node.status() == before


class Wanted(NobodyListens):
    """Which pods were taken as somebody's wish."""

    def __init__(self) -> None:
        self.uids: list[str] = []

    def known(self, record: PodRecord, *, static: bool) -> None:
        self.uids.append(record.uid)


@pytest.mark.parametrize("source", ["api", "file"])
async def test_what_appears_in_the_runtime_and_nobody_wants_goes(
    source: str, tmp_path: Path
) -> None:
    fake, wanted = a_fake(), Wanted()
    async with a_node(tmp_path, fake, desired=(the_pod(),), statuses=wanted):
        await eventually(lambda: is_complete(fake))
        # Such as a sandbox that a runtime finds again when it is restarted.
        await fake.run_pod_sandbox(
            m.PodSandboxConfig(
                metadata=m.PodSandboxMetadata(name="stray", namespace="default", uid="uid-9"),
                labels={POD_UID: "uid-9", POD_NAME: "stray", POD_NAMESPACE: "default"},
                annotations={CONFIG_SOURCE: source},
            )
        )
        await eventually(lambda: len(fake.sandboxes) == 1)
        assert is_complete(fake)
    assert wanted.uids == ["uid-1"]
