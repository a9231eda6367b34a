"""Simulated time for tests of parts that speak only anyio: hours pass in milliseconds.

A folder's conftest takes `anyio_backend` from here; a test starts `jump` (pods/harness.py) beside
what it tests.
"""

from typing import Any

import anyio
import pytest
import trio.testing


@pytest.fixture
def anyio_backend() -> Any:
    """Return trio with a clock that stands until somebody moves it."""
    return ("trio", {"clock": trio.testing.MockClock()})


class Clock:
    """The loop's time; the wall clock began in November 2023."""

    def monotonic(self) -> float:
        """Return the loop's time."""
        return anyio.current_time()

    def wall_ns(self) -> int:
        """Return the same as Unix nanoseconds."""
        return round((1_700_000_000 + anyio.current_time()) * 1e9)
