"""Capacity and allocatable of a node: pure arithmetic on quantities.

Source: kubelet nodestatus/setters.go MachineInfo, cm/node_container_manager_linux.go.
"""

from collections.abc import Mapping
from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.node.facts import MachineFacts, NodeSettings

_BINARY = ("memory", "ephemeral-storage")
_THRESHOLDS = {"memory.available": "memory", "nodefs.available": "ephemeral-storage"}


def capacity(machine: MachineFacts, max_pods: int) -> dict[str, Fraction]:
    """Return everything the node has, by resource name."""
    amounts = {
        "cpu": Fraction(machine.cpus),
        "memory": Fraction(machine.memory),
        "ephemeral-storage": Fraction(machine.disk),
        "pods": Fraction(max_pods),
    }
    for size, reserved in machine.hugepages.items():
        amounts[f"hugepages-{quantity.canonical(Fraction(size), binary=True)}"] = Fraction(reserved)
    return amounts


def allocatable(
    amounts: Mapping[str, Fraction], reserved: Mapping[str, Fraction]
) -> dict[str, Fraction]:
    """Return what pods can have: capacity less what is reserved, never below nothing."""
    left = {
        name: max(Fraction(), amount - reserved.get(name, Fraction()))
        for name, amount in amounts.items()
    }
    huge = sum(
        (amount for name, amount in amounts.items() if name.startswith("hugepages-")), Fraction()
    )
    left["memory"] = max(Fraction(), left["memory"] - huge)
    return left


def reservations(settings: NodeSettings, amounts: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return what the system, Kubernetes and the hard eviction thresholds keep for themselves."""
    total: dict[str, Fraction] = {}
    for part in settings.reserved:
        for name, amount in part.items():
            if name in amounts:
                total[name] = total.get(name, Fraction()) + quantity.parse(amount)
    for signal, threshold in settings.eviction_hard.items():
        resource = _THRESHOLDS.get(signal)
        if resource is not None:
            kept = _threshold(threshold, amounts[resource])
            total[resource] = total.get(resource, Fraction()) + kept
    return total


def _threshold(text: str, whole: Fraction) -> Fraction:
    if text.endswith("%"):
        return Fraction(int(whole * Fraction(text[:-1]) / 100))
    return quantity.parse(text)


def shown(amounts: Mapping[str, Fraction]) -> dict[str, str]:
    """Return quantities as an apiserver prints them."""
    return {
        name: quantity.canonical(amount, binary=name in _BINARY or name.startswith("hugepages-"))
        for name, amount in sorted(amounts.items())
    }
