"""Which events are worth a request, and as what: repeats count, floods are combined or dropped.

Pure; time (monotonic seconds) is an argument. Three steps, as in client-go: similar events beyond
ten in ten minutes become one with a combined message; an identical one raises the count of the one
already sent; an object that has sent 25 may send one more each five minutes.
Source: client-go tools/record/events_cache.go.
"""

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from minikubelet.observe.events import PodRef

MAX_SIMILAR = 10
SIMILAR_SECONDS = 600.0
BURST = 25
REFILL_SECONDS = 300.0
CACHE_SIZE = 4096
COMBINED = "(combined from similar events): "

K = TypeVar("K")
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class News:
    """An event as a room told it, at Unix nanoseconds."""

    ref: PodRef
    type: str
    reason: str
    message: str
    at_ns: int


@dataclass(slots=True)
class Sent:
    """An event object: made once, then only counted. `name` is empty before it was created."""

    news: News
    first_ns: int
    last_ns: int
    count: int = 0
    name: str = ""
    message: str = ""


@dataclass(slots=True)
class _Similar:
    messages: set[str] = field(default_factory=set)
    last: float = float("-inf")


@dataclass(slots=True)
class _Bucket:
    tokens: float = BURST
    at: float = 0.0


class _Cache(Generic[K, V]):
    """The newest entries; whoever hasn't been used for long is forgotten."""

    def __init__(self) -> None:
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K, default: V) -> V:
        """Return the entry, which is the newest then; `default` becomes it."""
        entry = self._entries.setdefault(key, default)
        self._entries.move_to_end(key)
        if len(self._entries) > CACHE_SIZE:
            self._entries.popitem(last=False)
        return entry


_SimilarKey = tuple[PodRef, str, str]


class Correlator:
    """Decides for one source of events."""

    def __init__(self) -> None:
        self._similar: _Cache[_SimilarKey, _Similar] = _Cache()
        self._sent: _Cache[tuple[_SimilarKey, str], Sent] = _Cache()
        self._buckets: _Cache[tuple[str, str, str, str], _Bucket] = _Cache()

    def take(self, news: News, now: float) -> Sent | None:
        """Return the event object to create or to count up, or None when it is one too many."""
        ref = news.ref
        key = (ref, news.type, news.reason)
        similar = self._similar.get(key, _Similar())
        if now - similar.last > SIMILAR_SECONDS:
            similar.messages.clear()
        similar.last = now
        similar.messages.add(news.message)
        is_combined = len(similar.messages) >= MAX_SIMILAR
        message = COMBINED + news.message if is_combined else news.message
        sent = self._sent.get(
            (key, COMBINED if is_combined else news.message), Sent(news, news.at_ns, news.at_ns)
        )
        sent.count += 1
        sent.last_ns = news.at_ns
        sent.message = message
        if is_combined and len(similar.messages) > MAX_SIMILAR:
            # The set need not grow: only that there are many counts.
            similar.messages.pop()
        return sent if self._has_token(ref, now) else None

    def _has_token(self, ref: PodRef, now: float) -> bool:
        bucket = self._buckets.get((ref.kind, ref.namespace, ref.name, ref.uid), _Bucket(at=now))
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.at) / REFILL_SECONDS)
        bucket.at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True
