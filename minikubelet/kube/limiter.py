"""A token bucket: so many requests a second, a burst saved up; lists wait behind the rest.

Each request takes a token; tokens come back at `qps` a second up to `burst`. Among those who wait,
lower `priority` numbers go first, then who came first. Speaks anyio's time only.
"""

import heapq
import itertools
from dataclasses import dataclass, field

import anyio


@dataclass(order=True, slots=True)
class _Waiter:
    priority: int
    number: int
    turn: anyio.Event = field(compare=False, default_factory=anyio.Event)


class Limiter:
    """`qps` tokens a second, at most `burst` saved; qps 0 or less is no limit."""

    def __init__(self, qps: float, burst: int) -> None:
        self._qps = qps
        self._burst = max(burst, 1)
        self._tokens = float(self._burst)
        self._filled_at: float | None = None
        self._waiting: list[_Waiter] = []
        self._numbers = itertools.count()

    async def acquire(self, priority: int = 0) -> None:
        """Wait for a token and take it; a cancelled wait takes none."""
        if self._qps <= 0:
            return
        if not self._waiting and self._take():
            return
        me = _Waiter(priority, next(self._numbers))
        heapq.heappush(self._waiting, me)
        try:
            while True:
                if self._waiting[0] is not me:
                    me.turn = anyio.Event()
                    await me.turn.wait()
                elif self._take():
                    return
                else:
                    await anyio.sleep((1 - self._tokens) / self._qps)
        finally:
            self._leave(me)

    def _take(self) -> bool:
        now = anyio.current_time()
        if self._filled_at is not None:
            self._tokens += (now - self._filled_at) * self._qps
        self._tokens = min(self._tokens, self._burst)
        self._filled_at = now
        # A sleep may end a rounding error too early.
        if self._tokens < 1 - 1e-6:
            return False
        self._tokens -= 1
        return True

    def _leave(self, me: _Waiter) -> None:
        self._waiting.remove(me)
        heapq.heapify(self._waiting)
        if self._waiting:
            self._waiting[0].turn.set()
