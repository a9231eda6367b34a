"""The QPS limit on simulated time."""

import anyio
import pytest

from minikubelet.kube.limiter import Limiter

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(simulated_backend: object) -> object:
    return simulated_backend


async def finished(limiter: Limiter, priorities: list[int]) -> list[tuple[float, int]]:
    """Return (second, priority) of each request in the order of their ends."""
    ends: list[tuple[float, int]] = []
    begun = anyio.current_time()

    async def one(priority: int) -> None:
        await limiter.acquire(priority)
        ends.append((round(anyio.current_time() - begun, 2), priority))

    async with anyio.create_task_group() as group:
        for priority in priorities:
            group.start_soon(one, priority)
    return ends


async def test_a_burst_goes_at_once_and_the_rest_at_the_rate() -> None:
    ends = await finished(Limiter(qps=10, burst=3), [0] * 6)
    assert [second for second, _ in ends] == [0, 0, 0, 0.1, 0.2, 0.3]


async def test_what_waits_less_urgently_goes_last() -> None:
    limiter = Limiter(qps=10, burst=1)
    await limiter.acquire()
    ends = await finished(limiter, [1, 1, 1, 0, 0])
    assert ends == [(0.1, 0), (0.2, 0), (0.3, 1), (0.4, 1), (0.5, 1)]


async def test_idle_time_saves_up_to_the_burst_only() -> None:
    limiter = Limiter(qps=10, burst=2)
    await finished(limiter, [0, 0])
    await anyio.sleep(100)
    assert [second for second, _ in await finished(limiter, [0] * 4)] == [0, 0, 0.1, 0.2]


async def test_without_a_rate_nothing_waits() -> None:
    assert [second for second, _ in await finished(Limiter(qps=0, burst=0), [0] * 500)] == [0] * 500


async def test_one_who_gives_up_takes_no_token() -> None:
    limiter = Limiter(qps=1, burst=1)
    await limiter.acquire()
    with anyio.move_on_after(0.5) as scope:
        await limiter.acquire()
    assert scope.cancelled_caught
    begun = anyio.current_time()
    await limiter.acquire()
    assert round(anyio.current_time() - begun, 2) == 0.5
