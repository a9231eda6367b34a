"""Whether a pod may run here: pure, asked before its first step and again when something changed.

Source: kubelet lifecycle/predicate.go, sysctl/allowlist.go; the order and the texts are the
kubelet's. A refused static pod is tried again by its worker, a refusal is never for ever.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from minikubelet.api.pod import Pod
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.requests import Totals, amounts, pod_requests
from minikubelet.criconfig.sandbox import dotted_sysctl
from minikubelet.pods.kit import Limits
from minikubelet.pods.placement import NodeView, matches_node, untolerated

_SAFE_SYSCTLS = {
    "kernel.shm_rmid_forced": (0, 0),
    "net.ipv4.ip_local_port_range": (0, 0),
    "net.ipv4.tcp_syncookies": (0, 0),
    "net.ipv4.ping_group_range": (0, 0),
    "net.ipv4.ip_unprivileged_port_start": (0, 0),
    "net.ipv4.ip_local_reserved_ports": (3, 16),
    "net.ipv4.tcp_keepalive_time": (4, 5),
    "net.ipv4.tcp_fin_timeout": (4, 6),
    "net.ipv4.tcp_keepalive_intvl": (4, 5),
    "net.ipv4.tcp_keepalive_probes": (4, 5),
    "net.ipv4.tcp_rmem": (4, 15),
    "net.ipv4.tcp_wmem": (4, 15),
}
"""Namespaced and harmless, with the kernel version that made them so (sysctl/safe_sysctls.go)."""

NODE_PORTS = "NodePorts"
_IPC_SYSCTLS = ("kernel.shm", "kernel.msg", "kernel.sem", "fs.mqueue.")


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod may not run now: a reason and message of the kubelet."""

    reason: str
    message: str
    passing: bool = False
    """True when only pods that are about to end are in the way."""
    need: Mapping[str, Fraction] = field(default_factory=dict)
    """What is missing, when resources are the only thing that is."""


def admit(
    pod: Pod,
    others: Sequence[Pod],
    node: NodeContext,
    limits: Limits,
    view: NodeView,
    *,
    static: bool = True,
) -> Rejection | None:
    """Return the first refusal, or None. `others` are the pods that hold resources now."""
    predicates: tuple[Callable[[], Rejection | None], ...] = (
        # A pod of the apiserver was put here by someone who knew the node; a refusal is final.
        lambda: _node_affinity(pod, view) if static or view.known else None,
        lambda: _host_ports(pod, others),
        lambda: None if static else _taints(pod, view),
    )
    checks: tuple[Callable[[], Rejection | None], ...] = (
        lambda: _sysctls(pod, limits),
        lambda: _operating_system(pod, view),
        lambda: _supplemental_groups(pod, view),
        lambda: _resources(pod, others, node, limits),
        *predicates,
        lambda: _app_armor(pod, limits),
        lambda: _features(pod),
    )
    refusal = next((refusal for check in checks if (refusal := check()) is not None), None)
    if refusal is not None and refusal.need and any(check() for check in predicates):
        # Others make room only where that is all that is missing.
        return replace(refusal, need={})
    return refusal


def _sysctls(pod: Pod, limits: Limits) -> Rejection | None:
    context = pod.spec.security_context
    for sysctl in context.sysctls if context is not None else ():
        name = dotted_sysctl(sysctl.name)
        safe = name in _SAFE_SYSCTLS and limits.kernel_version >= _SAFE_SYSCTLS[name]
        allowed = any(
            name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1]))
            for pattern in limits.allowed_unsafe_sysctls
        )
        if not safe and not allowed:
            return Rejection("SysctlForbidden", f'forbidden sysctl: "{name}" not allowlisted')
        if pod.spec.host_network and name.startswith("net."):
            return Rejection(
                "SysctlForbidden", f'forbidden sysctl: "{name}" not allowed with host net enabled'
            )
        if pod.spec.host_ipc and name.startswith(_IPC_SYSCTLS):
            return Rejection(
                "SysctlForbidden", f'forbidden sysctl: "{name}" not allowed with host ipc enabled'
            )
    return None


def _operating_system(pod: Pod, view: NodeView) -> Rejection | None:
    label = pod.metadata.labels.get("kubernetes.io/os")
    if label is not None and label != view.labels.get("kubernetes.io/os", "linux"):
        return Rejection(
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        )
    if pod.spec.os is not None and pod.spec.os.name != "linux":
        return Rejection(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        )
    return None


