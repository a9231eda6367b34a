"""The pods that are measured: small, ended at once by TERM, images that are always there."""

from typing import Any

BUSYBOX = "localhost/minikubelet/busybox:1"
MAIN = "main"
"""The container whose start counts as the pod's."""

# PID 1 of a container ignores TERM unless it handles it.
_FOREVER = "trap 'exit 0' TERM; sleep 1000000 & wait"


def pod(name: str, *, inits: int = 0) -> dict[str, Any]:
    """Return a pod of one container that runs for ever, behind init containers that end at once."""
    spec: dict[str, Any] = {"containers": [_container(MAIN, ["/bin/sh", "-c", _FOREVER])]}
    if inits:
        names = [f"init{number}" for number in range(1, inits + 1)]
        spec["initContainers"] = [_container(each, ["/bin/true"]) for each in names]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def probed_pod(name: str, containers: int, port: int) -> dict[str, Any]:
    """Return a pod whose containers each have two probes of a server on the node's loopback."""
    every = {"periodSeconds": 1, "timeoutSeconds": 1}
    names = [MAIN, *(f"other{number}" for number in range(1, containers))]
    spec = [
        _container(each, ["/bin/sh", "-c", _FOREVER])
        | {
            "readinessProbe": {"httpGet": {"host": "127.0.0.1", "port": port}} | every,
            "livenessProbe": {"tcpSocket": {"host": "127.0.0.1", "port": port}} | every,
        }
        for each in names
    ]
    document = pod(name)
    document["spec"]["containers"] = spec
    return document


def _container(name: str, command: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "image": BUSYBOX,
        "imagePullPolicy": "IfNotPresent",
        "command": command,
    }
