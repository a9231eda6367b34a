"""Container logs for the API: from a request to the file of the right container instance.

Which instance that is, and the texts when there is none, are the kubelet's (kubelet_pods.go
validateContainerLogStatus, server/server.go getContainerLogs): decided by the container's status,
not by what the runtime happens to hold.
"""

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from pathlib import Path

import anyio
import anyio.to_thread

from minikubelet.api.status import ContainerStateTerminated, ContainerStatus, PodStatus
from minikubelet.api.timestamp import NANOSECONDS, parse
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State
from minikubelet.logs.read import LogOptions, read_log
from minikubelet.pods.registry import Registry
from minikubelet.pods.worker import Worker
from minikubelet.server.callables import LogRequest, NotFound, NotReady

LOST_NEWS_SECONDS = 2.0
"""How long a follower trusts that the news of the container's end will come."""

_IMAGE_TROUBLE = {
    "ErrImagePull": "image can't be pulled",
    "ImagePullBackOff": "trying and failing to pull image",
}


class LogReader:
    """Reads logs of the pods of one registry."""

    def __init__(
        self, view_of: Callable[[str], PodRuntimeStatus], wall_ns: Callable[[], int]
    ) -> None:
        self._view_of = view_of
        self._wall_ns = wall_ns

    @contextlib.asynccontextmanager
    async def read(
        self, request: LogRequest, registry: Registry
    ) -> AsyncGenerator[AsyncIterator[bytes], None]:
        """Open the log and give its text in pieces. Entering raises NotFound, NotReady."""
        worker = _worker(registry, request)
        record = await self._record(worker, request)

        async def ended() -> None:
            # A pod that is gone wakes nobody any more: its empty view says so.
            while any(r.id == record.id for r in self._view_of(worker.uid).running):
                with anyio.move_on_after(LOST_NEWS_SECONDS):
                    await worker.changed.wait()

        options = self._options(request, follow=record.state is State.RUNNING)
        async with contextlib.aclosing(read_log(record.log_path, options, ended)) as pieces:
            yield pieces

    def _options(self, request: LogRequest, *, follow: bool) -> LogOptions:
        since = 0
        if request.since_seconds is not None:
            since = self._wall_ns() - request.since_seconds * NANOSECONDS
        elif request.since_time:
            since = parse(request.since_time)
        return LogOptions(
            tail_lines=request.tail_lines,
            since_ns=since,
            limit_bytes=request.limit_bytes,
            timestamps=request.timestamps,
            follow=request.follow and follow,
        )

    async def _record(self, worker: Worker, request: LogRequest) -> ContainerRecord:
        name = request.container
        if not any(container.name == name for container in worker.state.pod.all_containers()):
            raise NotFound(f'container "{name}" not found in pod "{request.pod}"')
        if request.stream not in ("", "All"):
            raise NotReady(
                f'unable to return the given log stream: "{request.stream}". Please enable '
                "PodLogsQuerySplitStreams feature gate in kubelet"
            )
        status = _status_of(worker.status_now(), name)
        if status is None:
            raise NotReady(f'container "{name}" in pod "{request.pod}" is not available')
        wanted = instance_of(request.pod, status, previous=request.previous)
        record = next(
            (r for r in self._view_of(worker.uid).containers if _same(wanted, r.id)), None
        )
        if record is None:
            raise NotReady(
                f"unable to retrieve container logs for {wanted}: the runtime no longer has it"
            )
        path = record.log_path
        if not path or not await anyio.to_thread.run_sync(Path(path).exists):
            raise NotReady(
                f"unable to retrieve container logs for {wanted}: "
                + (f"{path} does not exist" if path else "the runtime names no log file")
            )
        return record


def instance_of(pod: str, status: ContainerStatus, *, previous: bool) -> str:
    """Return the id (with the runtime's prefix) of the instance to read. Raises NotReady."""
    name, state, last = status.name, status.state, status.last_state.terminated
    if previous:
        if not _id(last):
            raise NotReady(f'previous terminated container "{name}" in pod "{pod}" not found')
        return _id(last)
    if state.running is not None:
        return status.container_id
    if state.terminated is not None or last is not None:
        # Where the next instance was never started, the ended state has no id.
        found = _id(state.terminated) or _id(last)
        if not found:
            raise NotReady(f'container "{name}" in pod "{pod}" is terminated')
        return found
    if state.waiting is None:
        raise NotReady(f'container "{name}" in pod "{pod}" is waiting to start - no logs yet')
    reason = state.waiting.reason
    text = _IMAGE_TROUBLE.get(reason, reason)
    raise NotReady(f'container "{name}" in pod "{pod}" is waiting to start: {text}')


def _id(ended: ContainerStateTerminated | None) -> str:
    return ended.container_id if ended is not None else ""


def _same(container_id: str, record_id: str) -> bool:
    return container_id.partition("://")[2] == record_id


def _status_of(status: PodStatus, name: str) -> ContainerStatus | None:
    every = (
        *status.container_statuses,
        *status.init_container_statuses,
        *status.ephemeral_container_statuses,
    )
    return next((each for each in every if each.name == name), None)


def _worker(registry: Registry, request: LogRequest) -> Worker:
    """Return the worker of a pod; the running instance goes before one that waits for its turn."""
    found = [
        worker
        for worker in registry.workers
        if worker.state.pod.metadata.name == request.pod
        and worker.state.pod.metadata.namespace == request.namespace
    ]
    if not found:
        raise NotFound(f'pod "{request.pod}" does not exist')
    return found[0]
