"""Kubernetes events as values and where they go: a bounded local journal, and sinks plugged in.

Emitting never blocks and never fails: an event is news, not state. Source of reasons and texts:
kubelet events/event.go.
"""

from collections import deque
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


class Journal:
    """The local event store: the newest `size` distinct events, repeats counted in place."""

    def __init__(self, wall_ns: Callable[[], int], size: int = 1000) -> None:
        self._wall_ns = wall_ns
        self._events: deque[Event] = deque(maxlen=size)
        self._log = structlog.get_logger("events")

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        """Record one event and log it once; a repeat only counts."""
        now = self._wall_ns()
        for index in range(len(self._events) - 1, -1, -1):
            old = self._events[index]
            if (old.ref, old.type, old.reason, old.message) == (ref, type_, reason, message):
                del self._events[index]
                self._events.append(replace(old, count=old.count + 1, last_seen_ns=now))
                return
        self._events.append(Event(ref, type_, reason, message, now, now))
        emit = self._log.warning if type_ == WARNING else self._log.info
        emit(
            "event",
            pod=f"{ref.namespace}/{ref.name}",
            reason=reason,
            message=message,
            field=ref.field_path,
        )

    def of(self, uid: str) -> list[Event]:
        """Return the events of one pod, oldest first."""
        return [event for event in self._events if event.ref.uid == uid]

    def all(self) -> list[Event]:
        """Return every event held, oldest first."""
        return list(self._events)
