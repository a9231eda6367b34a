"""The one door to time.

Durations are monotonic seconds from the event loop (`anyio.current_time`), so that simulated time
works in tests and a jump of the wall clock changes no deadline. Wall time is for people and the
API.
"""

import time
from typing import Protocol

import anyio


class Clock(Protocol):
    """Monotonic seconds and wall-clock time."""

    def monotonic(self) -> float:
        """Seconds that never go back."""

    def wall_ns(self) -> int:
        """Unix nanoseconds."""


class SystemClock:
    """The real clock."""

    def monotonic(self) -> float:
        """Return the event loop's time."""
        return anyio.current_time()

    def wall_ns(self) -> int:
        """Return Unix nanoseconds."""
        return time.time_ns()
