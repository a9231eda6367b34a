"""The pod's whole status from what the runtime says: pure, so that it can be asked for at any time.

`pods.worker` asks after each change and hands the result to `status`; the local API asks again when
it is read, so that words like "for 40 s" are true.
Source: kubelet kubelet_pods.go generateAPIPodStatus.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from minikubelet.api.pod import Container, Pod
from minikubelet.api.status import ContainerStatus, PodCondition, PodIP, PodStatus
from minikubelet.lifecycle import conditions
from minikubelet.lifecycle.container_statuses import StatusInputs, container_statuses
from minikubelet.lifecycle.phase import FINAL, phase, settled_phase
from minikubelet.lifecycle.probes import NO_PROBES, ProbeResults, Result
from minikubelet.lifecycle.restart import restart_all_source
from minikubelet.lifecycle.runtime import PodRuntimeStatus
from minikubelet.lifecycle.sandbox import sandbox_decision

MESSAGES_LIMIT = 12288
"""Bytes of termination messages a status may carry, shared by the pod's containers."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A decision about the whole pod that overrides the computed phase (deadline, eviction)."""

    phase: str
    reason: str
    message: str
    disruption: str = ""
    """The message of the condition DisruptionTarget; empty: there is none."""


@dataclass(frozen=True, slots=True)
class Situation:
    """What the worker and the node know beside the runtime's records."""

    containers: StatusInputs = field(default_factory=StatusInputs)
    probes: ProbeResults = NO_PROBES
    pending_hooks: frozenset[str] = frozenset()
    host_ips: tuple[str, ...] = ()
    qos_class: str = ""
    static: bool = False
    pod_is_terminal: bool = False
    verdict: Verdict | None = None
    message: str = ""
    """Why the pod as a whole waits (admission, volumes), shown while it isn't final."""
    reason: str = ""
    resize_refused: str = ""
    """Why a wish for other resources isn't followed; empty: there is no such wish."""


def generate(
    pod: Pod,
    runtime: PodRuntimeStatus,
    earlier: PodStatus,
    situation: Situation,
    now: str,
) -> PodStatus:
    """Return the status of the pod as an apiserver would show it; `now` is RFC 3339."""
    spec, inputs = pod.spec, situation.containers
    init = _ready(
        container_statuses(
            pod, runtime, spec.init_containers, earlier.init_container_statuses, inputs
        ),
        spec.init_containers,
        situation,
        init=True,
    )
    regular = _ready(
        container_statuses(pod, runtime, spec.containers, earlier.container_statuses, inputs),
        spec.containers,
        situation,
        init=False,
    )
    ephemeral = container_statuses(
        pod, runtime, spec.ephemeral_containers, earlier.ephemeral_container_statuses, inputs
    )
    sandbox_id = runtime.sandboxes[0].id if runtime.sandboxes else ""
    computed = phase(
        pod,
        (*init, *regular),
        pod_is_terminal=situation.pod_is_terminal,
        has_initialized=any(
            record.sandbox_id in ("", sandbox_id)
            for container in spec.containers
            for record in runtime.records(container.name)
        ),
        static=situation.static,
    )
    final, reason, message = _overall(computed, pod, runtime, earlier, situation)
    status = replace(
        earlier,
        phase=final,
        reason=reason,
        message=message,
        observed_generation=max(pod.metadata.generation, earlier.observed_generation),
        qos_class=situation.qos_class,
        start_time=earlier.start_time or now,
        init_container_statuses=_shortened(init, pod),
        container_statuses=tuple(sorted(_shortened(regular, pod), key=lambda s: s.name)),
        ephemeral_container_statuses=tuple(sorted(ephemeral, key=lambda s: s.name)),
        **_pod_level_resources(pod),
    )
    status = _with_ips(status, pod, runtime, situation)
    return replace(status, conditions=_conditions(pod, runtime, earlier, status, situation, now))


def _pod_level_resources(pod: Pod) -> dict[str, Any]:
    """Return what a pod with resources of its own has of them (KEP-2837)."""
    own = pod.spec.resources
    if own is None:
        return {}
    parts = {"limits": dict(own.limits), "requests": dict(own.requests)}
    return {
        "resources": {name: amounts for name, amounts in parts.items() if amounts},
        "allocated_resources": dict(own.requests) or None,
    }


def rejected_status(
    pod: Pod, earlier: PodStatus, verdict: Verdict, qos_class: str, now: str
) -> PodStatus:
    """Return the status of a pod that was refused for good (kubelet.go rejectPod)."""
    return PodStatus(
        phase=verdict.phase,
        reason=verdict.reason,
        message=verdict.message,
        qos_class=qos_class,
        start_time=earlier.start_time or now,
        observed_generation=max(pod.metadata.generation, earlier.observed_generation),
        conditions=tuple(c for c in pod.status.conditions if c.type not in conditions.OWNED),
    )


