"""References to fields and resources of the pod itself, in variables and volumes.

Source: validation.go validateObjectFieldSelector, validateContainerResourceFieldSelector.
"""

import re
from collections.abc import Iterator

from minikubelet.api.pod import ObjectFieldSelector, ResourceFieldSelector
from minikubelet.api.problems import Problem, invalid, join, required, unsupported
from minikubelet.api.quantity import parse as parse_quantity
from minikubelet.api.validation.formats import qualified_name
from minikubelet.api.validation.resources import QUANTITY_FORM

_IN_ENV = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_IN_VOLUME = (
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
)
_KNOWN = frozenset(
    {*_IN_ENV, *_IN_VOLUME, "spec.restartPolicy", "spec.schedulerName", "status.phase"}
)
_RESOURCES = (
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
)
_HUGE_PAGES = ("limits.hugepages-", "requests.hugepages-")
_SUBSCRIPT = re.compile(r"([^\[\]]+)\['(.*)'\]")
_SIZES = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_CPU_DIVISORS = ("1m", "1")


def check_field_ref(path: str, ref: ObjectFieldSelector, *, in_volume: bool) -> Iterator[Problem]:
    """Check a fieldRef; volumes may take all labels or annotations, variables single ones."""
    where, value = join(path, "fieldPath"), ref.field_path
    if not ref.api_version:
        yield required(join(path, "apiVersion"))
        return
    if not value:
        yield required(where)
        return
    if ref.api_version != "v1":
        yield invalid(
            where, value, f"error converting fieldPath: unsupported pod version: {ref.api_version}"
        )
        return
    if match := _SUBSCRIPT.fullmatch(value):
        field, key = match.groups()
        if field not in {"metadata.annotations", "metadata.labels"}:
            message = f"error converting fieldPath: field label does not support subscript: {value}"
            yield invalid(where, value, message)
            return
        key = key.lower() if field == "metadata.annotations" else key
        yield from (invalid(path, key, fault) for fault in qualified_name(key))
        return
    if value not in _KNOWN and value != "spec.host":
        yield invalid(
            where, value, f"error converting fieldPath: field label not supported: {value}"
        )
        return
    supported = _IN_VOLUME if in_volume else _IN_ENV
    name = "spec.nodeName" if value == "spec.host" else value
    if name not in supported:
        yield unsupported(where, name, supported)


def check_resource_field_ref(
    path: str, ref: ResourceFieldSelector, *, in_volume: bool
) -> Iterator[Problem]:
    """Check a resourceFieldRef."""
    if in_volume and not ref.container_name:
        yield required(join(path, "containerName"))
    elif not ref.resource:
        yield required(join(path, "resource"))
    elif ref.resource not in _RESOURCES and not ref.resource.startswith(_HUGE_PAGES):
        yield unsupported(join(path, "resource"), ref.resource, _RESOURCES)
    if ref.divisor is not None:
        yield from _divisor(join(path, "divisor"), ref.resource, ref.divisor)


def _divisor(path: str, resource: str, divisor: str | float) -> Iterator[Problem]:
    try:
        amount = parse_quantity(divisor)
    except ValueError:
        yield invalid(path, divisor, QUANTITY_FORM)
        return
    kind = resource.partition(".")[2]
    supported = _CPU_DIVISORS if kind == "cpu" else _SIZES
    if amount == 0 or amount in {parse_quantity(text) for text in supported}:
        return
    name = {"cpu": "cpu", "memory": "memory", "ephemeral-storage": "local ephemeral storage"}
    shown = "1m and 1" if kind == "cpu" else ", ".join(_SIZES)
    of = name.get(kind, "hugepages")
    yield invalid(
        path, resource, f"only divisor's values {shown} are supported with the {of} resource"
    )
