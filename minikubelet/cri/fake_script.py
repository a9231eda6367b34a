"""What a test tells the in-memory runtime to do: programs, failures, delays, and what it was asked.

Shared by the fake's two services, so that `calls` is one list in the order of arrival and a failure
can be planned for any CRI call by its name. Time is anyio's, so it may be simulated.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal, TypeVar

import anyio

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError, DeadlineExceeded, Unavailable
from minikubelet.cri.services import Streams

NEVER = float("inf")


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it arrived: CRI's name, and the id, image or object name that it was about."""

    method: str
    subject: str = ""


@dataclass(frozen=True, slots=True)
class Program:
    """How a container's process behaves. Times in seconds; NEVER means not by itself."""

    exit_code: int = 0
    runs_for: float = NEVER
    term_takes: float = 0.0
    """From TERM to the exit; NEVER for a process that ignores TERM."""
    term_code: int = 143
    message: str = ""


@dataclass(frozen=True, slots=True)
class Exec:
    """What a command run by ExecSync does."""

    exit_code: int = 0
    stdout: bytes = b""
    stderr: bytes = b""
    takes: float = 0.0


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a URL stands for; `kind` is exec, attach or portforward."""

    kind: str
    subject: str
    config: m.ContainerConfig | None = None
    command: tuple[str, ...] = ()
    streams: Streams = field(default_factory=Streams)
    ports: tuple[int, ...] = ()


Fault = CRIError | float
"""An error to raise, or seconds to wait."""
Effect = Callable[[], object]
Later = Callable[[float, Effect], None]
"""Carry out an effect after some seconds, whether or not anyone waits for it."""
T = TypeVar("T")


@dataclass(slots=True)
class _Plan:
    method: str
    fault: Fault
    when: Literal["before", "after"]
    nth: int


@dataclass(slots=True)
class Script:
    """Plans and records. `down` makes every call raise Unavailable, as a stopped runtime does."""

    calls: list[Call] = field(default_factory=list)
    down: bool = False
    time_limits: dict[str, float] = field(default_factory=lambda: {"RunPodSandbox": 240.0})
    default_time_limit: float = 120.0
    _plans: list[_Plan] = field(default_factory=list)

    def inject(
        self,
        method: str,
        fault: CRIError | float,
        *,
        when: Literal["before", "after"] = "before",
        nth: int = 1,
    ) -> None:
        """Plan a failure (an error) or a delay (seconds) for the nth next call of a CRI method.

        "before": the call has had no effect yet; with an error it never has. "after": it has.
        A delay beyond the call's time limit raises DeadlineExceeded at the limit, and the effect
        still comes at its own time, as with a runtime that answers late.
        """
        self._plans.append(_Plan(method, fault, when, nth))

    def plan_nothing(self) -> None:
        """Forget what was planned: everything works again."""
        self._plans.clear()

    def count(self, method: str) -> int:
        """Return how often a method was called."""
        return sum(call.method == method for call in self.calls)

    async def run(self, method: str, subject: str, effect: Callable[[], T], later: Later) -> T:
        """Record a call, carry out what was planned for it and its effect; return the result."""
        after = self._arrive(method, subject)
        before = self._due(method, "before")
        limit = self._limit(method)
        if not isinstance(before, CRIError) and before is not None and before > limit:
            later(before, effect)
        await _suffer(method, before, limit)
        result = effect()
        await _suffer(method, after, limit)
        return result

    @asynccontextmanager
    async def around(self, method: str, subject: str) -> AsyncIterator[None]:
        """Do the same around an effect that takes time itself."""
        after = self._arrive(method, subject)
        limit = self._limit(method)
        await _suffer(method, self._due(method, "before"), limit)
        yield
        await _suffer(method, after, limit)

    def _arrive(self, method: str, subject: str) -> Fault | None:
        self.calls.append(Call(method, subject))
        if self.down:
            raise Unavailable(method, "Unavailable", "connection error: the runtime is down")
        return self._due(method, "after")

    def _limit(self, method: str) -> float:
        return self.time_limits.get(method, self.default_time_limit)

    def _due(self, method: str, when: Literal["before", "after"]) -> Fault | None:
        found: Fault | None = None
        for plan in [plan for plan in self._plans if (plan.method, plan.when) == (method, when)]:
            plan.nth -= 1
            if plan.nth == 0:
                self._plans.remove(plan)
                found = plan.fault
        return found


async def _suffer(method: str, fault: Fault | None, limit: float) -> None:
    if isinstance(fault, CRIError):
        raise fault
    await anyio.sleep(min(fault or 0.0, limit))  # also a checkpoint, as any real call is
    if fault is not None and fault > limit:
        raise too_late(method)


def too_late(method: str) -> DeadlineExceeded:
    """Return the error of a call whose time limit passed."""
    return DeadlineExceeded(method, "DeadlineExceeded", "context deadline exceeded")


def exit_reason(exit_code: int) -> str:
    """Return containerd's reason for an exit code (internal/cri/server/container_status.go)."""
    return "Completed" if exit_code == 0 else "Error"


def sandbox_name(metadata: m.PodSandboxMetadata) -> str:
    """Return the name that containerd reserves (internal/cri/server/helpers.go)."""
    return "_".join([metadata.name, metadata.namespace, metadata.uid, str(metadata.attempt)])


def container_name(metadata: m.ContainerMetadata, sandbox: m.PodSandboxMetadata) -> str:
    """Return the name that containerd reserves (internal/cri/server/helpers.go)."""
    return "_".join(
        [metadata.name, sandbox.name, sandbox.namespace, sandbox.uid, str(metadata.attempt)]
    )
