"""Events from CRI's own stream, GetContainerEvents: CRI-O, containerd 2 and others have it.

It knows the pod of each event but comes later than containerd's own events (`containerd_events`).
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from minikubelet.cri.grpc import Connection
from minikubelet.cri.messages import v1
from minikubelet.cri.services import EventKind, RuntimeEvent

_KINDS = {
    v1.CONTAINER_CREATED_EVENT: EventKind.CREATED,
    v1.CONTAINER_STARTED_EVENT: EventKind.STARTED,
    v1.CONTAINER_STOPPED_EVENT: EventKind.STOPPED,
    v1.CONTAINER_DELETED_EVENT: EventKind.DELETED,
}


def decode(data: bytes) -> RuntimeEvent:
    """Return the hint in a ContainerEventResponse; its statuses are left alone."""
    event = v1.ContainerEventResponse.FromString(data)
    kind = _KINDS[event.container_event_type]
    return RuntimeEvent(kind, event.container_id, event.pod_sandbox_status.metadata.uid)


class CRIEvents:
    """`RuntimeEvents` by GetContainerEvents."""

    def __init__(self, connection: Connection, roundtrip: Callable[[], Awaitable[object]]) -> None:
        self._connection = connection
        self._roundtrip = roundtrip

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[RuntimeEvent]]:
        """Open the stream; raises Unimplemented on containerd 1.6."""
        path = "/runtime.v1.RuntimeService/GetContainerEvents"
        request = v1.GetEventsRequest().SerializeToString()
        async with self._connection.stream(path, request, decode, self._roundtrip) as events:
            yield events
