import pytest
import trio.testing


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Simulated time; `harness.jump` moves it, never while a real thread (state files) works."""
    return ("trio", {"clock": trio.testing.MockClock()})
