"""Kubernetes events as values and where they go: a bounded local journal, and sinks plugged in.

Emitting never blocks and never fails: an event is news, not state. Source of reasons and texts:
kubelet events/event.go.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import structlog

NORMAL = "Normal"
WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class PodRef:
    """The object an event is about; `field_path` names a container (`spec.containers{web}`)."""

    namespace: str
    name: str
    uid: str
    field_path: str = ""
    kind: str = "Pod"


def node_ref(name: str) -> PodRef:
    """Return what an event about the node is about.

    The uid is the node's name: by that `kubectl describe node` finds what a kubelet says.
    """
    return PodRef("", name, name, kind="Node")


@dataclass(frozen=True, slots=True)
class Event:
    """One event; repeats of the same one are counted (client-go tools/record/events_cache.go)."""

    ref: PodRef
    type: str
    reason: str
    message: str
    first_seen_ns: int
    last_seen_ns: int
    count: int = 1


class EventSink(Protocol):
    """Where rooms send events."""

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        """Record one event."""


_Key = tuple[PodRef, str, str, str]


class Journal:
    """The local event store: the newest `size` distinct events, repeats counted in place."""

    def __init__(self, wall_ns: Callable[[], int], size: int = 1000) -> None:
        self._wall_ns = wall_ns
        self._size = size
        self._events: OrderedDict[_Key, Event] = OrderedDict()
        self._sinks: list[EventSink] = []
        self._log = structlog.get_logger("events")

    def plug(self, sink: EventSink) -> None:
        """Pass every event on to another sink, too."""
        self._sinks.append(sink)

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        """Record one event and log it once; a repeat only counts."""
        for sink in self._sinks:
            sink.emit(ref, type_, reason, message)
        now = self._wall_ns()
        key = (ref, type_, reason, message)
        old = self._events.get(key)
        if old is not None:
            self._events[key] = replace(old, count=old.count + 1, last_seen_ns=now)
            self._events.move_to_end(key)
            return
        self._events[key] = Event(ref, type_, reason, message, now, now)
        if len(self._events) > self._size:
            self._events.popitem(last=False)
        emit = self._log.warning if type_ == WARNING else self._log.info
        emit(
            "event",
            **{ref.kind.lower(): f"{ref.namespace}/{ref.name}".lstrip("/")},
            uid=ref.uid,
            reason=reason,
            message=message,
            field=ref.field_path,
        )

    def of(self, uid: str) -> list[Event]:
        """Return the events of one pod, the one seen longest ago first."""
        return [event for event in self._events.values() if event.ref.uid == uid]

    def all(self) -> list[Event]:
        """Return every event held, the one seen longest ago first."""
        return list(self._events.values())
