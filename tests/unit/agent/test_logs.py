"""Which log a request gets: the instance that the status names, or the kubelet's refusal."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.agent.logs import LogReader, instance_of
from minikubelet.api.status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)
from minikubelet.cri.fake import FakeRuntime, Program
from minikubelet.server.callables import LogRequest, NotFound, NotReady
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import Node, a_node, eventually

pytestmark = pytest.mark.anyio

RUNNING = ContainerState(running=ContainerStateRunning())
NOTHING = ContainerState()


def ended(container_id: str = "") -> ContainerState:
    return ContainerState(terminated=ContainerStateTerminated(container_id=container_id))


def waiting(reason: str = "") -> ContainerState:
    return ContainerState(waiting=ContainerStateWaiting(reason=reason))


class TestInstance:
    @pytest.mark.parametrize(
        ("state", "last", "previous", "found"),
        [
            pytest.param(RUNNING, NOTHING, False, "c://now", id="it runs"),
            pytest.param(RUNNING, ended("c://old"), False, "c://now", id="it runs again"),
            pytest.param(RUNNING, ended("c://old"), True, "c://old", id="previous of a running"),
            pytest.param(ended("c://end"), ended("c://old"), False, "c://end", id="it ended"),
            pytest.param(ended("c://end"), ended("c://old"), True, "c://old", id="before the end"),
            pytest.param(ended(), ended("c://old"), False, "c://old", id="next was never started"),
            pytest.param(
                waiting("CrashLoopBackOff"), ended("c://old"), False, "c://old", id="loop"
            ),
            pytest.param(
                waiting("CrashLoopBackOff"), ended("c://old"), True, "c://old", id="loop-p"
            ),
        ],
    )
    def test_which(
        self, state: ContainerState, last: ContainerState, previous: bool, found: str
    ) -> None:
        status = ContainerStatus(name="a", state=state, last_state=last, container_id="c://now")
        assert instance_of("pod", status, previous=previous) == found

    @pytest.mark.parametrize(
        ("state", "last", "previous", "text"),
        [
            (RUNNING, NOTHING, True, 'previous terminated container "a" in pod "pod" not found'),
            (RUNNING, ended(), True, 'previous terminated container "a" in pod "pod" not found'),
            (ended(), NOTHING, False, 'container "a" in pod "pod" is terminated'),
            (waiting(), ended(), False, 'container "a" in pod "pod" is terminated'),
            (
                waiting("ErrImagePull"),
                NOTHING,
                False,
                'container "a" in pod "pod" is waiting to start: image can\'t be pulled',
            ),
            (
                waiting("ImagePullBackOff"),
                NOTHING,
                False,
                'container "a" in pod "pod" is waiting to start: trying and failing to pull image',
            ),
            (
                waiting("PodInitializing"),
                NOTHING,
                False,
                'container "a" in pod "pod" is waiting to start: PodInitializing',
            ),
            (
                NOTHING,
                NOTHING,
                False,
                'container "a" in pod "pod" is waiting to start - no logs yet',
            ),
        ],
    )
    def test_none(
        self, state: ContainerState, last: ContainerState, previous: bool, text: str
    ) -> None:
        status = ContainerStatus(name="a", state=state, last_state=last)
        with pytest.raises(NotReady) as refusal:
            instance_of("pod", status, previous=previous)
        assert str(refusal.value) == text


def a_fake(**programs: Program) -> FakeRuntime:
    fake = FakeRuntime()
    fake.images.add("busybox:1")
    fake.on_start = lambda config: programs.get(config.metadata.name)
    return fake


def write(node: Node, name: str, *lines: str, nth: int = 0) -> None:
    """Append to the log of the nth newest instance of a container."""
    record = list(node.kit.cache.get("uid-1").records(name))[nth]
    path = Path(record.log_path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as log:
        log.writelines(f"2026-01-02T03:04:05.000000001Z stdout F {line}\n" for line in lines)


def a_reader(node: Node) -> LogReader:
    return LogReader(node.kit.cache.get, node.kit.clock.wall_ns)


async def read(node: Node, container: str = "a", pod: str = "pod", **options: Any) -> bytes:
    request = LogRequest("default", pod, container, **options)
    async with a_reader(node).read(request, node.registry) as pieces:
        return b"".join([piece async for piece in pieces])


async def test_a_running_container_and_the_options(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake()) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: node.status().phase == "Running")
        write(node, "a", "one", "two", "three")
        assert await read(node) == b"one\ntwo\nthree\n"
        assert await read(node, tail_lines=1) == b"three\n"
        assert await read(node, limit_bytes=5) == b"one\nt"
        stamped = await read(node, tail_lines=1, timestamps=True)
        assert stamped == b"2026-01-02T03:04:05.000000001Z three\n"
        assert await read(node, since_time="2026-01-02T03:04:05Z") == b"one\ntwo\nthree\n"
        assert await read(node, since_time="2026-01-02T03:04:06Z") == b""


async def test_since_counts_back_from_now(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake()) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: node.status().phase == "Running")
        write(node, "a", "written later than the simulated now")
        moment = 1_767_323_045 + 60  # a minute after the line's time
        reader = LogReader(node.kit.cache.get, lambda: moment * 1_000_000_000)
        for seconds, length in ((30, 0), (90, 1)):
            request = LogRequest("default", "pod", "a", since_seconds=seconds)
            async with reader.read(request, node.registry) as pieces:
                assert len([piece async for piece in pieces]) == length


async def test_an_init_container_that_has_ended(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake(setup=Program(runs_for=1))) as node:
        node.add(a_pod(a_container("a"), init=(a_container("setup"),)))
        await eventually(lambda: node.status().phase == "Running")
        write(node, "setup", "set up")
        assert await read(node, "setup", follow=True) == b"set up\n"


async def test_an_ephemeral_container(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake()) as node:
        node.add(a_pod(a_container("a"), ephemeralContainers=[a_container("debug")]))
        await eventually(lambda: node.kit.cache.get("uid-1").newest("debug") is not None)
        await eventually(lambda: len(node.kit.cache.get("uid-1").running) == 2)
        write(node, "debug", "hello")
        assert await read(node, "debug") == b"hello\n"


async def test_a_crash_loop_shows_the_instance_that_ended_also_as_previous(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake(a=Program(exit_code=1, runs_for=0.5))) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: node.reasons().count("BackOff") == 1)
        await eventually(lambda: node.status().container_statuses[0].state.waiting is not None)
        write(node, "a", "newest end")
        assert await read(node) == b"newest end\n"
        assert await read(node, previous=True) == b"newest end\n"


async def test_previous_of_a_container_that_runs_again(tmp_path: Path) -> None:
    programs = [Program(exit_code=1, runs_for=0.5), Program()]
    fake = a_fake()
    fake.on_start = lambda _config: programs.pop(0)
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: not programs and fake.running() == ["a"])
        await eventually(lambda: node.status().container_statuses[0].ready)
        write(node, "a", "second life")
        write(node, "a", "first life", nth=1)
        assert await read(node) == b"second life\n"
        assert await read(node, previous=True) == b"first life\n"


class TestFollow:
    async def test_it_goes_on_until_the_container_ends(self, tmp_path: Path) -> None:
        async with a_node(tmp_path, a_fake(a=Program(runs_for=30))) as node:
            node.add(a_pod(a_container("a"), restartPolicy="Never"))
            await eventually(lambda: node.status().phase == "Running")
            write(node, "a", "one")
            got: list[bytes] = []
            async with anyio.create_task_group() as group:

                async def follow() -> None:
                    got.append(await read(node, follow=True))

                group.start_soon(follow)
                await anyio.sleep(10)
                write(node, "a", "two")
                await anyio.sleep(10)
                assert got == []
            assert got == [b"one\ntwo\n"]
            assert 30 <= anyio.current_time() < 35

    async def test_it_ends_also_when_nobody_is_woken(self, tmp_path: Path) -> None:
        async with a_node(tmp_path, a_fake(a=Program(runs_for=30))) as node:
            node.add(a_pod(a_container("a"), restartPolicy="Never"))
            await eventually(lambda: node.status().phase == "Running")
            write(node, "a", "one")
            # As if the worker had gone before the news of the end came.
            node.worker().runtime_changed = lambda: None  # type: ignore[method-assign]
            with anyio.fail_after(60):
                assert await read(node, follow=True) == b"one\n"
            assert 30 <= anyio.current_time() < 35

    async def test_it_ends_with_its_pod(self, tmp_path: Path) -> None:
        async with a_node(tmp_path, a_fake()) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: node.status().phase == "Running")
            write(node, "a", "one")
            request = LogRequest("default", "pod", "a", follow=True)
            async with a_reader(node).read(request, node.registry) as pieces:
                assert await anext(pieces) == b"one\n"
                node.registry.remove("uid-1")
                with anyio.fail_after(60):
                    assert [piece async for piece in pieces] == []


class TestRefusals:
    async def test_names_that_nobody_has(self, tmp_path: Path) -> None:
        async with a_node(tmp_path, a_fake()) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: node.status().phase == "Running")
            with pytest.raises(NotFound, match='pod "other" does not exist'):
                await read(node, pod="other")
            with pytest.raises(NotFound, match='container "b" not found in pod "pod"'):
                await read(node, "b")

    async def test_a_log_file_that_is_missing(self, tmp_path: Path) -> None:
        async with a_node(tmp_path, a_fake()) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: node.status().phase == "Running")
            text = "unable to retrieve container logs for fake://.*: .*/a/0.log does not exist"
            with pytest.raises(NotReady, match=text):
                await read(node)

    async def test_a_container_that_waits_for_its_init_container(self, tmp_path: Path) -> None:
        async with a_node(tmp_path, a_fake()) as node:
            node.add(a_pod(a_container("a"), init=(a_container("setup"),)))
            await eventually(lambda: len(node.kit.cache.get("uid-1").running) == 1)
            with pytest.raises(NotReady, match="is waiting to start: PodInitializing"):
                await read(node)
