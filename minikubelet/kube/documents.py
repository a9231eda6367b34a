"""How documents of an apiserver are compared: pure."""

from collections.abc import Mapping
from typing import Any

_ABSENT: tuple[Any, ...] = (None, "", 0, False, {}, [])


def version_of(document: Mapping[str, Any]) -> int:
    """Return an object's resourceVersion as a number: a later one is larger (KEP-5504)."""
    text = str((document.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


def meaning(value: Any) -> Any:
    """Return a value without what is absent to every reader: null, empty, zero, false."""
    if isinstance(value, Mapping):
        pairs = ((key, meaning(item)) for key, item in value.items())
        return {key: item for key, item in pairs if item not in _ABSENT}
    if isinstance(value, list | tuple):
        return [meaning(item) for item in value]
    return value
