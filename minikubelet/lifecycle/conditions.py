"""The pod's conditions. Source: kubelet status/generate.go, kubelet_pods.go.

Conditions of foreign types are taken over from the API object; lastTransitionTime moves only when
`status` changes.
"""

from collections.abc import Iterable, Sequence

import msgspec

from minikubelet.api.pod import Container, Pod
from minikubelet.api.status import ContainerStatus, PodCondition

OWNED = frozenset(
    {
        "PodScheduled",
        "Ready",
        "Initialized",
        "ContainersReady",
        "PodResizeInProgress",
        "PodResizePending",
        "PodReadyToStartContainers",
        "AllContainersRestarting",
    }
)
"""The types that only the node writes."""


def _condition(type_: str, status: str, reason: str = "", message: str = "") -> PodCondition:
    return PodCondition(type=type_, status=status, reason=reason, message=message)


def _names(title: str, names: Iterable[str]) -> list[str]:
    listed = list(names)
    return [f"containers with {title} status: [{' '.join(listed)}]"] if listed else []


def initialized(
    pod: Pod, init: Sequence[ContainerStatus], regular: Sequence[ContainerStatus], phase: str
) -> PodCondition:
    """Return the Initialized condition."""
    kind = "Initialized"
    if not init and pod.spec.init_containers:
        return _condition(kind, "False", "UnknownContainerStatuses")
    by_name = {status.name: status for status in init}
    unknown, incomplete = [], []
    for container in pod.spec.init_containers:
        status = by_name.get(container.name)
        if status is None:
            unknown.append(container.name)
        elif not (status.started if container.is_sidecar else status.ready):
            incomplete.append(container.name)
    if phase == "Succeeded" and not unknown:
        return _condition(kind, "True", "PodCompleted")
    if any(status.state.running or status.state.terminated for status in regular):
        return _condition(kind, "True")
    problems = _names("unknown", unknown) + _names("incomplete", incomplete)
    if problems:
        return _condition(kind, "False", "ContainersNotInitialized", ", ".join(problems))
    return _condition(kind, "True")


def _relevant(pod: Pod) -> Iterable[Container]:
    yield from (container for container in pod.spec.init_containers if container.is_sidecar)
    yield from pod.spec.containers


def containers_ready(pod: Pod, statuses: Sequence[ContainerStatus], phase: str) -> PodCondition:
    """Return the ContainersReady condition; `statuses` covers init and regular containers."""
    kind = "ContainersReady"
    if not statuses:
        return _condition(kind, "False", "UnknownContainerStatuses")
    by_name = {status.name: status for status in statuses}
    unknown = [c.name for c in _relevant(pod) if c.name not in by_name]
    unready = [c.name for c in _relevant(pod) if c.name in by_name and not by_name[c.name].ready]
    if phase == "Succeeded" and not unknown:
        return _condition(kind, "False", "PodCompleted")
    if phase == "Failed":
        return _condition(kind, "False", "PodFailed")
    problems = _names("unknown", unknown) + _names("unready", unready)
    if problems:
        return _condition(kind, "False", "ContainersNotReady", ", ".join(problems))
    return _condition(kind, "True")


def ready(pod: Pod, containers: PodCondition) -> PodCondition:
    """Return the Ready condition: the containers' and the readiness gates'."""
    if containers.status != "True":
        return _condition("Ready", "False", containers.reason, containers.message)
    existing = {condition.type: condition for condition in pod.status.conditions}
    problems = []
    for gate in pod.spec.readiness_gates:
        condition = existing.get(gate.condition_type)
        if condition is None:
            problems.append(
                f'corresponding condition of pod readiness gate "{gate.condition_type}" '
                "does not exist."
            )
        elif condition.status != "True":
            problems.append(
                f'the status of pod readiness gate "{gate.condition_type}" is not "True", '
                f"but {condition.status}"
            )
    if problems:
        return _condition("Ready", "False", "ReadinessGatesNotReady", ", ".join(problems))
    return _condition("Ready", "True")


def ready_to_start(*, sandbox_ready: bool) -> PodCondition:
    """Return PodReadyToStartContainers: the sandbox and its network stand (KEP-3085)."""
    return _condition("PodReadyToStartContainers", "True" if sandbox_ready else "False")


def disruption(message: str) -> PodCondition:
    """Return DisruptionTarget: the node itself ended the pod (KEP-3329)."""
    return _condition("DisruptionTarget", "True", "TerminationByKubelet", message)


def resize_infeasible(message: str) -> PodCondition:
    """Return PodResizePending for a wish that this node will never follow (KEP-1287)."""
    return _condition("PodResizePending", "True", "Infeasible", message)


def all_restarting(pod: Pod, phase: str, *, restarting: bool) -> PodCondition | None:
    """Return AllContainersRestarting, or None for a pod without such a rule (KEP-5532)."""
    rules = (
        rule.action for container in pod.all_containers() for rule in container.restart_policy_rules
    )
    if "RestartAllContainers" not in rules:
        return None
    kind = "AllContainersRestarting"
    if phase in ("Succeeded", "Failed"):
        return _condition(kind, "False", "PodCompleted" if phase == "Succeeded" else "PodFailed")
    if restarting:
        return _condition(
            kind, "True", "RestartAllContainersStarted", "container exited with restart policy rule"
        )
    return _condition(kind, "False")


def with_transitions(
    conditions: Iterable[PodCondition], earlier: Sequence[PodCondition], now: str, generation: int
) -> tuple[PodCondition, ...]:
    """Stamp each condition: the earlier transition time stays while `status` is the same."""
    before = {condition.type: condition for condition in earlier}
    stamped = []
    for condition in conditions:
        old = before.get(condition.type)
        since = now
        if old is not None and old.status == condition.status and old.last_transition_time:
            since = old.last_transition_time
        stamped.append(
            msgspec.structs.replace(
                condition, last_transition_time=since, observed_generation=generation
            )
        )
    return tuple(stamped)
