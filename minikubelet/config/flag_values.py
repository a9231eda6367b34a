"""The text of a flag to the value that the configuration file would have there.

Source: component-base cli/flag (maps, multimap), cmd/kubelet util flags (taints, reserved memory).
"""

import csv
import ipaddress
from collections.abc import Callable
from typing import Any

from minikubelet.api.quantity import parse as parse_quantity
from minikubelet.config.duration import seconds
from minikubelet.config.flags import Kind

Value = Any
"""A JSON value."""

_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def read(kind: Kind, text: str, before: Value = None) -> Value:
    """Return the value of a flag given the value of its earlier occurrences; raises ValueError."""
    value = _READ[kind](text)
    if isinstance(value, list) and isinstance(before, list):
        return before + value
    if kind is Kind.MULTIMAP and isinstance(before, dict):
        return before | {name: before.get(name, []) + items for name, items in value.items()}
    if isinstance(value, dict) and isinstance(before, dict):
        return before | value
    return value


def _bool(text: str) -> bool:
    if text not in _TRUE | _FALSE:
        raise ValueError("expected true or false")
    return text in _TRUE


def _int(text: str) -> int:
    body = text.lstrip("+-")
    base8 = len(body) > 1 and body[0] == "0" and body.isdigit()
    try:
        return int(text, 8 if base8 else 0)
    except ValueError:
        raise ValueError("expected an integer") from None


def _duration(text: str) -> str:
    seconds(text)
    return text


def _ip(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip()))
    except ValueError:
        raise ValueError("expected an IP address") from None


def _list(text: str) -> list[str]:
    return next(csv.reader([text]), []) if text else []


def _pairs(text: str, separator: str) -> list[tuple[str, str]]:
    pairs = []
    for part in text.split(","):
        if not part.strip():
            continue
        name, found, value = part.partition(separator)
        if not found:
            raise ValueError(f"expected key{separator}value, got {part!r}")
        pairs.append((name.strip(), value.strip()))
    return pairs


def _map(text: str) -> dict[str, str]:
    return dict(_pairs(text, "="))


def _map_less(text: str) -> dict[str, str]:
    return dict(_pairs(text, "<"))


def _map_whole(text: str) -> dict[str, str]:
    if not text.strip():
        return {}
    name, found, value = text.partition("=")
    if not found:
        raise ValueError(f"expected key=value, got {text!r}")
    return {name.strip(): value.strip()}


def _map_bool(text: str) -> dict[str, bool]:
    return {name: _bool(value) for name, value in _pairs(text, "=")}


def _multimap(text: str) -> dict[str, list[str]]:
    result: dict[str, list[str]] = {}
    for name, value in _pairs(text, ":"):
        result.setdefault(name, []).append(value)
    return result


def _taints(text: str) -> list[dict[str, str]]:
    taints = []
    for part in text.split(","):
        if not part:
            continue
        label, _, effect = part.rpartition(":")
        name, _, value = label.partition("=")
        if not name or effect not in {"NoSchedule", "PreferNoSchedule", "NoExecute"}:
            raise ValueError(f"expected key=value:effect, got {part!r}")
        taints.append({"key": name, "value": value, "effect": effect})
    return taints


def _reserved_memory(text: str) -> list[dict[str, Any]]:
    node, found, limits = text.partition(":")
    if not found or not node.strip().isdigit():
        raise ValueError("expected NODE:type=quantity,...")
    return [{"numaNode": int(node), "limits": _map(limits)}]


def _patterns(text: str) -> list[dict[str, Any]]:
    return [{"filePattern": name, "verbosity": _int(value)} for name, value in _pairs(text, "=")]


def _quantity(text: str) -> str:
    parse_quantity(text)
    return text


_READ: dict[Kind, Callable[[str], Value]] = {
    Kind.STRING: str,
    Kind.BOOL: _bool,
    Kind.INT: _int,
    Kind.DURATION: _duration,
    Kind.IP: _ip,
    Kind.LIST: _list,
    Kind.MAP: _map,
    Kind.MAP_WHOLE: _map_whole,
    Kind.MAP_LESS: _map_less,
    Kind.MAP_BOOL: _map_bool,
    Kind.MULTIMAP: _multimap,
    Kind.TAINTS: _taints,
    Kind.RESERVED_MEMORY: _reserved_memory,
    Kind.PATTERNS: _patterns,
    Kind.QUANTITY: _quantity,
}
