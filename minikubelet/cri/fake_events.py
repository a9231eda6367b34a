"""The event stream of the in-memory runtime, as bad as a test wants it.

Real streams lose, repeat and reorder events, and break when the runtime restarts. Which event
suffers what is decided by a seeded generator, so a failing test fails again.
"""

import heapq
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio

from minikubelet.cri.errors import Unavailable
from minikubelet.cri.services import RuntimeEvent


@dataclass(frozen=True, slots=True)
class EventPolicy:
    """What happens to events. Shares are 0..1; delays are seconds, drawn for each event.

    A maximum delay above the minimum reorders events.
    """

    seed: int = 0
    dropped: float = 0.0
    doubled: float = 0.0
    delay_min: float = 0.0
    delay_max: float = 0.0
    with_pod_uid: bool = True
    """False: as containerd's own events, which don't know pods."""


@dataclass(slots=True)
class _Subscriber:
    queue: list[tuple[float, int, RuntimeEvent]] = field(default_factory=list)
    news: anyio.Event = field(default_factory=anyio.Event)
    broken: bool = False


class FakeEvents:
    """Fans events out to the subscribers, through the policy."""

    def __init__(self, policy: EventPolicy) -> None:
        # A test's reproducible disorder, nothing secret.
        self._random = random.Random(policy.seed)  # noqa: S311
        self._subscribers: list[_Subscriber] = []
        self._numbers = 0
        self.policy = policy

    def emit(self, event: RuntimeEvent) -> None:
        """Send one event on its way to every subscriber."""
        policy = self.policy
        if not policy.with_pod_uid:
            event = RuntimeEvent(event.kind, event.container_id)
        for subscriber in self._subscribers:
            if self._random.random() < policy.dropped:
                continue
            for _ in range(1 + (self._random.random() < policy.doubled)):
                due = anyio.current_time() + self._random.uniform(
                    policy.delay_min, policy.delay_max
                )
                self._numbers += 1
                heapq.heappush(subscriber.queue, (due, self._numbers, event))
            subscriber.news.set()

    def break_streams(self) -> None:
        """End every stream with an error, as a stopping runtime does."""
        for subscriber in self._subscribers:
            subscriber.broken = True
            subscriber.news.set()

    @asynccontextmanager
    async def subscribe(
        self, next_change: Callable[[], float], settle: Callable[[], None]
    ) -> AsyncIterator[AsyncIterator[RuntimeEvent]]:
        """Open a stream.

        `settle` lets the runtime do what is due; `next_change` is when it has to be called next.
        """
        subscriber = _Subscriber()
        self._subscribers.append(subscriber)
        try:
            yield self._stream(subscriber, next_change, settle)
        finally:
            self._subscribers.remove(subscriber)

    async def _stream(
        self,
        subscriber: _Subscriber,
        next_change: Callable[[], float],
        settle: Callable[[], None],
    ) -> AsyncIterator[RuntimeEvent]:
        while True:
            settle()
            if subscriber.broken:
                raise Unavailable("GetContainerEvents", "Unavailable", "error reading: EOF")
            now = anyio.current_time()
            if subscriber.queue and subscriber.queue[0][0] <= now:
                yield heapq.heappop(subscriber.queue)[2]
                continue
            subscriber.news = anyio.Event()
            due = subscriber.queue[0][0] if subscriber.queue else float("inf")
            with anyio.move_on_after(min(due, next_change()) - now):
                await subscriber.news.wait()
