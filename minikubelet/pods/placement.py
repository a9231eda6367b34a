"""Whether a pod may be on a node with these labels and taints: pure.

Source: component-helpers scheduling/corev1/nodeaffinity, kubelet lifecycle/predicate.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from minikubelet.api.pod import Pod, Toleration


@dataclass(frozen=True, slots=True)
class NodeTaint:
    """A taint of the Node object."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class NodeView:
    """The Node object as admission reads it."""

    name: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[NodeTaint, ...] = ()
    supplemental_groups_policy: bool | None = None
    """Whether the runtime honours `Strict`; None where nobody knows."""
    known: bool = True
    """False while the Node object of a cluster hasn't been seen: labels and taints are guesses."""


def matches_node(pod: Pod, node: NodeView) -> bool:
    """Tell whether nodeSelector and the required node affinity choose this node."""
    labels = node.labels
    if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
        return False
    affinity = pod.spec.affinity if isinstance(pod.spec.affinity, Mapping) else {}
    required = (affinity.get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is None:
        return True
    return any(_term_matches(term, node) for term in required.get("nodeSelectorTerms") or ())


def _term_matches(term: Mapping[str, Any], node: NodeView) -> bool:
    expressions = term.get("matchExpressions") or ()
    fields = term.get("matchFields") or ()
    if not expressions and not fields:
        return False  # an empty term chooses nothing
    named = {"metadata.name": node.name}
    return all(_holds(each, node.labels) for each in expressions) and all(
        _holds(each, named) for each in fields
    )


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    actual = labels.get(requirement.get("key", ""))
    values = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return actual in values
        case "NotIn":
            return actual not in values
        case "Exists":
            return actual is not None
        case "DoesNotExist":
            return actual is None
        case "Gt" | "Lt" as operator:
            try:
                have, wanted = int(actual or ""), int(str(next(iter(values))))
            except (ValueError, StopIteration):
                return False
            return have > wanted if operator == "Gt" else have < wanted
        case _:
            return False


def untolerated(pod: Pod, taints: Iterable[NodeTaint]) -> NodeTaint | None:
    """Return the first NoExecute taint that the pod doesn't tolerate."""
    for taint in taints:
        if taint.effect == "NoExecute" and not any(
            _tolerates(toleration, taint) for toleration in pod.spec.tolerations
        ):
            return taint
    return None


def _tolerates(toleration: Toleration, taint: NodeTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and (toleration.value or "") == taint.value
