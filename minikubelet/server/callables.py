"""What the endpoints may ask: a struct of callables, so that each can be tried with a lambda."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Options of kubectl logs; times and sizes as the API has them."""

    namespace: str
    pod: str
    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_seconds: int | None = None
    since_time: str = ""


class NotFound(Exception):
    """Raised by a callable when the pod or container isn't known; the text is for the client."""


class NotReady(Exception):
    """Raised by a callable when there is nothing to give yet; the text is for the client."""


@dataclass(frozen=True, slots=True)
class Callables:
    """The agent as the endpoints see it."""

    problems: Callable[[], Sequence[str]]
    """Why the node isn't healthy; empty when it is."""
    pods: Callable[[], Mapping[str, Any]]
    """A v1 PodList with the statuses of this moment."""
    manifests: Callable[[], Mapping[str, Any]]
    """Files and URLs with their documents, errors and warnings."""
    container_logs: Callable[[LogRequest], AbstractAsyncContextManager[AsyncIterator[bytes]]]
    """Log bytes. Entering raises NotFound or NotReady; leaving lets go of the file."""
