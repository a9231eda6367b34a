"""What one attempt is about and how it ends: the words between the schedule and the executors."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from minikubelet.api.pod import Container, Pod, Probe
from minikubelet.lifecycle.probe_state import ProbeKind
from minikubelet.probes.steps import Steps


@dataclass(frozen=True, slots=True)
class Attempt:
    """A probe of one running container."""

    pod: Pod
    container: Container
    kind: ProbeKind
    probe: Probe
    container_id: str
    pod_ip: str

    @property
    def timeout(self) -> int:
        """Seconds that one attempt may take; never none."""
        return max(1, self.probe.timeout_seconds)


class Verdict(Enum):
    """How an attempt ended. A warning counts as success."""

    SUCCESS = "success"
    WARNING = "warning"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How an attempt ended, and the kubelet's words about it."""

    verdict: Verdict
    output: str = ""


SUCCESS = Outcome(Verdict.SUCCESS)


def failure(output: str) -> Outcome:
    """Return the outcome of an attempt that found the container unwell."""
    return Outcome(Verdict.FAILURE, output)


class ProbeError(Exception):
    """Raised when an attempt can't tell anything about the container; it counts for nothing.

    `state` is the kubelet's word for it in the event.
    """

    def __init__(self, text: str, state: str = "unknown") -> None:
        super().__init__(text)
        self.state = state


Run = Callable[[], Awaitable[Outcome]]
"""Makes one attempt within its timeout, in a task. Raises ProbeError."""
Exchange = Callable[[], Steps[Outcome]]
"""Makes one attempt as steps; its time is watched by who runs them. Raises ProbeError."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """An attempt that can be made any number of times, in one of the two ways."""

    run: Run | None = None
    exchange: Exchange | None = None


class Prober(Protocol):
    """Makes attempts."""

    def prepare(self, attempt: Attempt) -> Prepared:
        """Return what makes this attempt. Never fails."""
