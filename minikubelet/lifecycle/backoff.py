"""Exponential back-off by key, as a value: restarts of containers and pulls of images wait by it.

Times are monotonic seconds given by the caller, so a jump of the wall clock changes nothing and
tests need no clock. Source: client-go util/flowcontrol/backoff.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Entry:
    """How long a key waits, and since when."""

    delay: float
    updated: float


@dataclass(frozen=True, slots=True)
class Backoff:
    """The state of all keys. Each `next` doubles a key's delay, from `initial` up to `maximum`.

    A key whose event comes more than `expires_after` seconds after its last `next` was stable in
    between and starts from the beginning.
    """

    initial: float = 10.0
    maximum: float = 300.0
    expires_after: float = 600.0
    entries: Mapping[str, Entry] = field(default_factory=dict)

    def get(self, key: str, event_time: float | None = None) -> float:
        """Return the key's delay, 0 when it has none or (given the event) it has expired."""
        entry = self.entries.get(key)
        if entry is None:
            return 0.0
        is_expired = event_time is not None and self._is_expired(entry, event_time)
        return 0.0 if is_expired else entry.delay

    def until(self, key: str) -> float | None:
        """Return when the wait that began with the last `next` ends, None without one."""
        entry = self.entries.get(key)
        return None if entry is None else entry.updated + entry.delay

    def next(self, key: str, now: float, event_time: float | None = None) -> "Backoff":
        """Return the state after another failure at `event_time` (by default now)."""
        entry = self.entries.get(key)
        at = now if event_time is None else event_time
        if entry is None or self._is_expired(entry, at):
            delay = min(self.initial, self.maximum)
        else:
            delay = min(entry.delay * 2, self.maximum)
        return replace(self, entries={**self.entries, key: Entry(delay, now)})

    def forget(self, key: str) -> "Backoff":
        """Return the state without a key."""
        return replace(self, entries={k: e for k, e in self.entries.items() if k != key})

    def gc(self, now: float) -> "Backoff":
        """Return the state without the keys that have expired."""
        kept = {k: e for k, e in self.entries.items() if not self._is_expired(e, now)}
        return self if len(kept) == len(self.entries) else replace(self, entries=kept)

    def _is_expired(self, entry: Entry, event_time: float) -> bool:
        return event_time - entry.updated > self.expires_after
