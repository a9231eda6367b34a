"""One heap of due times for all probes of the node, worked off in rounds.

Rounds are at least ROUND_SECONDS apart: what falls due in between shares the loop's wake-ups, which
costs a third of a task and a timer for each probe. An idle schedule sleeps.
"""

import heapq
import itertools
import math
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

import anyio

ROUND_SECONDS = 0.05
NEVER = math.inf


class Due(Protocol):
    """Something with a time of its own: the entry that agrees with it counts, older ones don't."""

    due: float


T = TypeVar("T", bound=Due)


class Schedule(Generic[T]):
    """Due times in monotonic seconds."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, T]] = []
        self._numbers = itertools.count()
        self._wake = anyio.Event()
        self._sleeps_until = NEVER

    def put(self, item: T, due: float) -> None:
        """Set when an item is due; its earlier time is void."""
        item.due = due
        heapq.heappush(self._heap, (due, next(self._numbers), item))
        if due < self._sleeps_until:
            self._wake.set()

    def fallen_due(self, now: float) -> Iterator[T]:
        """Take out what is due, the earliest first."""
        while self._heap and (self._heap[0][0] <= now or self._heap[0][2].due != self._heap[0][0]):
            due, _, item = heapq.heappop(self._heap)
            if item.due == due:
                yield item

    async def rest(self) -> None:
        """Wait for the next round."""
        await anyio.sleep(ROUND_SECONDS if self._heap else 0)
        while self._heap and self._heap[0][2].due != self._heap[0][0]:
            heapq.heappop(self._heap)
        self._sleeps_until = self._heap[0][0] if self._heap else NEVER
        pause = self._sleeps_until - anyio.current_time()
        if pause > 0:
            with anyio.move_on_after(pause):
                await self._wake.wait()
        self._wake = anyio.Event()
        self._sleeps_until = NEVER
