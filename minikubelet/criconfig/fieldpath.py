"""`fieldRef`: fields of the pod as the text of a variable or a file.

Source: pkg/fieldpath and kubelet_pods.go podFieldSelectorRuntimeValue.
"""

import re
from collections.abc import Mapping, Sequence

from minikubelet.api.pod import Pod
from minikubelet.criconfig.context import ConfigProblem

_SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.*)'\]", re.DOTALL)


def field_value(pod: Pod, path: str, pod_ips: Sequence[str], host_ips: Sequence[str]) -> str:
    """Return the field's value for a variable. Raises ConfigProblem for a path without one.

    A subscript that names no label or annotation gives an empty text.
    """
    ips = pod_ips or (host_ips if pod.spec.host_network else ())
    values = {
        "spec.nodeName": pod.spec.node_name,
        "spec.serviceAccountName": pod.spec.service_account_name,
        "status.hostIP": host_ips[0] if host_ips else "",
        "status.hostIPs": ",".join(host_ips),
        "status.podIP": ips[0] if ips else "",
        "status.podIPs": ",".join(ips),
        "metadata.name": pod.metadata.name,
        "metadata.namespace": pod.metadata.namespace,
        "metadata.uid": pod.metadata.uid,
    }
    if path in values:
        return values[path]
    subscript = _SUBSCRIPT.fullmatch(path)
    if subscript is None:
        raise ConfigProblem(f"unsupported fieldPath: {path}")
    kind, key = subscript.groups()
    return (pod.metadata.labels if kind == "labels" else pod.metadata.annotations).get(key, "")


def file_value(pod: Pod, path: str) -> str:
    """Return the field's value for a file of a downwardAPI volume: whole maps are allowed there."""
    maps: dict[str, Mapping[str, str]] = {
        "metadata.labels": pod.metadata.labels,
        "metadata.annotations": pod.metadata.annotations,
    }
    if path in maps:
        return "\n".join(f"{key}={_quoted(text)}" for key, text in sorted(maps[path].items()))
    if path.startswith(("spec.", "status.")):
        raise ConfigProblem(f"unsupported fieldPath: {path}")
    return field_value(pod, path, (), ())


_GO_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
    "\v": "\\v",
    "\\": "\\\\",
    '"': '\\"',
}
_LAST_BYTE, _LAST_SHORT = 0x80, 0x10000


def _quoted(text: str) -> str:
    """Quote as Go's %q does."""

    def escape(character: str) -> str:
        if character in _GO_ESCAPES:
            return _GO_ESCAPES[character]
        if character.isprintable():
            return character
        code = ord(character)
        if code < _LAST_BYTE:
            return f"\\x{code:02x}"
        return f"\\u{code:04x}" if code < _LAST_SHORT else f"\\U{code:08x}"

    return '"' + "".join(map(escape, text)) + '"'
