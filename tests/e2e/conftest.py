"""Agents on real containerds. Tests run once with each version of containerd."""

import itertools
from collections.abc import AsyncIterator, Generator

import pytest

from minikubelet.cri.client import connect
from tests.containerds import Containerd
from tests.e2e.agent import Agent
from tests.e2e.outcome import FAILED
from tests.leftovers import Mark

_NUMBERS = itertools.count(1)
_SHARING: set[Containerd] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: object
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure, so that the agent's fixture shows what it saw."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Return the event loop's name; for the whole session, so that an agent can outlive a test."""
    return "asyncio"


@pytest.fixture(scope="module")
async def shared(
    request: pytest.FixtureRequest, containerd: Containerd, session_mark: Mark, anyio_backend: str
) -> AsyncIterator[Agent]:
    """A running agent for all tests of a module: `node` hands it out.

    A function `prepare(agent)` of the module is called before the agent starts.
    """
    number = next(_NUMBERS)
    client = connect(containerd.endpoint)
    folder = session_mark.folder / f"agent-{number}"
    cgroup = f"{session_mark.cgroup}/agent-{number}"
    agent = Agent(folder, cgroup, containerd, client, node="shared")
    getattr(request.module, "prepare", lambda _: None)(agent)
    _SHARING.add(containerd)
    try:
        await agent.start()
        yield agent
    finally:
        _SHARING.discard(containerd)
        await agent.clean()
        await client.runtime.close()


@pytest.fixture
async def node(request: pytest.FixtureRequest, shared: Agent) -> AsyncIterator[Agent]:
    """An agent that runs already, its manifests go with the test.

    Pod names are used once in a module: the end of one test's pods isn't waited for.
    """
    yield shared
    if request.node.stash.get(FAILED, False):
        print(await shared.dump())  # noqa: T201  pytest shows it with the failure
    for manifest in shared.manifests.iterdir():
        manifest.unlink()


@pytest.fixture
async def agent(
    request: pytest.FixtureRequest, containerd: Containerd, session_mark: Mark, anyio_backend: str
) -> AsyncIterator[Agent]:
    """An agent that isn't started yet: set its `settings` and `flags`, then `await agent.start()`.

    After the test it is killed and everything it made is removed. Two agents on one runtime would
    end each other's pods: a module uses this one or `node`.
    """
    assert containerd not in _SHARING, "the module's shared agent runs on this runtime"
    number = next(_NUMBERS)
    client = connect(containerd.endpoint)
    folder = session_mark.folder / f"agent-{number}"
    agent = Agent(folder, f"{session_mark.cgroup}/agent-{number}", containerd, client)
    try:
        yield agent
        if request.node.stash.get(FAILED, False):
            print(await agent.dump())  # noqa: T201  pytest shows it with the failure
    finally:
        await agent.clean()
        await client.runtime.close()