def _supplemental_groups(pod: Pod, view: NodeView) -> Rejection | None:
    context = pod.spec.security_context
    policy = context.supplemental_groups_policy if context is not None else None
    if policy == "Strict" and view.supplemental_groups_policy is False:
        return Rejection(
            "SupplementalGroupsPolicyNotSupported",
            "SupplementalGroupsPolicy=Strict is not supported in this node",
        )
    return None


def _resources(
    pod: Pod, others: Sequence[Pod], node: NodeContext, limits: Limits
) -> Rejection | None:
    capacity = {**amounts(node.allocatable), "pods": Fraction(limits.max_pods)}
    used: Totals = {"pods": Fraction(len(others))}
    for other in others:
        for name, amount in pod_requests(other).items():
            used[name] = used.get(name, Fraction()) + amount
    wanted = {"pods": Fraction(1), **dict(sorted(pod_requests(pod).items()))}
    first, need = None, {}
    for name, amount in wanted.items():
        have, taken = capacity.get(name), used.get(name, Fraction())
        if have is None and _is_extended(name):
            continue  # the node has never heard of it: whoever sent the pod here knows why
        have = have or Fraction()
        if amount and amount > have - taken:
            scale = 1000 if name == "cpu" else 1
            numbers = ceil(amount * scale), ceil(taken * scale), int(have * scale)
            first = first or _insufficient(name, *numbers)
            need[name] = amount - (have - taken)
    return replace(first, need=need) if first is not None else None


def _is_extended(name: str) -> bool:
    """Tell whether a resource has a domain of its own (helper.IsExtendedResourceName)."""
    domain = name.partition("/")[0] if "/" in name else ""
    return bool(domain) and not domain.endswith("kubernetes.io")


def _insufficient(name: str, requested: int, used: int, capacity: int) -> Rejection:
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
        f"capacity: {capacity}",
    )


def _node_affinity(pod: Pod, view: NodeView) -> Rejection | None:
    if matches_node(pod, view):
        return None
    return Rejection(
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    )


def _taints(pod: Pod, view: NodeView) -> Rejection | None:
    if untolerated(pod, view.taints) is None:
        return None
    return Rejection(
        "TaintToleration",
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
    )


def _app_armor(pod: Pod, limits: Limits) -> Rejection | None:
    """Refuse a pod that asks for what the machine can't enforce (security/apparmor/validate.go)."""
    if limits.app_armor or pod.status.phase not in ("", "Pending"):
        return None
    contexts = [pod.spec.security_context]
    contexts += [container.security_context for container in pod.all_containers()]  # type: ignore[misc]  # both have the field
    profiles = [c.app_armor_profile for c in contexts if c is not None]
    if any(profile is not None and profile.type != "Unconfined" for profile in profiles):
        return Rejection("AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host")
    return None


def _features(pod: Pod) -> Rejection | None:
    """Refuse by name what this node would have to leave out."""
    spec = pod.spec
    missing = [
        (spec.host_users is False, "spec.hostUsers: false (user namespaces)"),
        (bool(spec.resource_claims), "spec.resourceClaims (dynamic resource allocation)"),
        (
            any(container.volume_devices for container in pod.all_containers()),
            "volumeDevices (raw block volumes)",
        ),
    ]
    fields = [name for is_used, name in missing if is_used]
    if not fields:
        return None
    return Rejection(
        "PodFeatureUnsupported",
        f"this node doesn't support {', '.join(fields)}: run the pod on another node, or without",
    )


def _ports(pods: Iterable[Pod]) -> Iterable[tuple[str, str, int]]:
    for pod in pods:
        sidecars = (each for each in pod.spec.init_containers if each.is_sidecar)
        for container in (*pod.spec.containers, *sidecars):
            for port in container.ports:
                if port.host_port:
                    yield port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port


def _host_ports(pod: Pod, others: Sequence[Pod]) -> Rejection | None:
    taken = set(_ports(others))
    for ip, protocol, number in _ports([pod]):
        for other_ip, other_protocol, other_number in taken:
            same = (protocol, number) == (other_protocol, other_number)
            if same and (ip == other_ip or "0.0.0.0" in (ip, other_ip)):
                return Rejection(
                    NODE_PORTS,
                    "Predicate NodePorts failed: node(s) didn't have free ports for the "
                    "requested pod ports",
                )
    return None
