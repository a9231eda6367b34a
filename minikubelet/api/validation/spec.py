"""The pod itself: policies, names, tolerations; what has an own module is called from here.

Source: pkg/apis/core/validation/validation.go ValidatePodSpec.
"""

from collections.abc import Iterator

from minikubelet.api.pod import PodSpec, Toleration
from minikubelet.api.problems import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    join,
    required,
    unsupported,
)
from minikubelet.api.validation.containers import check_containers
from minikubelet.api.validation.dns import check_dns, check_host_names
from minikubelet.api.validation.formats import (
    MAX_INT32,
    between,
    dns_subdomain,
    label_value,
    qualified_name,
)
from minikubelet.api.validation.meta import check_labels
from minikubelet.api.validation.resources import check_overhead, check_pod_resources
from minikubelet.api.validation.security import check_pod_security
from minikubelet.api.validation.volumes import check_volumes

_RESTART = ("Always", "OnFailure", "Never")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_OPERATORS = ("Equal", "Exists")
_PREEMPTION = ("PreemptLowerPriority", "Never")
_SYSTEMS = ("linux", "windows")


def check_spec(spec: PodSpec) -> Iterator[Problem]:
    """Check a defaulted pod spec."""
    if spec.termination_grace_period_seconds is None:
        yield required("spec.terminationGracePeriodSeconds")
    yield from check_volumes(spec)
    yield from check_containers(spec)
    if spec.ephemeral_containers:
        yield forbidden("spec.ephemeralContainers", "cannot be set on create")
    yield from check_pod_resources(spec)
    yield from check_overhead(spec)
    yield from _host_network(spec)
    yield from choice("spec.restartPolicy", spec.restart_policy, _RESTART)
    yield from check_labels("spec.nodeSelector", spec.node_selector)
    yield from check_pod_security(spec)
    yield from check_dns(spec)
    yield from check_host_names(spec)
    yield from _names(spec)
    yield from _scheduling(spec)
    deadline = spec.active_deadline_seconds
    if deadline is not None and not 1 <= deadline <= MAX_INT32:
        yield invalid("spec.activeDeadlineSeconds", deadline, between(1, MAX_INT32))
    for index, toleration in enumerate(spec.tolerations):
        yield from _toleration(f"spec.tolerations[{index}]", toleration)
    if spec.os is not None:
        if not spec.os.name:
            yield required("spec.os.name")
        elif spec.os.name not in _SYSTEMS:
            yield unsupported("spec.os", spec.os.name, _SYSTEMS)


def choice(path: str, value: str, supported: tuple[str, ...]) -> Iterator[Problem]:
    """Check a required value of an enumeration."""
    if not value:
        yield required(path)
    elif value not in supported:
        yield unsupported(path, value, supported)


def _host_network(spec: PodSpec) -> Iterator[Problem]:
    if not spec.host_network:
        return
    for index, container in enumerate(spec.containers):
        for number, port in enumerate(container.ports):
            if port.host_port != port.container_port:
                path = f"spec.containers[{index}].ports[{number}].hostPort"
                yield invalid(
                    path, port.host_port, "must match `containerPort` when `hostNetwork` is true"
                )


def _names(spec: PodSpec) -> Iterator[Problem]:
    named = (
        ("spec.serviceAccountName", spec.service_account_name),
        ("spec.nodeName", spec.node_name),
        ("spec.priorityClassName", spec.priority_class_name),
        ("spec.runtimeClassName", spec.runtime_class_name),
    )
    for path, name in named:
        if name or (name is not None and path == "spec.runtimeClassName"):
            yield from (invalid(path, name, fault) for fault in dns_subdomain(name))


def _scheduling(spec: PodSpec) -> Iterator[Problem]:
    for index, gate in enumerate(spec.readiness_gates):
        path = f"spec.readinessGates[{index}].conditionType"
        for fault in qualified_name(gate.condition_type):
            yield invalid(path, gate.condition_type, fault)
    if spec.scheduling_gates and spec.node_name:
        yield forbidden(
            "spec.nodeName", "cannot be set until all schedulingGates have been cleared"
        )
    if spec.preemption_policy is not None:
        yield from choice("spec.preemptionPolicy", spec.preemption_policy, _PREEMPTION)
    seen: set[str] = set()
    for index, claim in enumerate(spec.resource_claims):
        name = claim.get("name") if isinstance(claim, dict) else None
        if isinstance(name, str) and name in seen:
            yield duplicate(f"spec.resourceClaims[{index}].name", name)
        seen.add(str(name))


def _toleration(path: str, toleration: Toleration) -> Iterator[Problem]:
    operator, effect = toleration.operator, toleration.effect
    if toleration.key:
        for fault in qualified_name(toleration.key):
            yield invalid(join(path, "key"), toleration.key, fault)
    elif operator != "Exists":
        yield invalid(
            join(path, "operator"),
            operator,
            "operator must be Exists when `key` is empty, which means "
            '"match all values and all keys"',
        )
    if toleration.toleration_seconds is not None and effect != "NoExecute":
        yield invalid(
            join(path, "effect"),
            effect,
            "effect must be 'NoExecute' when `tolerationSeconds` is set",
        )
    if operator in {"", "Equal"}:
        faults = ";".join(label_value(toleration.value))
        if faults:
            yield invalid(join(path, "operator"), toleration.value, faults)
    elif operator == "Exists":
        if toleration.value:
            yield invalid(
                join(path, "operator"),
                toleration.value,
                "value must be empty when `operator` is 'Exists'",
            )
    else:
        yield unsupported(join(path, "operator"), operator, _OPERATORS)
    if effect and effect not in _EFFECTS:
        yield unsupported(join(path, "effect"), effect, _EFFECTS)
