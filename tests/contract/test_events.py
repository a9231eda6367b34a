"""Event streams: what they tell, when they break, and a runtime that goes away and comes back."""

from collections.abc import AsyncIterator

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError, Unavailable, Unimplemented
from minikubelet.cri.services import EventKind, RuntimeEvent, RuntimeEvents
from tests.contract.conftest import SLEEP, Harness

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[0, 1], ids=["quickest source", "next source"])
async def source(request: pytest.FixtureRequest, harness: Harness) -> AsyncIterator[RuntimeEvents]:
    if request.param >= len(harness.events):
        yield harness.events[0]
        return
    found = harness.events[request.param]
    try:
        async with found.subscribe():
            pass
    except Unimplemented:
        pytest.skip("containerd 1.6 has no CRI event stream")
    yield found


async def collect_until(
    stream: AsyncIterator[RuntimeEvent], kind: EventKind, container_id: str
) -> list[EventKind]:
    """Return what was told about a container, up to the wanted kind."""
    seen = []
    with anyio.fail_after(10):
        async for event in stream:
            if event.container_id == container_id:
                seen.append(event.kind)
                if event.kind is kind:
                    break
    return seen


async def test_a_containers_life_is_told(harness: Harness, source: RuntimeEvents) -> None:
    sandbox_id = await harness.sandbox()
    async with source.subscribe() as stream:
        container_id = await harness.start("exit 0", sandbox_id)
        seen = await collect_until(stream, EventKind.STOPPED, container_id)
        assert EventKind.STARTED in seen
        await harness.exited(container_id)
        await harness.runtime.remove_container(container_id)
        await collect_until(stream, EventKind.DELETED, container_id)


async def test_a_sandboxs_end_is_told(harness: Harness, source: RuntimeEvents) -> None:
    sandbox_id = await harness.sandbox()
    async with source.subscribe() as stream:
        await harness.runtime.stop_pod_sandbox(sandbox_id)
        await collect_until(stream, EventKind.STOPPED, sandbox_id)


async def test_a_commands_end_is_not_its_containers(
    harness: Harness, source: RuntimeEvents
) -> None:
    container_id = await harness.start(SLEEP)
    async with source.subscribe() as stream:
        await harness.runtime.exec_sync(container_id, ["/bin/sh", "-c", "true"], 10)
        await harness.runtime.stop_container(container_id, 10)
        await harness.exited(container_id)
        await harness.runtime.remove_container(container_id)
        seen = await collect_until(stream, EventKind.DELETED, container_id)
    assert seen.count(EventKind.STOPPED) == 1


async def test_a_runtime_that_goes_away_breaks_streams_and_comes_back_with_its_pods(
    harness: Harness, source: RuntimeEvents
) -> None:
    container_id = await harness.start(SLEEP)
    async with source.subscribe() as stream:
        await stop_runtime(harness)
        with anyio.fail_after(5):
            await until_broken(stream)
    with pytest.raises(Unavailable):
        await harness.runtime.version()
    await start_runtime(harness)
    with anyio.fail_after(3.5):  # the longest pause between two attempts to connect, and a bit
        await until_available(harness)
    status = await harness.runtime.container_status(container_id)
    assert status.state == m.CONTAINER_RUNNING
    async with source.subscribe() as stream:
        await harness.runtime.stop_container(container_id, 10)
        await collect_until(stream, EventKind.STOPPED, container_id)


async def until_broken(stream: AsyncIterator[RuntimeEvent]) -> None:
    """A stream may end or raise: both tell that events were lost."""
    try:
        async for _ in stream:
            pass
    except CRIError:
        pass


async def until_available(harness: Harness) -> None:
    while True:
        try:
            await harness.runtime.version()
        except Unavailable:
            await anyio.sleep(0.05)
        else:
            return


async def stop_runtime(harness: Harness) -> None:
    if harness.containerd is not None:
        await anyio.to_thread.run_sync(harness.containerd.stop)
    elif harness.fake is not None:
        harness.fake.stop_runtime()


async def start_runtime(harness: Harness) -> None:
    if harness.containerd is not None:
        await anyio.to_thread.run_sync(harness.containerd.start)
    elif harness.fake is not None:
        harness.fake.start_runtime()
