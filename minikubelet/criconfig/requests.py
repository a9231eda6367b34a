"""What a pod asks for as a whole: requests and limits summed over its containers, exactly.

Source: component-helpers resource/helpers.go.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction

from minikubelet.api import quantity
from minikubelet.api.pod import Pod, Quantity, ResourceRequirements

Totals = dict[str, Fraction]


def amounts(quantities: Mapping[str, Quantity]) -> Totals:
    """Return quantities as exact numbers."""
    return {name: quantity.parse(text) for name, text in quantities.items()}


def added(one: Totals, other: Totals) -> Totals:
    """Return the sum, name by name."""
    return {name: one.get(name, Fraction()) + other.get(name, Fraction()) for name in one | other}


def _larger(one: Totals, other: Totals) -> Totals:
    return {
        name: max(one.get(name, Fraction()), other.get(name, Fraction())) for name in one | other
    }


def _pod_totals(
    pod: Pod,
    pick: Callable[[ResourceRequirements], Mapping[str, Quantity]],
    *,
    overhead: bool,
    pod_level: bool = True,
) -> Totals:
    """Return the pod's peak: sidecars run on, other init containers come one by one."""
    total: Totals = {}
    sidecars: Totals = {}
    peak: Totals = {}
    for container in pod.spec.containers:
        total = added(total, amounts(pick(container.resources)))
    for container in pod.spec.init_containers:
        own = amounts(pick(container.resources))
        if container.is_sidecar:
            total = added(total, own)
            sidecars = added(sidecars, own)
            peak = _larger(peak, sidecars)
        else:
            peak = _larger(peak, added(own, sidecars))
    total = _larger(total, peak)
    if pod.spec.resources is not None and pod_level:
        total |= amounts(pick(pod.spec.resources))
    if overhead:
        total = added(total, amounts(pod.spec.overhead))
    return total


def pod_requests(pod: Pod, *, overhead: bool = True, pod_level: bool = True) -> Totals:
    """Return the pod's summed requests in exact units; pod-level ones win."""
    return _pod_totals(
        pod, lambda resources: resources.requests, overhead=overhead, pod_level=pod_level
    )


def pod_limits(pod: Pod, *, overhead: bool = True) -> Totals:
    """Return the pod's summed limits in exact units; containers without a limit count as 0."""
    totals = _pod_totals(pod, lambda resources: resources.limits, overhead=False)
    if overhead:
        for name, extra in amounts(pod.spec.overhead).items():
            if totals.get(name):
                totals[name] += extra
    return totals
