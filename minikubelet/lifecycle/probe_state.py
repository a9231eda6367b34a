"""One probe of one container as data: what counts, what settles, when it runs next.

Everything belongs to a container id: a new id starts without results and counts, so that nothing a
dead container did is held against the next. `probes.manager` keeps one `ProbeState` a probe, runs
attempts and writes what has settled into `lifecycle.probes.ProbeResults`.

The kubelet's initial results (readiness failure, liveness success, startup unknown) are the absence
of a result here: whoever reads one treats it so. Source: kubelet prober/worker.go doProbe.
"""

import math
from dataclasses import dataclass, replace
from enum import Enum

from minikubelet.api.pod import Container, Probe
from minikubelet.api.status import ContainerStatus
from minikubelet.lifecycle.probes import Result


class ProbeKind(Enum):
    """The three probes of a container, as events name them."""

    LIVENESS = "Liveness"
    READINESS = "Readiness"
    STARTUP = "Startup"

    def of(self, container: Container) -> Probe | None:
        """Return the container's probe of this kind."""
        match self:
            case ProbeKind.LIVENESS:
                return container.liveness_probe
            case ProbeKind.READINESS:
                return container.readiness_probe
            case ProbeKind.STARTUP:
                return container.startup_probe


@dataclass(frozen=True, slots=True)
class Target:
    """The container that a probe is about, as the pod's status shows it."""

    container_id: str = ""
    running: bool = False
    """It runs and its postStart hook is over."""
    started: bool = False
    began: float = 0.0
    """Its start, monotonic seconds."""
    is_older: bool = False
    """It was started before the agent."""


NO_TARGET = Target()


@dataclass(frozen=True, slots=True)
class ProbeState:
    """What is known from the attempts so far. `run` counts the `last` outcome in a row."""

    container_id: str = ""
    result: Result | None = None
    last: Result | None = None
    run: int = 0
    on_hold: bool = False
    """Nothing more to find out about this container id."""


def for_container(
    kind: ProbeKind, container_id: str, earlier: ContainerStatus | None, *, deleting: bool
) -> ProbeState:
    """Return the state for a container id that is new to the probe.

    `earlier` is what was last told of that very container before the agent's start, if anything:
    ready and started stay true until the first result. (The kubelet can't tell whose `started` an
    old status is about and asks for a start more than 10 s ago; the container id says it.) With
    `deleting` a pod on its way out is spared liveness and startup probes.
    """
    fresh = ProbeState(container_id)
    if deleting and kind is not ProbeKind.READINESS:
        result = Result.SUCCESS if kind is ProbeKind.STARTUP else None
        return replace(fresh, result=result, on_hold=True)
    if earlier is None or id_of(earlier) != container_id or earlier.state.running is None:
        return fresh
    if kind is ProbeKind.STARTUP and earlier.started:
        return replace(fresh, result=Result.SUCCESS, on_hold=True)
    if kind is ProbeKind.READINESS and earlier.ready:
        return replace(fresh, result=Result.SUCCESS)
    return fresh


def id_of(status: ContainerStatus) -> str:
    """Return a status' container id without the runtime's name before it."""
    return status.container_id.partition("://")[2]


def wants_to_run(state: ProbeState, kind: ProbeKind, target: Target) -> bool:
    """Tell whether an attempt makes sense now: the startup probe goes first, the others after."""
    if not target.running or state.on_hold or state.container_id != target.container_id:
        return False
    return target.started is not (kind is ProbeKind.STARTUP)


def after_attempt(state: ProbeState, kind: ProbeKind, probe: Probe, outcome: Result) -> ProbeState:
    """Return the state after one attempt that came to a result.

    Enough equal outcomes in a row settle it. A container that failed its liveness probe, and one
    whose startup probe has settled either way, isn't probed so any more.
    """
    if outcome is state.last and outcome is state.result:
        return state  # more of the same
    run = state.run + 1 if outcome is state.last else 1
    counted = replace(state, last=outcome, run=run)
    failed = outcome is Result.FAILURE
    if run < (probe.failure_threshold if failed else probe.success_threshold):
        return counted
    done = kind is ProbeKind.STARTUP or (kind is ProbeKind.LIVENESS and failed)
    return replace(counted, result=outcome, on_hold=done)


def tick_from(anchor: float, period: float, moment: float) -> float:
    """Return the first of the ticks `anchor`, `anchor + period`, … that isn't before `moment`."""
    if moment <= anchor:
        return anchor
    return anchor + math.ceil((moment - anchor) / period) * period


def tick_after(anchor: float, period: float, moment: float) -> float:
    """Return the first tick later than `moment`."""
    tick = tick_from(anchor, period, moment)
    return tick if tick > moment else tick + period
