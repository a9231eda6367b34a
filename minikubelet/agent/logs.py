"""Container logs for the API: from a request to the file of the right container record.

The texts are the kubelet's (server/server.go, kubelet_pods.go validateContainerLogStatus).
"""

import contextlib
from collections.abc import AsyncIterator, Callable

from minikubelet.api.timestamp import NANOSECONDS, parse
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State
from minikubelet.logs.read import LogOptions, read_log
from minikubelet.pods.registry import Registry
from minikubelet.pods.worker import Worker
from minikubelet.server.callables import LogRequest, NotFound, NotReady


class LogReader:
    """Reads logs of the pods of one registry."""

    def __init__(
        self, view_of: Callable[[str], PodRuntimeStatus], wall_ns: Callable[[], int]
    ) -> None:
        self._view_of = view_of
        self._wall_ns = wall_ns

    async def read(self, request: LogRequest, registry: Registry) -> AsyncIterator[bytes]:
        """Yield the log's text. Raises NotFound, NotReady."""
        worker = _worker(registry, request)
        record = self._record(worker, request)
        since = 0
        if request.since_seconds is not None:
            since = self._wall_ns() - request.since_seconds * NANOSECONDS
        elif request.since_time:
            since = parse(request.since_time)
        options = LogOptions(
            tail_lines=request.tail_lines,
            since_ns=since,
            limit_bytes=request.limit_bytes,
            timestamps=request.timestamps,
            follow=request.follow and record.state is State.RUNNING,
        )

        async def ended() -> None:
            while any(r.id == record.id for r in self._view_of(worker.uid).running):
                await worker.changed.wait()

        pieces = read_log(record.log_path, options, ended)
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    yield piece
        except FileNotFoundError as error:
            raise NotFound(
                f"cannot read the log of container {request.container}: {error}"
            ) from error

    def _record(self, worker: Worker, request: LogRequest) -> ContainerRecord:
        pod, name = worker.state.pod, request.container
        if not any(container.name == name for container in pod.all_containers()):
            raise NotFound(f'container "{name}" not found in pod "{request.pod}"')
        records = list(self._view_of(worker.uid).records(name))
        if request.previous:
            records = [r for r in records[1:] if r.state is State.EXITED]
            if not records:
                raise NotReady(
                    f'previous terminated container "{name}" in pod "{request.pod}" not found'
                )
        if not records or records[0].state is State.CREATED:
            reason = worker.state.reasons.get(name)
            text = reason.reason if reason is not None else "ContainerCreating"
            raise NotReady(f'container "{name}" in pod "{request.pod}" is waiting to start: {text}')
        return records[0]


def _worker(registry: Registry, request: LogRequest) -> Worker:
    """Return the worker of a pod; the running instance goes before one that waits for its turn."""
    found = [
        worker
        for worker in registry.workers
        if worker.state.pod.metadata.name == request.pod
        and worker.state.pod.metadata.namespace == request.namespace
    ]
    if not found:
        raise NotFound(f'pod "{request.pod}" not found')
    return found[0]
