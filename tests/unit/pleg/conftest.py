import pytest


@pytest.fixture
def anyio_backend(simulated_backend: object) -> object:
    return simulated_backend
