"""The defaults an apiserver sets on a pod, applied to the raw document.

Works on the document and not on the structs, so that what the node shows (`/pods`, mirror pods) is
what an apiserver would show, unknown fields included. The document must have the right types
(`shape.compare`) and no nulls. Gives back a new document, deep enough that the old one stays as it
was. Source: pkg/apis/core/v1/defaults.go SetDefaults_Pod, _PodSpec, _Container, _Probe, _Volume.
"""

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from minikubelet.api.image_name import tag_of
from minikubelet.api.pod_resources import default_pod_resources

_DEFAULT_MODE = 0o644
_PROBE = {"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
_VOLUME_FIELDS: Mapping[str, Mapping[str, Any]] = {
    "hostPath": {"type": ""},
    "secret": {"defaultMode": _DEFAULT_MODE},
    "configMap": {"defaultMode": _DEFAULT_MODE},
    "downwardAPI": {"defaultMode": _DEFAULT_MODE},
    "projected": {"defaultMode": _DEFAULT_MODE},
    "iscsi": {"iscsiInterface": "default"},
    "rbd": {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"},
    "azureDisk": {
        "cachingMode": "ReadWrite",
        "fsType": "ext4",
        "readOnly": False,
        "kind": "Shared",
    },
    "scaleIO": {"storageMode": "ThinProvisioned", "fsType": "xfs"},
}

Document = dict[str, Any]


def with_defaults(raw: Mapping[str, Any]) -> Document:
    """Return a copy of the pod document with every default set."""
    document: Document = copy.deepcopy(dict(raw))
    document.setdefault("apiVersion", "v1")
    document.setdefault("kind", "Pod")
    document.setdefault("metadata", {})
    spec: Document = document.setdefault("spec", {})
    _default_spec(spec)
    for container in _containers(spec, "containers", "initContainers", "ephemeralContainers"):
        _default_container(container)
    for container in _containers(spec, "containers", "initContainers"):
        _requests_from_limits(container)
        if spec.get("hostNetwork"):
            for port in container.get("ports", ()):
                _set_empty(port, "hostPort", port.get("containerPort", 0))
    for volume in spec.get("volumes", ()):
        _default_volume(volume)
    default_pod_resources(spec)
    return document


def _set_empty(target: Document, name: str, value: Any) -> None:
    if not target.get(name):
        target[name] = copy.copy(value)


def _containers(spec: Document, *names: str) -> Iterable[Document]:
    for name in names:
        yield from spec.get(name, ())


def _default_spec(spec: Document) -> None:
    _set_empty(spec, "restartPolicy", "Always")
    _set_empty(spec, "dnsPolicy", "ClusterFirst")
    _set_empty(spec, "schedulerName", "default-scheduler")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("securityContext", {})
    spec.setdefault("enableServiceLinks", True)
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:  # the deprecated alias and the field always carry the same value
        spec["serviceAccountName"] = spec["serviceAccount"] = account


def _default_container(container: Document) -> None:
    if not container.get("imagePullPolicy"):
        container["imagePullPolicy"] = _pull_policy(container.get("image", ""))
    _set_empty(container, "terminationMessagePath", "/dev/termination-log")
    _set_empty(container, "terminationMessagePolicy", "File")
    container.setdefault("resources", {})
    for port in container.get("ports", ()):
        _set_empty(port, "protocol", "TCP")
    for variable in container.get("env", ()):
        _default_reference(variable.get("valueFrom", {}))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            _default_probe(container[name])
    for hook in container.get("lifecycle", {}).values():
        if isinstance(hook, dict) and "httpGet" in hook:
            _default_http_get(hook["httpGet"])


def _default_reference(source: Document) -> None:
    if "fieldRef" in source:
        _set_empty(source["fieldRef"], "apiVersion", "v1")
    if "fileKeyRef" in source:
        source["fileKeyRef"].setdefault("optional", False)
    if "resourceFieldRef" in source:
        source["resourceFieldRef"].setdefault("divisor", "0")


def _pull_policy(image: str) -> str:
    return "Always" if tag_of(image) == "latest" else "IfNotPresent"


def _default_probe(probe: Document) -> None:
    for name, value in _PROBE.items():
        _set_empty(probe, name, value)
    if "httpGet" in probe:
        _default_http_get(probe["httpGet"])
    if "grpc" in probe:
        probe["grpc"].setdefault("service", "")


def _default_http_get(action: Document) -> None:
    _set_empty(action, "path", "/")
    _set_empty(action, "scheme", "HTTP")


def _requests_from_limits(container: Document) -> None:
    resources = container["resources"]
    if "limits" in resources:
        resources["requests"] = {**resources["limits"], **resources.get("requests", {})}


def _default_volume(volume: Document) -> None:
    sources = volume.keys() - {"name"}
    if not sources:
        volume["emptyDir"] = {}
    for name, fields in _VOLUME_FIELDS.items():
        if isinstance(volume.get(name), dict):
            for field, value in fields.items():
                volume[name].setdefault(field, value)
    if isinstance(image := volume.get("image"), dict) and not image.get("pullPolicy"):
        image["pullPolicy"] = _pull_policy(image.get("reference", ""))
    for item in _downward_items(volume):
        _default_reference(item)


def _downward_items(volume: Document) -> Iterable[Document]:
    own = volume.get("downwardAPI")
    projected = volume.get("projected")
    holders = [own] if isinstance(own, dict) else []
    if isinstance(projected, dict):
        holders += [
            s.get("downwardAPI", {}) for s in projected.get("sources", ()) if isinstance(s, dict)
        ]
    for holder in holders:
        yield from (item for item in holder.get("items", ()) if isinstance(item, dict))
