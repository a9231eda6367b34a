"""Answers of the apiserver that count for a while: who somebody is, what they may do.

One question is asked once however many requests wait for it. Failures aren't remembered. Owns the
answers and how many are kept; what is asked and how long it counts is the caller's.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

import anyio

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_ANSWERS = 8192


@dataclass(slots=True)
class _Question:
    lock: anyio.Lock = field(default_factory=anyio.Lock)
    waiting: int = 0


class Answers(Generic[K, V]):
    """Answers by question, each with the moment at which it stops counting. No I/O, no clock."""

    def __init__(self, limit: int = MAX_ANSWERS) -> None:
        self._limit = limit
        self._kept: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def get(self, question: K, now: float) -> V | None:
        """Return an answer that still counts."""
        until, answer = self._kept.get(question, (now, None))
        if until > now:
            return answer
        self._kept.pop(question, None)
        return None

    def put(self, question: K, answer: V, until: float) -> None:
        """Keep an answer; the oldest goes when there are too many."""
        self._kept[question] = (until, answer)
        self._kept.move_to_end(question)
        if len(self._kept) > self._limit:
            self._kept.popitem(last=False)

    def __len__(self) -> int:
        """Return how many are kept."""
        return len(self._kept)


class Remembered(Generic[K, V]):
    """Asks, and remembers for `seconds_of(answer)`."""

    def __init__(self, seconds_of: Callable[[V], float], limit: int = MAX_ANSWERS) -> None:
        self._seconds_of = seconds_of
        self._answers: Answers[K, V] = Answers(limit)
        self._asked: dict[K, _Question] = {}

    async def get(self, question: K, ask: Callable[[], Awaitable[V]]) -> V:
        """Return the answer, asking if there is none that counts. Raises what `ask` raises."""
        answer = self._answers.get(question, anyio.current_time())
        if answer is not None:
            return answer
        asked = self._asked.setdefault(question, _Question())
        asked.waiting += 1
        try:
            async with asked.lock:
                answer = self._answers.get(question, anyio.current_time())
                if answer is None:
                    answer = await ask()
                    until = anyio.current_time() + self._seconds_of(answer)
                    self._answers.put(question, answer, until)
                return answer
        finally:
            asked.waiting -= 1
            if not asked.waiting:
                self._asked.pop(question, None)
