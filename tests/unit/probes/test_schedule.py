from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

from minikubelet.probes.schedule import NEVER, ROUND_SECONDS, Schedule

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(simulated_backend: object) -> object:
    return simulated_backend


@dataclass(eq=False)
class Item:
    due: float = NEVER


@dataclass
class Seen:
    schedule: Schedule[Item] = field(default_factory=Schedule)
    rounds: int = 0
    items: list[tuple[float, Item]] = field(default_factory=list)


@asynccontextmanager
async def working() -> AsyncIterator[Seen]:
    seen = Seen()

    async def work() -> None:
        while True:
            seen.rounds += 1
            now = anyio.current_time()
            seen.items += [(now, item) for item in seen.schedule.fallen_due(now)]
            await seen.schedule.rest()

    async with anyio.create_task_group() as group:
        group.start_soon(work)
        await anyio.sleep(1)
        yield seen
        group.cancel_scope.cancel()


async def test_items_come_when_they_are_due_the_earliest_first() -> None:
    async with working() as seen:
        now = anyio.current_time()
        items = [Item(), Item(), Item()]
        for item, due in zip(items, (5.0, 3.0, 4.0), strict=True):
            seen.schedule.put(item, now + due)
        await anyio.sleep(10)
    assert [item for _, item in seen.items] == [items[1], items[2], items[0]]
    times = [at - now for at, _ in seen.items]
    assert times == pytest.approx([3, 4, 5], abs=ROUND_SECONDS)


async def test_only_the_last_time_of_an_item_counts() -> None:
    async with working() as seen:
        now = anyio.current_time()
        moved, dropped = Item(), Item()
        seen.schedule.put(moved, now + 2)
        seen.schedule.put(moved, now + 5)
        seen.schedule.put(dropped, now + 3)
        dropped.due = NEVER
        await anyio.sleep(10)
    assert [(round(at - now), item) for at, item in seen.items] == [(5, moved)]


async def test_an_earlier_item_wakes_it() -> None:
    async with working() as seen:
        seen.schedule.put(Item(), anyio.current_time() + 1000)
        await anyio.sleep(5)
        now = anyio.current_time()
        seen.schedule.put(Item(), now)
        await anyio.sleep(1)
    assert seen.items[0][0] - now <= ROUND_SECONDS


async def test_what_falls_due_in_between_shares_a_round() -> None:
    async with working() as seen:
        before, now = seen.rounds, anyio.current_time()
        for number in range(500):
            seen.schedule.put(Item(), now + 1 + number / 500)
        await anyio.sleep(3)
    assert len(seen.items) == 500
    assert seen.rounds - before <= 1 / ROUND_SECONDS + 5
    assert all(at >= item.due for at, item in seen.items)


async def test_an_idle_schedule_sleeps() -> None:
    async with working() as seen:
        now = anyio.current_time()
        for _ in range(100):
            seen.schedule.put(Item(), now + 3600)
        await anyio.sleep(1)
        before = seen.rounds
        await anyio.sleep(3000)
    assert seen.rounds == before
