"""A reflector running in a test, and what it told."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from minikubelet.kube.client import Connection
from minikubelet.kube.reflector import Objects, Timing, list_watch


class Watched:
    """The newest set, all problems, and waiting for either."""

    def __init__(self) -> None:
        self.objects: Objects | None = None
        self.told = 0
        self.problems: list[str] = []
        self._news = anyio.Event()

    @property
    def names(self) -> list[str]:
        return sorted(key.rpartition("/")[2] for key in self.objects or {})

    async def on_set(self, objects: Objects) -> None:
        self.objects = objects
        self.told += 1
        self._news.set()

    def on_problem(self, problem: str) -> None:
        self.problems.append(problem)
        self._news.set()

    async def until_names(self, *names: str, seconds: float = 25) -> None:
        """Wait until the set has these names and no others."""
        await self.until(lambda w: w.objects is not None and w.names == sorted(names), seconds)

    async def until(self, true: Callable[["Watched"], bool], seconds: float = 25) -> None:
        """Wait until something holds of what was told."""
        with anyio.fail_after(seconds):
            while not true(self):
                self._news = anyio.Event()
                await self._news.wait()


async def eventually(true: Callable[[], bool], seconds: float = 25) -> None:
    """Wait until something is so that tells nobody."""
    with anyio.fail_after(seconds):
        while not true():  # noqa: ASYNC110  a proxy's counters are no events
            await anyio.sleep(0.02)


@asynccontextmanager
async def watching(
    api: Connection, path: str, *, timing: Timing | None = None, **query: str
) -> AsyncIterator[Watched]:
    """Reflect a path while the block runs.

    Without what a whole control plane puts into each namespace by itself.
    """
    watched = Watched()
    query = {"fieldSelector": "metadata.name!=kube-root-ca.crt"} | query

    async def run() -> None:
        await list_watch(
            api,
            path,
            query,
            watched.on_set,
            on_problem=watched.on_problem,
            timing=timing or Timing(),
        )

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        yield watched
        group.cancel_scope.cancel()
