"""The difference of two pod statuses as a strategic merge patch: pure.

Only fields that the node owns are compared; conditions of others, and what an apiserver adds by
itself, stay as they are. Lists with a merge key (conditions, podIPs, hostIPs) are patched entry by
entry, container statuses are sent whole: the API declares them atomic.
Source: kubelet status/status_manager.go, apimachinery pkg/util/strategicpatch.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minikubelet.kube.api import Document
from minikubelet.kube.documents import meaning

_SCALARS = (
    "phase",
    "reason",
    "message",
    "hostIP",
    "podIP",
    "qosClass",
    "startTime",
    "observedGeneration",
    "resize",
)
_WHOLE = (
    "initContainerStatuses",
    "containerStatuses",
    "ephemeralContainerStatuses",
    "resources",
    "allocatedResources",
)
_BY_IP = ("podIPs", "hostIPs")
_OWNED_OUTSIDE = frozenset({"DisruptionTarget"})
"""Types that others may write, too: sent, never deleted."""


def status_patch(
    live: Mapping[str, Any], wanted: Mapping[str, Any], owned: Iterable[str]
) -> Document | None:
    """Return the `status` of a patch that makes `live` say what `wanted` says; None when it does.

    Both are status documents; `owned` are the condition types that only the node writes: those that
    are not wanted any more are deleted.
    """
    patch: Document = {}
    for name in _SCALARS:
        if meaning(live.get(name)) != meaning(wanted.get(name)):
            patch[name] = wanted.get(name) or None
    for name in _WHOLE:
        if meaning(live.get(name)) != meaning(wanted.get(name)):
            patch[name] = wanted.get(name) or None
    for name in _BY_IP:
        if meaning(live.get(name)) != meaning(wanted.get(name)):
            patch[name] = _merge_list("ip", live.get(name) or (), wanted.get(name) or ())
    conditions = _conditions(live.get("conditions") or (), wanted.get("conditions") or (), owned)
    if conditions:
        patch["conditions"] = conditions
    return patch or None


def continued(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> Document:
    """Return a status whose times go on from one that another agent wrote: nothing happened since.

    For a static pod that was taken over, whose times nobody here remembers.
    """
    before = {entry["type"]: entry for entry in live.get("conditions") or ()}
    conditions = []
    for entry in wanted.get("conditions") or ():
        old = before.get(entry["type"], {})
        since = old.get("lastTransitionTime")
        same = since and old.get("status") == entry.get("status")
        conditions.append({**entry, "lastTransitionTime": since} if same else entry)
    start = live.get("startTime") or wanted.get("startTime")
    return {**wanted, "startTime": start, "conditions": conditions}


def patch_body(uid: str, status: Mapping[str, Any]) -> Document:
    """Return the whole patch; the uid is a precondition: a namesake is never touched."""
    return {"metadata": {"uid": uid}, "status": dict(status)}


def _conditions(
    live: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]], owned: Iterable[str]
) -> list[Document]:
    mine = set(owned)
    before = {entry["type"]: entry for entry in live}
    changes: list[Document] = []
    for entry in wanted:
        if entry["type"] not in mine | _OWNED_OUTSIDE:
            continue
        old = before.get(entry["type"], {})
        if meaning(old) != meaning(entry):
            gone = {name: None for name in old if name not in entry}
            changes.append({**gone, **entry})
    kept = {entry["type"] for entry in wanted}
    changes += [
        {"$patch": "delete", "type": type_}
        for type_ in before
        if type_ in mine and type_ not in kept
    ]
    return changes


def _merge_list(
    key: str, live: Sequence[Mapping[str, Any]], wanted: Sequence[Mapping[str, Any]]
) -> list[Document]:
    kept = {entry[key] for entry in wanted}
    gone = [{"$patch": "delete", key: entry[key]} for entry in live if entry[key] not in kept]
    return [*(dict(entry) for entry in wanted), *gone]
