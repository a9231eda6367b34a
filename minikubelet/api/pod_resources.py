"""Defaults of pod-level resources (`spec.resources`), from the containers' and its own limits.

Source: pkg/apis/core/v1/defaults.go defaultHugePagePodLimits, defaultPodRequests;
component-helpers/resource/helpers.go AggregateContainerRequests.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from minikubelet.api.quantity import canonical, parse

Document = dict[str, Any]
_HUGE_PAGES = "hugepages-"


def default_pod_resources(spec: Document) -> None:
    """Complete `spec.resources` in place when it is partly set."""
    resources = spec.get("resources")
    if not resources or not (resources.get("limits") or resources.get("requests")):
        return
    limits = dict(resources.get("limits", {}))
    requests = dict(resources.get("requests", {}))
    for name, amount in _aggregate(spec, "limits").items():
        if name.startswith(_HUGE_PAGES) and name not in requests:
            limits.setdefault(name, canonical(amount))
    if limits:
        resources["limits"] = limits
        for name, amount in _aggregate(spec, "requests").items():
            if name in {"cpu", "memory"}:
                requests.setdefault(name, canonical(amount, binary=name == "memory"))
        requests = {
            **{
                n: q
                for n, q in limits.items()
                if n in {"cpu", "memory"} or n.startswith(_HUGE_PAGES)
            },
            **requests,
        }
    if requests:
        resources["requests"] = requests


def _aggregate(spec: Mapping[str, Any], kind: str) -> dict[str, Fraction]:
    """Sum of regular containers and sidecars, or the peak of the init phase where that is more."""
    regular: dict[str, Fraction] = {}
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.get("containers", ()):
        _add(regular, _amounts(container, kind))
    for container in spec.get("initContainers", ()):
        amounts = _amounts(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(sidecars, amounts)
            amounts = sidecars
        else:
            amounts = {n: a + sidecars.get(n, Fraction(0)) for n, a in amounts.items()}
        for name, amount in amounts.items():
            peak[name] = max(peak.get(name, Fraction(0)), amount)
    _add(regular, sidecars)
    for name, amount in peak.items():
        regular[name] = max(regular.get(name, Fraction(0)), amount)
    return regular


def _amounts(container: Mapping[str, Any], kind: str) -> dict[str, Fraction]:
    result = {}
    for name, quantity in container.get("resources", {}).get(kind, {}).items():
        try:
            result[name] = parse(quantity)
        except ValueError:  # validation names it later
            continue
    return result


def _add(total: dict[str, Fraction], amounts: Mapping[str, Fraction]) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, Fraction(0)) + amount
