"""Commands in containers that end when their process ends.

ExecSync answers only when the command's pipes are closed: a child left in the background
(`sleep 999 &`) keeps it waiting for ever. Where the runtime tells of an exec's exit by event, the
answer is waited for a short while longer and then given up. With several commands in one container
at a time it can't be told whose exit it was: then only the time limit ends them.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import anyio

from minikubelet.cri import messages as m
from minikubelet.cri.services import RuntimeService

DRAIN_SECONDS = 1.0


@dataclass(slots=True, eq=False)
class _Running:
    exited: anyio.Event = field(default_factory=anyio.Event)
    exit_code: int = 0


class Execs:
    """Runs commands and takes notice of their exits."""

    def __init__(self, runtime: RuntimeService) -> None:
        self._runtime = runtime
        self._running: dict[str, list[_Running]] = {}

    def exited(self, container_id: str, exit_code: int) -> None:
        """Take notice that some command of a container has ended."""
        running = self._running.get(container_id, [])
        if len(running) == 1:
            running[0].exit_code = exit_code
            running[0].exited.set()

    async def run(
        self, container_id: str, command: Sequence[str], timeout: float
    ) -> m.ExecSyncResponse:
        """Run a command to its end; `timeout` in seconds, 0 for none. Raises CRIError."""
        with self._noted(container_id) as running:
            return await self._run(running, container_id, command, timeout)

    async def sync(
        self, container_id: str, command: Sequence[str], timeout: float
    ) -> m.ExecSyncResponse:
        """Run a command as the runtime does it: children that keep its pipes open count as it."""
        with self._noted(container_id):
            return await self._runtime.exec_sync(container_id, command, timeout)

    @contextmanager
    def _noted(self, container_id: str) -> Iterator[_Running]:
        running = _Running()
        self._running.setdefault(container_id, []).append(running)
        try:
            yield running
        finally:
            others = self._running[container_id]
            others.remove(running)
            if not others:
                del self._running[container_id]

    async def _run(
        self, running: _Running, container_id: str, command: Sequence[str], timeout: float
    ) -> m.ExecSyncResponse:
        result: m.ExecSyncResponse | None = None
        failure: Exception | None = None

        async def call() -> None:
            nonlocal result, failure
            try:
                result = await self._runtime.exec_sync(container_id, command, timeout)
            except Exception as error:  # noqa: BLE001  raised again below, outside the group
                failure = error
            group.cancel_scope.cancel()

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await running.exited.wait()
            await anyio.sleep(DRAIN_SECONDS)
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure
        return result or m.ExecSyncResponse(exit_code=running.exit_code)
