"""The conditions of the node and the events that their changes mean: pure.

Source: kubelet nodestatus/setters.go, runtime.go.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikubelet.kube.api import Document

OWNED = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """An event about the node, type Normal."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class _Pressure:
    type: str
    what: str
    high: str
    low: str


_PRESSURES = (
    _Pressure("MemoryPressure", "memory", "InsufficientMemory", "SufficientMemory"),
    _Pressure("DiskPressure", "disk", "DiskPressure", "NoDiskPressure"),
    _Pressure("PIDPressure", "PID", "InsufficientPID", "SufficientPID"),
)
_TEXTS = {
    "InsufficientMemory": "kubelet has insufficient memory available",
    "SufficientMemory": "kubelet has sufficient memory available",
    "DiskPressure": "kubelet has disk pressure",
    "NoDiskPressure": "kubelet has no disk pressure",
    "InsufficientPID": "kubelet has insufficient PID available",
    "SufficientPID": "kubelet has sufficient PID available",
}


def node_conditions(
    earlier: Iterable[Mapping[str, Any]],
    problems: Sequence[str],
    pressures: Iterable[str],
    now: str,
) -> list[Document]:
    """Return the node's own conditions, Ready last; `now` is RFC 3339.

    `problems` are the reasons why it isn't ready; `pressures` the condition types that hold.
    """
    before = {condition["type"]: condition for condition in earlier}
    held = set(pressures)
    made = []
    for pressure in _PRESSURES:
        is_high = pressure.type in held
        word = pressure.high if is_high else pressure.low
        made.append((pressure.type, is_high, f"KubeletHas{word}", _TEXTS[word]))
    if problems:
        text = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
        made.append(("Ready", False, "KubeletNotReady", text))
    else:
        made.append(("Ready", True, "KubeletReady", "kubelet is posting ready status"))
    return [
        _condition(kind, "True" if value else "False", reason, message, before.get(kind), now)
        for kind, value, reason, message in made
    ]


def _condition(
    kind: str, status: str, reason: str, message: str, old: Mapping[str, Any] | None, now: str
) -> Document:
    same = old is not None and old.get("status") == status
    since = old.get("lastTransitionTime", now) if same and old is not None else now
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastHeartbeatTime": now,
        "lastTransitionTime": since,
    }


def condition_events(
    name: str, earlier: Iterable[Mapping[str, Any]], conditions: Iterable[Mapping[str, Any]]
) -> list[NodeEvent]:
    """Return an event for each condition whose status changed or is told for the first time."""
    before = {condition["type"]: condition.get("status") for condition in earlier}
    events = []
    for condition in conditions:
        if before.get(condition["type"]) == condition["status"]:
            continue
        if condition["type"] == "Ready":
            reason = "NodeReady" if condition["status"] == "True" else "NodeNotReady"
        else:
            reason = condition["reason"].replace("Kubelet", "Node")
        events.append(NodeEvent(reason, f"Node {name} status is now: {reason}"))
    return events
