"""The files of configMap, secret, downwardAPI and projected volumes as data: pure.

Texts of what is missing are the kubelet's. Source: kubelet volume/configmap/configmap.go,
volume/secret/secret.go, volume/downwardapi/downwardapi.go.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikubelet.api.pod import Container, DownwardAPIVolumeFile, Pod
from minikubelet.criconfig.context import ConfigProblem, NodeContext
from minikubelet.criconfig.env import resource_value
from minikubelet.criconfig.fieldpath import file_value
from minikubelet.volumes.errors import VolumeError

DEFAULT_MODE = 0o644


@dataclass(frozen=True, slots=True)
class FileData:
    """One file: its bytes, its mode, and its owner where it has one of its own."""

    data: bytes
    mode: int
    uid: int | None = None


Payload = dict[str, FileData]
"""Files by their path in the volume."""


def config_map_data(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return all keys of a ConfigMap. Raises VolumeError for what isn't base64."""
    data = {key: str(text).encode() for key, text in (document.get("data") or {}).items()}
    return data | _decoded(document.get("binaryData") or {}, "configmap", document)


def secret_data(document: Mapping[str, Any]) -> dict[str, bytes]:
    """Return all keys of a Secret. Raises VolumeError for what isn't base64."""
    return _decoded(document.get("data") or {}, "secret", document)


def _decoded(data: Mapping[str, str], kind: str, document: Mapping[str, Any]) -> dict[str, bytes]:
    try:
        return {key: base64.b64decode(text, validate=True) for key, text in data.items()}
    except (binascii.Error, ValueError, TypeError) as error:
        name = document.get("metadata", {}).get("name", "")
        raise VolumeError(f'cannot read {kind} "{name}": a value is no base64 ({error})') from error


def object_payload(
    kind: str, data: Mapping[str, bytes] | None, source: Mapping[str, Any], default_mode: int
) -> Payload:
    """Return the files of one ConfigMap or Secret; `data` None stands for an optional missing one.

    `kind` is `configmap` or `secret`. Raises VolumeError for a key that is missing.
    """
    if data is None:
        return {}
    items = source.get("items")
    if not items:
        return {key: FileData(value, default_mode) for key, value in data.items()}
    payload: Payload = {}
    for item in items:
        value = data.get(item["key"])
        if value is None:
            if source.get("optional"):
                continue
            raise VolumeError(_missing_key(kind, item["key"]))
        mode = item.get("mode")
        path = checked_path(item.get("path", ""))
        payload[path] = FileData(value, default_mode if mode is None else mode)
    return payload


def _missing_key(kind: str, key: str) -> str:
    if kind == "configmap":
        return f"configmap references non-existent config key: {key}"
    return f"references non-existent secret key: {key}"


def downward_payload(
    pod: Pod, items: Iterable[DownwardAPIVolumeFile], default_mode: int, node: NodeContext
) -> Payload:
    """Return the files of a downwardAPI source. Raises VolumeError for a field without a value."""
    payload: Payload = {}
    for item in items:
        try:
            text = _downward_text(pod, item, node)
        except ConfigProblem as problem:
            raise VolumeError(str(problem)) from problem
        mode = default_mode if item.mode is None else item.mode
        payload[checked_path(item.path)] = FileData(text.encode(), mode)
    return payload


def _downward_text(pod: Pod, item: DownwardAPIVolumeFile, node: NodeContext) -> str:
    if item.field_ref is not None:
        return file_value(pod, item.field_ref.field_path)
    if item.resource_field_ref is None:
        raise ConfigProblem(f"file {item.path} names neither fieldRef nor resourceFieldRef")
    named = item.resource_field_ref.container_name
    container = next((c for c in pod.all_containers() if c.name == named), Container(name=named))
    return resource_value(pod, container, item.resource_field_ref, node)


def checked_path(path: str) -> str:
    """Return a path that stays in the volume, in its shortest form. Raises VolumeError."""
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if not parts or path.startswith("/") or ".." in parts or parts[0].startswith(".."):
        raise VolumeError(f"invalid path {path!r}: must be relative, and no part may begin with ..")
    return "/".join(parts)


def fs_user(pod: Pod) -> int | None:
    """Return the user that all containers run as; None where they differ or none is set."""
    context = pod.spec.security_context
    default = context.run_as_user if context is not None else None
    users = {
        own.run_as_user if own is not None and own.run_as_user is not None else default
        for own in (container.security_context for container in pod.all_containers())
    }
    return users.pop() if len(users) == 1 else None


def merged(parts: Sequence[Payload]) -> Payload:
    """Return all files of a volume; the later of two of one path wins.

    Raises VolumeError where one path needs a folder and another one a file.
    """
    payload: Payload = {}
    for part in parts:
        payload |= part
    for path in payload:
        above = path.rpartition("/")[0]
        while above:
            if above in payload:
                raise VolumeError(f"cannot write {path}: {above} is a file of the same volume")
            above = above.rpartition("/")[0]
    return payload
