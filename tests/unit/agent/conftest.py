import pytest
import trio.testing


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Simulated time, jumping only when real threads (log files) had time to finish."""
    return ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0.005)})
