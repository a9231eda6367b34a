"""Containerd's events in their wire format, written here by hand from its .proto files."""

import pytest

from minikubelet.cri.containerd_events import decode, fields, request
from minikubelet.cri.services import EventKind, RuntimeEvent


def text(number: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out += bytes([value & 0x7F | 0x80])
        value >>= 7
    return out + bytes([value])


def envelope(topic: str, event: bytes) -> bytes:
    timestamp = number(1, 1_700_000_000) + number(2, 999_999_999)
    payload = text(1, "containerd.events.Something") + text(2, event)
    return text(1, timestamp) + text(2, "k8s.io") + text(3, topic) + text(4, payload)


def task_exit(container_id: str, process_id: str) -> bytes:
    return text(1, container_id) + text(2, process_id) + number(3, 70_000) + number(4, 137)


LONG = "a" * 64


@pytest.mark.parametrize(
    ("topic", "event", "expected"),
    [
        ("/tasks/start", text(1, LONG) + number(2, 5), RuntimeEvent(EventKind.STARTED, LONG)),
        ("/tasks/exit", task_exit(LONG, LONG), RuntimeEvent(EventKind.STOPPED, LONG)),
        (
            "/tasks/exit",
            task_exit(LONG, "exec-1") + number(4, 7),
            RuntimeEvent(EventKind.EXEC_EXITED, LONG, exit_code=7),
        ),
        ("/tasks/oom", text(1, LONG), RuntimeEvent(EventKind.OOM, LONG)),
        ("/containers/create", text(1, LONG), RuntimeEvent(EventKind.CREATED, LONG)),
        ("/containers/delete", text(1, LONG), RuntimeEvent(EventKind.DELETED, LONG)),
        ("/tasks/paused", text(1, LONG), None),
        ("/tasks/start", b"", None),
    ],
)
def test_envelopes_are_read(topic: str, event: bytes, expected: RuntimeEvent | None) -> None:
    assert decode(envelope(topic, event)) == expected


def test_all_kinds_of_fields_are_passed_over() -> None:
    data = number(1, 1 << 60) + b"\x11" + b"8" * 8 + b"\x1d" + b"4" * 4 + text(4, "kept")
    assert fields(data) == {4: b"kept"}


@pytest.mark.parametrize(
    "data",
    [b"\x0a", b"\x0a\x05abc", b"\x80", b"\x0b", b"\x09abc"],
    ids=["no length", "too short", "endless number", "a group", "half a fixed number"],
)
def test_broken_data_is_an_error(data: bytes) -> None:
    with pytest.raises(ValueError, match="cannot read a protobuf"):
        fields(data)


def test_the_request_asks_for_the_kubernetes_namespace_only() -> None:
    data, found = request(), []
    while data:
        size = data[1]
        found.append(data[2 : 2 + size].decode())
        data = data[2 + size :]
    assert 'topic=="/tasks/exit",namespace=="k8s.io"' in found
    assert all(each.endswith(',namespace=="k8s.io"') for each in found)
