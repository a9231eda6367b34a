"""Agents on real containerds. Every test here runs once with each version of containerd."""

import itertools
from collections.abc import AsyncIterator, Generator

import pytest

from minikubelet.cri.client import connect
from tests.containerds import Containerd
from tests.e2e.agent import Agent
from tests.leftovers import Mark

_NUMBERS = itertools.count(1)
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: object
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember a failure, so that the agent's fixture shows what it saw."""
    report = yield
    if report.when == "call":
        item.stash[_FAILED] = report.failed
    return report


@pytest.fixture
async def agent(
    request: pytest.FixtureRequest, containerd: Containerd, session_mark: Mark, anyio_backend: str
) -> AsyncIterator[Agent]:
    """An agent that isn't started yet: set its `settings` and `flags`, then `await agent.start()`.

    After the test it is killed and everything it made is removed.
    """
    number = next(_NUMBERS)
    client = connect(containerd.endpoint)
    folder = session_mark.folder / f"agent-{number}"
    agent = Agent(folder, f"{session_mark.cgroup}/agent-{number}", containerd, client)
    try:
        yield agent
        if request.node.stash.get(_FAILED, False):
            print(await agent.dump())  # noqa: T201  pytest shows it with the failure
    finally:
        await agent.clean()
        await client.runtime.close()
