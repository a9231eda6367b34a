"""Events from containerd's own event service, on the socket that also speaks CRI.

It tells of an exit 6-23 ms after it, CRI's stream of containerd 2 more than 100 ms after, and
containerd 1.6 has no CRI stream at all. Events name a container or sandbox, not the pod.
Only a few string fields are needed, so they are read from the wire format here: the generated
classes would come as a package named `types`, which hides Python's own.
Source: containerd api/services/events/v1/events.proto, api/events/task.proto, container.proto.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from minikubelet.cri.grpc import Connection
from minikubelet.cri.services import EventKind, RuntimeEvent

_NAMESPACE = "k8s.io"
_KINDS = {
    "/containers/create": EventKind.CREATED,
    "/tasks/start": EventKind.STARTED,
    "/tasks/exit": EventKind.STOPPED,
    "/tasks/oom": EventKind.OOM,
    "/containers/delete": EventKind.DELETED,
}
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ContainerdEvents:
    """`RuntimeEvents` by containerd.services.events.v1.Events/Subscribe."""

    def __init__(self, connection: Connection, roundtrip: Callable[[], Awaitable[object]]) -> None:
        self._connection = connection
        self._roundtrip = roundtrip

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[RuntimeEvent]]:
        """Open the stream; raises Unimplemented on runtimes other than containerd."""
        path = "/containerd.services.events.v1.Events/Subscribe"
        async with self._connection.stream(path, request(), decode, self._roundtrip) as events:
            yield _of_containers(events)


async def _of_containers(events: AsyncIterator[RuntimeEvent | None]) -> AsyncIterator[RuntimeEvent]:
    async for event in events:
        if event is not None:
            yield event


def request() -> bytes:
    """Return a SubscribeRequest: one filter a topic, any of them may match."""
    filters = [f'topic=="{topic}",namespace=="{_NAMESPACE}"' for topic in _KINDS]
    return b"".join(b"\x0a" + bytes([len(each)]) + each.encode() for each in filters)


def decode(data: bytes) -> RuntimeEvent | None:
    """Return the hint in an Envelope; None for one that says nothing.

    Envelope: namespace 2, topic 3, event 4 (Any: value 2). All task events: container_id 1;
    TaskExit: id 2 (an exec's has its own), exit_status 4. ContainerCreate, ContainerDelete: id 1.
    """
    envelope = fields(data)
    topic = envelope.get(3, b"").decode()
    payload = fields(envelope.get(4, b"")).get(2, b"")
    event = fields(payload)
    kind = _KINDS.get(topic)
    container_id = event.get(1, b"").decode()
    of_exec = topic == "/tasks/exit" and event.get(2, b"").decode() not in ("", container_id)
    if kind is None or not container_id:
        return None
    if of_exec:
        return RuntimeEvent(
            EventKind.EXEC_EXITED, container_id, exit_code=numbers(payload).get(4, 0)
        )
    return RuntimeEvent(kind, container_id)


def fields(data: bytes) -> dict[int, bytes]:
    """Return the strings, bytes and messages of a protobuf message by field number.

    Of a repeated field the last is kept. Raises ValueError for broken data.
    """
    return _read(data)[0]


def numbers(data: bytes) -> dict[int, int]:
    """Return the varints of a protobuf message by field number. Raises ValueError."""
    return _read(data)[1]


def _read(data: bytes) -> tuple[dict[int, bytes], dict[int, int]]:
    found: dict[int, bytes] = {}
    varints: dict[int, int] = {}
    position = 0
    while position < len(data):
        key, position = _varint(data, position)
        kind = key & 7
        if kind == _VARINT:
            varints[key >> 3], position = _varint(data, position)
            continue
        if kind == _BYTES:
            size, position = _varint(data, position)
            found[key >> 3] = data[position : position + size]
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(f"cannot read a protobuf field of wire type {kind}")
        position += size
        if position > len(data):
            raise ValueError("cannot read a protobuf message: it ends inside a field")
    return found, varints


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, position
        shift += 7
    raise ValueError("cannot read a protobuf message: it ends inside a number")
