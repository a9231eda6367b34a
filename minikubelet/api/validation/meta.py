"""Names, labels and annotations. Source: apimachinery pkg/api/validation/objectmeta.go."""

from collections.abc import Iterator, Mapping

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.problems import Problem, invalid, required, too_long
from minikubelet.api.validation.formats import (
    dns_label,
    dns_subdomain,
    label_value,
    qualified_name,
)

_MAX_ANNOTATIONS = 256 * 2**10
"""Bytes of all keys and values."""


def check_metadata(meta: ObjectMeta) -> Iterator[Problem]:
    """Check the metadata of a pod."""
    if not meta.name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from (
            invalid("metadata.name", meta.name, fault) for fault in dns_subdomain(meta.name)
        )
    if not meta.namespace:
        yield required("metadata.namespace")
    else:
        for fault in dns_label(meta.namespace):
            yield invalid("metadata.namespace", meta.namespace, fault)
    if meta.generation < 0:
        yield invalid("metadata.generation", meta.generation, "must be greater than or equal to 0")
    yield from check_labels("metadata.labels", meta.labels)
    yield from _annotations("metadata.annotations", meta.annotations)
    for index, name in enumerate(meta.finalizers):
        path = f"metadata.finalizers[{index}]"
        yield from (invalid(path, name, fault) for fault in qualified_name(name))


def check_labels(path: str, labels: Mapping[str, str]) -> Iterator[Problem]:
    """Check keys and values of labels or of a node selector."""
    for key, value in labels.items():
        yield from (invalid(path, key, fault) for fault in qualified_name(key))
        yield from (invalid(path, value, fault) for fault in label_value(value))


def _annotations(path: str, annotations: Mapping[str, str]) -> Iterator[Problem]:
    for key in annotations:
        yield from (invalid(path, key, fault) for fault in qualified_name(key.lower()))
    size = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if size > _MAX_ANNOTATIONS:
        yield too_long(path, _MAX_ANNOTATIONS)
