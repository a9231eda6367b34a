"""The runtime's view of a pod, as values: what CRI said, grouped by pod and sorted newest first.

`pleg.cache` makes these from CRI replies; every decision in this room reads them and nothing else.
Times are Unix nanoseconds of the runtime's clock, 0 when unset.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class State(Enum):
    """A container's state, as CRI names it."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ContainerRecord:
    """One container in the runtime, dead or alive."""

    id: str
    name: str
    state: State
    sandbox_id: str = ""
    start_cancelled: bool = False
    """Its start was cut off with the caller, so it never ran: as good as created, but it can't be
    started any more and must be made anew, with the same count."""
    attempt: int = 0
    created_at: int = 0
    started_at: int = 0
    finished_at: int = 0
    finished_mono: float = 0.0
    """`finished_at` as monotonic seconds, converted once when the exit was first seen."""
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    image: str = ""
    image_id: str = ""
    image_ref: str = ""
    hash: str = ""
    log_path: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    user: Mapping[str, Any] | None = None
    resources: Mapping[str, Any] | None = None
    termination_message: str = ""
    """Read from the termination file or log when the exit was first seen (empty while running)."""

    @property
    def restart_count(self) -> int:
        """The count recorded at creation; CRI's attempt when the annotation is missing."""
        text = self.annotations.get("io.kubernetes.container.restartCount", "")
        return int(text) if text.isdigit() else self.attempt


@dataclass(frozen=True, slots=True)
class SandboxRecord:
    """One sandbox in the runtime."""

    id: str
    ready: bool
    attempt: int = 0
    created_at: int = 0
    host_network: bool = False
    has_network_status: bool = False
    ips: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    runtime_handler: str = ""


@dataclass(frozen=True, slots=True)
class PodRuntimeStatus:
    """All that the runtime holds of one pod uid. Both tuples are sorted newest first."""

    uid: str
    name: str = ""
    namespace: str = ""
    sandboxes: tuple[SandboxRecord, ...] = ()
    containers: tuple[ContainerRecord, ...] = ()
    observed_at: float = 0.0
    """Monotonic seconds just before the first call that this view comes from."""

    def records(self, name: str) -> Iterator[ContainerRecord]:
        """Yield the records of a container name, newest first."""
        return (record for record in self.containers if record.name == name)

    def newest(self, name: str) -> ContainerRecord | None:
        """Return the newest record of a container name."""
        return next(self.records(name), None)

    @property
    def running(self) -> tuple[ContainerRecord, ...]:
        """The containers that run now."""
        return tuple(record for record in self.containers if record.state is State.RUNNING)

    @property
    def ready_sandbox(self) -> SandboxRecord | None:
        """The newest sandbox if it is ready."""
        first = self.sandboxes[0] if self.sandboxes else None
        return first if first is not None and first.ready else None

    @property
    def ips(self) -> tuple[str, ...]:
        """The addresses of the newest ready sandbox."""
        sandbox = self.ready_sandbox
        return sandbox.ips if sandbox is not None else ()
