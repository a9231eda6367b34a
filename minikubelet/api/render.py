"""Statuses as JSON documents, with the fields that Kubernetes always shows.

The structs leave out what has its default; Go's encoding keeps numbers, booleans and nested objects
that have no `omitempty` (k8s.io/api/core/v1/types.go), and clients rely on them.
"""

from typing import Any

import msgspec

from minikubelet.api.status import PodStatus

_LISTS = ("initContainerStatuses", "containerStatuses", "ephemeralContainerStatuses")
_CONTAINER: dict[str, Any] = {
    "lastState": {},
    "ready": False,
    "restartCount": 0,
    "image": "",
    "imageID": "",
}
_TERMINATED: dict[str, Any] = {"exitCode": 0, "startedAt": None, "finishedAt": None}
_CONDITION: dict[str, Any] = {"lastProbeTime": None, "lastTransitionTime": None}


def status_document(status: PodStatus) -> dict[str, Any]:
    """Return the status as an apiserver would show it."""
    document: dict[str, Any] = msgspec.to_builtins(status)
    if document.get("conditions"):
        document["conditions"] = [
            _ordered(("type", "observedGeneration", "status"), condition, _CONDITION)
            for condition in document["conditions"]
        ]
    for name in _LISTS:
        if document.get(name):
            document[name] = [_container(entry) for entry in document[name]]
    return document


def _container(entry: dict[str, Any]) -> dict[str, Any]:
    shown = _ordered(("name", "state"), {"state": {}, **entry}, _CONTAINER)
    for key in ("state", "lastState"):
        state = dict(shown[key])
        if "terminated" in state:
            state["terminated"] = _ordered(("exitCode",), state["terminated"], _TERMINATED)
        if "running" in state:
            state["running"] = {"startedAt": None, **state["running"]}
        shown[key] = state
    return shown


def _ordered(
    first: tuple[str, ...], entry: dict[str, Any], always: dict[str, Any]
) -> dict[str, Any]:
    leading = {name: entry[name] for name in first if name in entry}
    return {**leading, **always, **entry}
