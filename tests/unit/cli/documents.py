"""Pods and manifests as the local API shows them, for tests of what people see."""

from typing import Any

NOW = 1_767_323_045.0
"""2026-01-02T03:04:05Z."""
BEFORE = "2026-01-02T03:04:00Z"


def a_status(name: str = "app", **fields: Any) -> dict[str, Any]:
    return {"name": name, "state": {}, "lastState": {}, "ready": False, "restartCount": 0} | fields


def running(name: str = "app", **fields: Any) -> dict[str, Any]:
    state = {"running": {"startedAt": BEFORE}}
    return a_status(name, **({"state": state, "ready": True, "started": True} | fields))


def waiting(
    name: str = "app", reason: str = "", message: str = "", **fields: Any
) -> dict[str, Any]:
    return a_status(name, state={"waiting": {"reason": reason, "message": message}}, **fields)


def ended(name: str = "app", code: int = 0, **fields: Any) -> dict[str, Any]:
    reason = "Error" if code else "Completed"
    state = {"terminated": {"exitCode": code, "reason": reason} | fields}
    return a_status(name, state=state, ready=not code)


def a_pod(
    *statuses: dict[str, Any],
    init: tuple[dict[str, Any], ...] = (),
    sidecars: tuple[str, ...] = (),
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    """A pod whose spec follows from its container statuses; keyword arguments are its status."""
    always = {"restartPolicy": "Always"}
    return {
        "metadata": {
            "name": "web-node1",
            "namespace": "default",
            "uid": "uid-1",
            "annotations": {"kubernetes.io/config.source": "file"},
        }
        | (metadata or {}),
        "spec": {
            "nodeName": "Node1",
            "containers": [{"name": each["name"], "image": "i"} for each in statuses],
            "initContainers": [
                {"name": each["name"], "image": "j"} | (always if each["name"] in sidecars else {})
                for each in init
            ],
        }
        | (spec or {}),
        "status": {
            "phase": "Pending",
            "startTime": BEFORE,
            "containerStatuses": list(statuses),
            "initContainerStatuses": list(init),
        }
        | status,
    }


def a_report(
    *pods: str, location: str = "/m/web.yaml", errors: tuple[str, ...] = (), **fields: Any
) -> dict[str, Any]:
    return {
        "source": "file",
        "location": location,
        "document": 1,
        "pods": list(pods),
        "errors": list(errors),
        "warnings": [],
        "lastGoodRuns": False,
    } | fields


def manifests(*reports: dict[str, Any], conflicts: tuple[str, ...] = (), runtime: str = "") -> Any:
    return {"manifests": list(reports), "conflicts": list(conflicts), "runtime": runtime}
