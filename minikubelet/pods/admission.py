"""Whether a pod may run here: pure, asked before its first step and again when something changed.

Source: kubelet lifecycle/predicate.go, sysctl/allowlist.go; the order and the texts are the
kubelet's. A refused static pod is tried again by its worker, a refusal is never for ever.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from minikubelet.api.pod import Pod
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.requests import Totals, amounts, pod_requests
from minikubelet.criconfig.sandbox import dotted_sysctl
from minikubelet.pods.kit import Limits

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


def admit(pod: Pod, others: Sequence[Pod], node: NodeContext, limits: Limits) -> Rejection | None:
    """Return the first refusal, or None. `others` are the pods that hold resources now."""
    checks: tuple[Callable[[], Rejection | None], ...] = (
        lambda: _sysctls(pod, limits),
        lambda: _operating_system(pod, limits),
        lambda: _resources(pod, others, node, limits),
        lambda: _node_selector(pod, limits),
        lambda: _host_ports(pod, others),
    )
    return next((refusal for check in checks if (refusal := check()) is not None), None)


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


def _operating_system(pod: Pod, limits: Limits) -> Rejection | None:
    wanted = pod.spec.node_selector.get("kubernetes.io/os")
    actual = limits.node_labels.get("kubernetes.io/os", "linux")
    if wanted is not None and wanted != actual:
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


def _resources(
    pod: Pod, others: Sequence[Pod], node: NodeContext, limits: Limits
) -> Rejection | None:
    if len(others) + 1 > limits.max_pods:
        return _insufficient("pods", 1, len(others), limits.max_pods)
    capacity = amounts(node.allocatable)
    used: Totals = {}
    for other in others:
        for name, amount in pod_requests(other).items():
            used[name] = used.get(name, Fraction()) + amount
    for name, amount in sorted(pod_requests(pod).items()):
        if not amount:
            continue
        have, taken = capacity.get(name, Fraction()), used.get(name, Fraction())
        if amount > have - taken:
            scale = 1000 if name == "cpu" else 1
            return _insufficient(name, ceil(amount * scale), ceil(taken * scale), int(have * scale))
    return None


def _insufficient(name: str, requested: int, used: int, capacity: int) -> Rejection:
    return Rejection(
        f"OutOf{name}",
        f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, "
        f"capacity: {capacity}",
    )


def _node_selector(pod: Pod, limits: Limits) -> Rejection | None:
    labels = limits.node_labels
    if all(labels.get(key) == value for key, value in pod.spec.node_selector.items()):
        return None
    return Rejection(
        "NodeAffinity",
        "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
    )


def _ports(pods: Iterable[Pod]) -> Iterable[tuple[str, str, int]]:
    for pod in pods:
        for container in pod.spec.containers:
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
