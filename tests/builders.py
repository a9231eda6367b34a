"""Builders of API objects with the defaults that an apiserver would set, for tests only."""

from typing import Any

import msgspec

from minikubelet.api.pod import Container, Pod


def a_container(name: str = "c", **fields: Any) -> dict[str, Any]:
    """A container document; keyword arguments are JSON names (`imagePullPolicy=...`)."""
    return {
        "name": name,
        "image": "busybox:1",
        "imagePullPolicy": "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
    } | fields


def a_pod(
    *containers: dict[str, Any],
    name: str = "pod",
    namespace: str = "default",
    uid: str = "uid-1",
    init: tuple[dict[str, Any], ...] = (),
    metadata: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A defaulted pod; keyword arguments are JSON names of the spec (`restartPolicy="Never"`)."""
    document = {
        "metadata": {"name": name, "namespace": namespace, "uid": uid} | (metadata or {}),
        "spec": {
            "containers": list(containers) or [a_container()],
            "initContainers": list(init),
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "terminationGracePeriodSeconds": 30,
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "enableServiceLinks": True,
        }
        | spec,
        "status": status or {},
    }
    return msgspec.convert(document, Pod)


def decoded_container(**fields: Any) -> Container:
    """A typed container."""
    return msgspec.convert(a_container(**fields), Container)
