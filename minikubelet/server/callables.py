"""What the endpoints may ask: a struct of callables, so that each can be tried with a lambda."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

from minikubelet.cri.services import Streams


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
    stream: str = ""
    """`All`, `Stdout` or `Stderr` where it was asked for."""


@dataclass(frozen=True, slots=True)
class Target:
    """A pod, or a container of it; `uid` only where the client named it."""

    namespace: str
    pod: str
    container: str = ""
    uid: str = ""

    @property
    def full_name(self) -> str:
        """The pod's name and namespace in one, as the kubelet's texts have it."""
        return f"{self.pod}_{self.namespace}"


class NotFound(Exception):
    """Raised by a callable when the pod or container isn't known; the text is for the client."""


class NotReady(Exception):
    """Raised by a callable when there is nothing to give yet; the text is for the client."""


class Refused(Exception):
    """Raised by a callable that can't do what is asked; the text is for the client."""

    def __init__(self, text: str, status: int = 500, retry_after: int | None = None) -> None:
        super().__init__(text)
        self.status = status
        """HTTP status."""
        self.retry_after = retry_after
        """Seconds after which the client may try again."""


@dataclass(frozen=True, slots=True)
class Callables:
    """The agent as the endpoints see it."""

    problems: Callable[[], Sequence[str]]
    """Why the node isn't healthy; empty when it is."""
    checks: Callable[[], Mapping[str, str]]
    """The kubelet's health checks by name, each with what is wrong (empty: nothing)."""
    pods: Callable[[], Mapping[str, Any]]
    """A v1 PodList with the statuses of this moment."""
    running_pods: Callable[[], Awaitable[Mapping[str, Any]]]
    """A v1 PodList of what runs, as the runtime has it. Raises Refused."""
    manifests: Callable[[], Mapping[str, Any]]
    """Files and URLs with their documents, errors and warnings."""
    configz: Callable[[], Mapping[str, Any]]
    """The effective configuration."""
    container_logs: Callable[[LogRequest], AbstractAsyncContextManager[AsyncIterator[bytes]]]
    """Log bytes. Entering raises NotFound or NotReady; leaving lets go of the file."""
    run: Callable[[Target, Sequence[str]], Awaitable[bytes]]
    """Run a command to its end; its output. Raises Refused."""
    exec: Callable[[Target, Sequence[str], Streams], Awaitable[str]]
    """The URL of a command's streams. Raises Refused."""
    attach: Callable[[Target, Streams], Awaitable[str]]
    """The URL of a container's own streams; the terminal is the container's. Raises Refused."""
    port_forward: Callable[[Target, Sequence[int]], Awaitable[str]]
    """The URL of connections into a pod. Raises Refused."""
