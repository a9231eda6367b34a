"""What all tests share: the event loop they run on.

Unit tests of rooms that speak only anyio take `simulated` time: trio's clock jumps to the next
deadline when every task waits, so minutes pass in milliseconds and nothing sleeps for real.
"""

import pytest
import trio.testing

pytest_plugins = ("tests.allowed_skips", "tests.clusters", "tests.containerds")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def simulated_backend() -> tuple[str, dict[str, object]]:
    """The `anyio_backend` of modules on simulated time: override the fixture with this value."""
    return ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})
