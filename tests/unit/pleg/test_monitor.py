"""The watch over the runtime: hints that come before the state, streams that the runtime lacks."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.errors import Unimplemented
from minikubelet.cri.fake import EventPolicy, FakeRuntime
from minikubelet.cri.services import RuntimeEvent
from minikubelet.lifecycle.runtime import State
from minikubelet.pleg.cache import PodCache
from minikubelet.pleg.monitor import RELIST_WITHOUT_EVENTS, STRANGER_SECONDS, Monitor

pytestmark = pytest.mark.anyio


class SlowToNotice(FakeRuntime):
    """As containerd: the exit event leaves before the CRI plugin has taken notice of it."""

    late = 0
    earlier: Any = m.CONTAINER_RUNNING

    async def list_containers(self, **filters: Any) -> Sequence[m.Container]:
        listed = await super().list_containers(**filters)
        for container in listed:
            if container.state == m.CONTAINER_EXITED and self.late > 0:
                self.late -= 1
                container.state = self.earlier
        return listed

    async def container_status(self, container_id: str) -> m.ContainerStatus:
        status = await super().container_status(container_id)
        if self.late > 0:
            status.state = self.earlier
        return status


class NoStream:
    """A stream that the runtime doesn't have."""

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[RuntimeEvent]]:
        raise Unimplemented("GetContainerEvents", "Unimplemented", "no")
        yield  # type: ignore[unreachable]  # makes it a generator


class Clock:
    def monotonic(self) -> float:
        return anyio.current_time()

    def wall_ns(self) -> int:
        return int(anyio.current_time() * 1e9)


async def no_message(_status: m.ContainerStatus) -> str:
    return ""


async def a_container(fake: FakeRuntime) -> str:
    labels = {"io.kubernetes.pod.uid": "u"}
    config = m.PodSandboxConfig(
        metadata=m.PodSandboxMetadata(name="p", namespace="n", uid="u"), labels=labels
    )
    fake.images.add("busybox:1")
    sandbox = await fake.run_pod_sandbox(config)
    container = m.ContainerConfig(
        metadata=m.ContainerMetadata(name="c"), image=m.ImageSpec(image="busybox:1"), labels=labels
    )
    container_id = await fake.create_container(sandbox, container, config)
    await fake.start_container(container_id)
    return container_id


@asynccontextmanager
async def watching(fake: FakeRuntime) -> AsyncIterator[tuple[PodCache, list[str]]]:
    """Yield the cache of a running monitor, and the pods that it told of."""
    changes: list[str] = []
    cache = PodCache(fake, Clock(), no_message)
    monitor = Monitor(cache, [fake], Clock(), changes.append, lambda: None)
    async with anyio.create_task_group() as group:
        await group.start(monitor.run)
        yield cache, changes
        group.cancel_scope.cancel()


@pytest.mark.parametrize("late", [4, 15])
@pytest.mark.parametrize("earlier", [m.CONTAINER_CREATED, m.CONTAINER_RUNNING])
async def test_after_an_exit_hint_the_runtime_is_asked_until_it_agrees(
    earlier: Any, late: int
) -> None:
    fake = SlowToNotice()
    fake.earlier = earlier
    container_id = await a_container(fake)
    async with watching(fake) as (cache, changes):
        assert cache.get("u").containers[0].state is State.RUNNING
        fake.late = late
        fake.exit(container_id, 3)
        await anyio.sleep(late)
        assert cache.get("u").containers[0].state is State.EXITED
        assert cache.get("u").containers[0].exit_code == 3
    assert changes[-1] == "u"


async def test_the_start_of_a_stranger_is_looked_into_a_little_later() -> None:
    fake = FakeRuntime(events=EventPolicy(with_pod_uid=False))
    async with watching(fake) as (cache, changes):
        container_id = await a_container(fake)
        await anyio.sleep(STRANGER_SECONDS / 2)
        assert changes == []
        await anyio.sleep(STRANGER_SECONDS)
        assert set(changes) == {"u"}
        assert cache.get("u").containers[0].state is State.RUNNING
        assert cache.owner(container_id) == "u"


async def test_who_says_whose_it_is_spares_the_search() -> None:
    fake = FakeRuntime(events=EventPolicy(with_pod_uid=False))
    async with watching(fake) as (cache, _):
        sandbox = await fake.run_pod_sandbox(m.PodSandboxConfig())
        await anyio.sleep(STRANGER_SECONDS / 2)
        cache.learn(sandbox, "u")
        asked = fake.script.count("ListContainers")
        await anyio.sleep(3 * STRANGER_SECONDS)
        assert fake.script.count("ListContainers") == asked


async def test_the_end_of_a_stranger_is_looked_into_at_once() -> None:
    fake = FakeRuntime(events=EventPolicy(with_pod_uid=False))
    async with watching(fake) as (cache, changes):
        fake.exit(await a_container(fake), 3)
        await anyio.sleep(STRANGER_SECONDS / 2)
        assert changes
        assert cache.get("u").containers[0].exit_code == 3


