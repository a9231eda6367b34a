"""The base of all API structs: frozen, keyword-only, with Kubernetes' own JSON names."""

import msgspec

_UPPER = {
    "ip": "IP",
    "ips": "IPs",
    "pid": "PID",
    "ipc": "IPC",
    "id": "ID",
    "fqdn": "FQDN",
    "wwns": "WWNs",
    "api": "API",
    "io": "IO",
}


def json_name(python_name: str) -> str:
    """Return the JSON name of a field: `host_ip` is `hostIP`, `run_as_user` is `runAsUser`."""
    first, *rest = python_name.rstrip("_").split("_")
    return first + "".join(_UPPER.get(word, word.capitalize()) for word in rest)


class APIStruct(msgspec.Struct, frozen=True, kw_only=True, rename=json_name, omit_defaults=True):
    """A Kubernetes API object or a part of one. Unknown fields are ignored at decoding."""