def _overall(
    computed: str, pod: Pod, runtime: PodRuntimeStatus, earlier: PodStatus, situation: Situation
) -> tuple[str, str, str]:
    """Return phase, reason and message of the pod.

    A final phase is told only once nothing runs any more: until then the earlier phase stays
    (kubelet: status_manager.go, a transition to a terminal phase is held back).
    """
    verdict = situation.verdict
    if verdict is not None:
        if runtime.running:
            return earlier.phase or computed, verdict.reason, verdict.message
        computed = verdict.phase
    elif computed in FINAL and runtime.running:
        computed = earlier.phase or "Running"
    final = settled_phase(computed, earlier.phase, pod.status.phase)
    if verdict is not None and final == verdict.phase:
        return final, verdict.reason, verdict.message
    if final == earlier.phase and final in FINAL:
        return final, earlier.reason, earlier.message
    return final, situation.reason, situation.message


def _ready(
    statuses: tuple[ContainerStatus, ...],
    containers: Sequence[Container],
    situation: Situation,
    *,
    init: bool,
) -> tuple[ContainerStatus, ...]:
    """Fill in `started` and `ready` (facts: kubelet prober/prober_manager.go UpdatePodStatus)."""
    by_name = {container.name: container for container in containers}
    return tuple(_ready_one(s, by_name[s.name], situation, init=init) for s in statuses)


def _ready_one(
    status: ContainerStatus, container: Container, situation: Situation, *, init: bool
) -> ContainerStatus:
    probes = situation.probes
    container_id = status.container_id.partition("://")[2]
    started = status.state.running is not None and container_id not in situation.pending_hooks
    if started and probes.has_startup(container):
        started = probes.startup.get(container_id) is Result.SUCCESS
    if init and not container.is_sidecar:
        ended = status.state.terminated
        return replace(status, started=started, ready=ended is not None and ended.exit_code == 0)
    ready = started
    if ready and probes.has_readiness(container):
        ready = probes.readiness.get(container_id) is Result.SUCCESS
    return replace(status, started=started, ready=ready)


def _shortened(statuses: tuple[ContainerStatus, ...], pod: Pod) -> tuple[ContainerStatus, ...]:
    limit = MESSAGES_LIMIT // max(1, sum(1 for _ in pod.all_containers()))
    return tuple(_shorten(status, limit) for status in statuses)


def _shorten(status: ContainerStatus, limit: int) -> ContainerStatus:
    for attribute in ("state", "last_state"):
        state = getattr(status, attribute)
        ended = state.terminated
        if ended is not None and len(ended.message.encode()) > limit:
            cut = ended.message.encode()[:limit].decode(errors="ignore")
            state = replace(state, terminated=replace(ended, message=cut))
            status = replace(status, **{attribute: state})
    return status


def _with_ips(
    status: PodStatus, pod: Pod, runtime: PodRuntimeStatus, situation: Situation
) -> PodStatus:
    """Fill in host and pod addresses; a hostNetwork pod has the node's, set once."""
    ips = runtime.ips
    if pod.spec.host_network:
        ips = tuple(entry.ip for entry in status.pod_ips) or situation.host_ips
    if not ips:
        # The addresses of a sandbox that is gone stay readable (kubelet: pleg/generic.go).
        ips = tuple(entry.ip for entry in status.pod_ips)
    host = situation.host_ips
    return replace(
        status,
        host_ip=host[0] if host else status.host_ip,
        host_ips=tuple(PodIP(ip=ip) for ip in host) or status.host_ips,
        pod_ip=ips[0] if ips else "",
        pod_ips=tuple(PodIP(ip=ip) for ip in ips),
    )


def _conditions(
    pod: Pod,
    runtime: PodRuntimeStatus,
    earlier: PodStatus,
    status: PodStatus,
    situation: Situation,
    now: str,
) -> tuple[PodCondition, ...]:
    verdict = situation.verdict
    disrupted = verdict is not None and bool(verdict.disruption) and status.phase in FINAL
    kept = {*conditions.OWNED, "DisruptionTarget"} if disrupted else conditions.OWNED
    foreign = [c for c in pod.status.conditions if c.type not in kept]
    both = (*status.init_container_statuses, *status.container_statuses)
    containers = conditions.containers_ready(pod, both, status.phase)
    made: list[PodCondition] = []
    if disrupted and verdict is not None:
        made.append(conditions.disruption(verdict.disruption))
    if situation.resize_refused:
        made.append(conditions.resize_infeasible(situation.resize_refused))
    made += [
        conditions.ready_to_start(sandbox_ready=not sandbox_decision(pod, runtime).create),
        conditions.initialized(
            pod, status.init_container_statuses, status.container_statuses, status.phase
        ),
        conditions.ready(pod, containers),
        containers,
        PodCondition(type="PodScheduled", status="True"),
    ]
    restarting = conditions.all_restarting(
        pod, status.phase, restarting=restart_all_source(pod, runtime) is not None
    )
    if restarting is not None:
        made.append(restarting)
    stamped = conditions.with_transitions(made, earlier.conditions, now, pod.metadata.generation)
    return (*foreign, *stamped)


StatusAt = Callable[[], PodStatus]
"""Computes a pod's status at the moment of the call."""
