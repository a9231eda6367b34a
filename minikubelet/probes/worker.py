"""One probe of one container, over all the container's lives: its state, its target, its ticks.

A probe ticks from the moment its pod was taken, not from its container's start: a container has the
rest of the period to come up. Readiness is asked for at once when a container has started. After a
restart of the agent the first looks at what runs already are spread over a period.
Source: kubelet prober/worker.go.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from minikubelet.api.pod import Container, Pod, Probe
from minikubelet.api.status import ContainerStatus
from minikubelet.lifecycle.probe_state import (
    NO_TARGET,
    ProbeKind,
    ProbeState,
    Target,
    after_attempt,
    for_container,
    tick_after,
    tick_from,
    wants_to_run,
)
from minikubelet.lifecycle.probes import Result
from minikubelet.observe.events import PodRef
from minikubelet.probes.attempt import Prepared
from minikubelet.probes.schedule import NEVER


@dataclass(slots=True, eq=False)
class Worker:
    """One probe. `manager` moves it; times are monotonic seconds."""

    pod: Pod
    container: Container
    kind: ProbeKind
    probe: Probe
    ref: PodRef
    results: dict[str, Result]
    """By container id, of all the pod's containers: what this kind of probe found."""
    remembered: Mapping[str, ContainerStatus]
    """What was last told of containers before the agent's start, by container id."""
    anchor: float
    """The moment of one tick."""
    state: ProbeState = ProbeState()  # noqa: RUF009  frozen
    target: Target = NO_TARGET
    pod_ip: str = ""
    due: float = NEVER
    in_flight: bool = False
    stopped: bool = False
    prepared: tuple[tuple[str, str], Prepared] | None = None
    """What makes attempts, behind the container id and pod IP that it is for."""

    @property
    def period(self) -> int:
        """Seconds between ticks."""
        return max(1, self.probe.period_seconds)

    @property
    def is_wanted(self) -> bool:
        """True when an attempt makes sense now."""
        return not self.stopped and wants_to_run(self.state, self.kind, self.target)

    def stop(self) -> None:
        """Make no more attempts; one under way ends unheard."""
        self.stopped, self.due = True, NEVER

    def meet(self, container_id: str) -> None:
        """Begin with a container id that is new to the probe."""
        self.results.pop(self.state.container_id, None)
        deleting = self.pod.metadata.deletion_timestamp is not None
        earlier = self.remembered.get(container_id)
        self.state = for_container(self.kind, container_id, earlier, deleting=deleting)
        self.due = NEVER
        if self.state.result is not None:
            self.results[container_id] = self.state.result

    def note(self, container_id: str, outcome: Result) -> bool:
        """Count an outcome; tell whether a new result has settled."""
        if self.stopped or container_id != self.state.container_id:
            return False
        before = self.state.result
        self.state = after_attempt(self.state, self.kind, self.probe, outcome)
        if self.state.result is None or self.state.result is before:
            return False
        self.results[container_id] = self.state.result
        return True

    def first_tick(self, now: float, spread: Callable[[float], float]) -> float:
        """Return the first tick for a target that has just become worth an attempt.

        `spread` gives the seconds that a look at something older than the agent is put off: all at
        once would be a herd. What isn't known to be ready or started yet is asked at once.
        """
        earliest = max(now, self.target.began + self.probe.initial_delay_seconds)
        is_well = self.kind is ProbeKind.LIVENESS or self.state.result is Result.SUCCESS
        if self.target.is_older and is_well:
            self.anchor = now + spread(self.period)
        elif self.kind is ProbeKind.READINESS:
            self.anchor = earliest
        return tick_from(self.anchor, self.period, earliest)

    def next_tick(self, now: float, last: float) -> float:
        """Return the next tick; one that passed during an attempt is made up for at once."""
        return max(now, tick_after(self.anchor, self.period, last))
