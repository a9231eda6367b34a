"""Requests and limits of containers and pods. Source: validation.go."""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from minikubelet.api.pod import PodSpec, Quantity, ResourceRequirements
from minikubelet.api.problems import Problem, at_key, forbidden, invalid, join, required
from minikubelet.api.quantity import canonical
from minikubelet.api.quantity import parse as parse_quantity
from minikubelet.api.validation.formats import qualified_name

QUANTITY_FORM = (
    "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
)
_STANDARD = frozenset({"cpu", "memory", "ephemeral-storage"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_HUGE_PAGES = "hugepages-"
_NATIVE_DOMAIN = "kubernetes.io/"
_QUOTA_PREFIX = "requests."

Amounts = dict[str, Fraction]


def check_resources(path: str, resources: ResourceRequirements) -> Iterator[Problem]:
    """Check requests and limits of one container."""
    limits, requests = join(path, "limits"), join(path, "requests")
    yield from _quantities(limits, resources.limits, pod_level=False)
    yield from _quantities(requests, resources.requests, pod_level=False)
    yield from _compare(path, resources)


def check_pod_resources(spec: PodSpec) -> Iterator[Problem]:
    """Check pod-level resources, alone and against those of the containers."""
    resources = spec.resources
    if resources is None:
        return
    path = "spec.resources"
    if resources.claims:
        yield forbidden(join(path, "claims"), "claims may not be set for Resources at pod-level")
    yield from _quantities(join(path, "limits"), resources.limits, pod_level=True)
    yield from _quantities(join(path, "requests"), resources.requests, pod_level=True)
    yield from _compare(path, resources)
    requests, limits = _amounts(resources.requests), _amounts(resources.limits)
    total: Amounts = {}
    for index, container in enumerate(spec.containers):
        for name, amount in _amounts(container.resources.requests).items():
            total[name] = total.get(name, Fraction(0)) + amount
        for name, amount in _amounts(container.resources.limits).items():
            if name in limits and amount > limits[name]:
                yield invalid(
                    at_key(f"spec.containers[{index}].resources.limits", name),
                    container.resources.limits[name],
                    f"must be less than or equal to pod limits of {resources.limits[name]}",
                )
    for name, amount in total.items():
        if name in requests and amount > requests[name]:
            yield invalid(
                at_key(join(path, "requests"), name),
                resources.requests[name],
                "must be greater than or equal to aggregate container requests of "
                f"{canonical(amount, binary=name == 'memory')}",
            )


def check_overhead(spec: PodSpec) -> Iterator[Problem]:
    """Check the overhead of a runtime class."""
    yield from _quantities("spec.overhead", spec.overhead, pod_level=False)


def _quantities(
    path: str, quantities: Mapping[str, Quantity], *, pod_level: bool
) -> Iterator[Problem]:
    for name, quantity in quantities.items():
        where = at_key(path, name)
        yield from _name(where, name, pod_level=pod_level)
        try:
            amount = parse_quantity(quantity)
        except ValueError:
            yield invalid(where, quantity, QUANTITY_FORM)
            continue
        if amount < 0:
            yield invalid(where, str(quantity), "must be greater than or equal to 0")
        if _is_extended(name) and amount.denominator != 1:
            yield invalid(where, str(quantity), "must be an integer")
        if name.startswith(_HUGE_PAGES):
            yield from _whole_pages(where, name, amount, quantity)


def _whole_pages(path: str, name: str, amount: Fraction, quantity: Quantity) -> Iterator[Problem]:
    try:
        page = parse_quantity(name.removeprefix(_HUGE_PAGES))
    except ValueError:
        return
    if page > 0 and amount % page:
        yield invalid(path, str(quantity), "must be a multiple of the page size")


def _name(path: str, name: str, *, pod_level: bool) -> Iterator[Problem]:
    faults = list(qualified_name(name))
    yield from (invalid(path, name, fault) for fault in faults)
    if faults or name.startswith(_HUGE_PAGES):
        return
    if pod_level and name not in _POD_LEVEL:
        yield invalid(path, name, "must be a standard resource for pods")
    elif not pod_level and "/" not in name and name not in _STANDARD:
        yield invalid(path, name, "must be a standard resource for containers")
    elif "/" in name and _NATIVE_DOMAIN not in name and not _is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def _is_extended(name: str) -> bool:
    if "/" not in name or _NATIVE_DOMAIN in name or name.startswith(_QUOTA_PREFIX):
        return False
    return not any(qualified_name(_QUOTA_PREFIX + name))


def _may_overcommit(name: str) -> bool:
    native = "/" not in name or _NATIVE_DOMAIN in name
    return native and not name.startswith(_HUGE_PAGES)


def _compare(path: str, resources: ResourceRequirements) -> Iterator[Problem]:
    limits, requests = _amounts(resources.limits), _amounts(resources.requests)
    where = join(path, "requests")
    for name, amount in requests.items():
        shown = resources.requests[name]
        if name not in resources.limits:
            if not _may_overcommit(name):
                yield required(
                    join(path, "limits"), "Limit must be set for non overcommitable resources"
                )
            continue
        limit = resources.limits[name]
        if name not in limits:
            continue
        if amount != limits[name] and not _may_overcommit(name):
            yield invalid(where, str(shown), f"must be equal to {name} limit of {limit}")
        elif amount > limits[name]:
            yield invalid(
                where, str(shown), f"must be less than or equal to {name} limit of {limit}"
            )
    names = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in names) and not names & _POD_LEVEL:
        yield forbidden(path, "HugePages require cpu or memory")


def _amounts(quantities: Mapping[str, Quantity]) -> Amounts:
    """Read what can be read; the rest has its own problem."""
    amounts = {}
    for name, quantity in quantities.items():
        try:
            amounts[name] = parse_quantity(quantity)
        except ValueError:
            continue
    return amounts
