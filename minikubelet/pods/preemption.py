"""Which pods make room for a critical one: pure.

As few Guaranteed pods as possible, then as few Burstable ones, then BestEffort; among equals the
one whose requests fit the need best. Source: kubelet preemption/preemption.go.
"""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from minikubelet.api.pod import Pod
from minikubelet.criconfig.qos import qos_class
from minikubelet.criconfig.requests import pod_requests

CRITICAL_PRIORITY = 2_000_000_000
Need = Mapping[str, Fraction]


def is_critical(pod: Pod, *, static: bool) -> bool:
    """Tell whether a pod may take the place of others (kubelet types/pod_update.go)."""
    return static or (pod.spec.priority or 0) >= CRITICAL_PRIORITY


def victims(pod: Pod, need: Need, others: Sequence[tuple[Pod, bool]]) -> tuple[Pod, ...] | None:
    """Return the pods to end so that `need` becomes free; None when even all don't suffice.

    `others` are the admitted pods, each with whether it is static.
    """
    groups: dict[str, list[Pod]] = {"Guaranteed": [], "Burstable": [], "BestEffort": []}
    for other, static in others:
        if _may_go(pod, other, static=static):
            groups[qos_class(other)].append(other)
    guaranteed, burstable, best_effort = groups.values()
    if _left(need, [*guaranteed, *burstable, *best_effort]):
        return None
    first = _closest(guaranteed, _left(need, [*best_effort, *burstable]))
    second = _closest(burstable, _left(need, [*best_effort, *first]))
    third = _closest(best_effort, _left(need, [*second, *first]))
    return (*third, *second, *first)


def _may_go(pod: Pod, other: Pod, *, static: bool) -> bool:
    if static:
        return False
    if not is_critical(other, static=False):
        return True
    return (other.spec.priority or 0) < (pod.spec.priority or 0)


def _requests(pod: Pod) -> Mapping[str, Fraction]:
    return {**pod_requests(pod), "pods": Fraction(1)}


def _left(need: Need, freed: Sequence[Pod]) -> dict[str, Fraction]:
    """Return what is still needed once these pods are gone."""
    left = dict(need)
    for pod in freed:
        for name, amount in _requests(pod).items():
            if name in left:
                left[name] -= amount
    return {name: amount for name, amount in left.items() if amount > 0}


def _closest(pods: Sequence[Pod], need: Need) -> list[Pod]:
    chosen: list[Pod] = []
    candidates = list(pods)
    left = dict(need)
    while left and candidates:
        best = min(candidates, key=lambda pod: _distance(pod, left))
        candidates.remove(best)
        chosen.append(best)
        left = _left(left, [best])
    return chosen


def _distance(pod: Pod, need: Need) -> tuple[Fraction, Fraction, Fraction]:
    requests = _requests(pod)
    total = Fraction()
    for name, amount in need.items():
        missing = amount - requests.get(name, Fraction())
        if missing > 0:
            total += (missing / amount) ** 2
    return total, requests.get("memory", Fraction()), requests.get("cpu", Fraction())