async def test_a_search_for_an_owner_holds_up_no_other_event() -> None:
    fake = FakeRuntime(events=EventPolicy(with_pod_uid=False))
    container_id = await a_container(fake)
    async with watching(fake) as (cache, _):
        (sandbox,) = fake.sandboxes
        stranger = await fake.run_pod_sandbox(m.PodSandboxConfig())
        fake.script.inject("ListContainers", 40.0)
        await fake.stop_pod_sandbox(stranger)
        await anyio.sleep(0.1)
        fake.exit(container_id, 3)
        await anyio.sleep(1)
        assert cache.get("u").containers[0].state is State.EXITED
        assert cache.owner(sandbox) == "u"


@pytest.mark.parametrize("streams", [0, 1, 2])
async def test_without_a_stream_a_relist_each_second_stands_in(streams: int) -> None:
    fake = FakeRuntime()
    container_id = await a_container(fake)
    cache = PodCache(fake, Clock(), no_message)
    monitor = Monitor(
        cache, [NoStream() for _ in range(streams)], Clock(), lambda _uid: None, lambda: None
    )
    async with anyio.create_task_group() as group:
        await group.start(monitor.run)
        fake.exit(container_id, 1)
        await anyio.sleep(RELIST_WITHOUT_EVENTS + 0.5)
        assert cache.get("u").containers[0].state is State.EXITED
        group.cancel_scope.cancel()


async def test_a_view_is_never_older_than_asked_for() -> None:
    fake = FakeRuntime()
    container_id = await a_container(fake)
    cache = PodCache(fake, Clock(), no_message)
    await cache.newer_than("u", float("-inf"))
    fake.exit(container_id, 1)
    await anyio.sleep(1)
    assert cache.get("u").containers[0].state is State.RUNNING
    view = await cache.newer_than("u", anyio.current_time() - 0.5)
    assert view.containers[0].state is State.EXITED
    asked = fake.script.count("ListContainers")
    await cache.newer_than("u", anyio.current_time() - 0.5)
    assert fake.script.count("ListContainers") == asked


async def test_readers_at_the_same_time_share_one_look() -> None:
    fake = FakeRuntime()
    await a_container(fake)
    cache = PodCache(fake, Clock(), no_message)
    await anyio.sleep(1)
    moment = anyio.current_time() - 0.5
    async with anyio.create_task_group() as group:
        for _ in range(10):
            group.start_soon(cache.newer_than, "u", moment)
    assert fake.script.count("ListContainers") == 1


async def test_a_sandbox_of_the_host_s_network_is_asked_for_its_address_once() -> None:
    fake = FakeRuntime()
    config = m.PodSandboxConfig(
        metadata=m.PodSandboxMetadata(name="p", namespace="n", uid="u"),
        labels={"io.kubernetes.pod.uid": "u"},
    )
    config.linux.security_context.namespace_options.network = m.NODE
    await fake.run_pod_sandbox(config)
    cache = PodCache(fake, Clock(), no_message)
    for _ in range(3):
        view = await cache.refresh("u")
        assert view.sandboxes[0].ips == ()
    assert fake.script.count("PodSandboxStatus") == 1


async def test_a_look_without_an_answer_can_be_seen() -> None:
    fake = FakeRuntime()
    fake.script.inject("ListPodSandbox", 40.0)
    cache = PodCache(fake, Clock(), no_message)
    async with anyio.create_task_group() as group:
        assert cache.unanswered() == 0
        group.start_soon(cache.refresh, "u")
        await anyio.sleep(30)
        assert cache.unanswered() == pytest.approx(30)
        await anyio.sleep(20)
        assert cache.unanswered() == 0


async def test_nothing_is_kept_of_a_pod_that_is_gone() -> None:
    fake = FakeRuntime()
    await a_container(fake)
    cache = PodCache(fake, Clock(), no_message)
    assert (await cache.refresh("u")).containers
    for sandbox in list(fake.sandboxes):
        await fake.remove_pod_sandbox(sandbox)
    assert not (await cache.refresh("u")).sandboxes
    cache.forget("u")
    await cache.refresh("u")  # for an event that came late
    kept = {name: value for name, value in vars(cache).items() if value in ({}, set())}
    assert {"_views", "_locks", "_owners", "_dirty"} <= kept.keys()


@pytest.mark.parametrize(
    "labels", [{}, {"io.kubernetes.pod.uid": "../x"}], ids=["without labels", "no plain uid"]
)
async def test_what_no_kubelet_made_is_left_alone(labels: dict[str, str]) -> None:
    fake = FakeRuntime()
    config = m.PodSandboxConfig(
        metadata=m.PodSandboxMetadata(name="p", namespace="n", uid="../x"), labels=labels
    )
    sandbox = await fake.run_pod_sandbox(config)
    cache = PodCache(fake, Clock(), no_message)
    assert await cache.relist() == set()
    assert cache.uids() == set()
    assert await cache.find_owner(sandbox) == ""
