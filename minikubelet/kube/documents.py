"""How documents of an apiserver are compared: pure."""

from collections.abc import Mapping
from typing import Any


def version_of(document: Mapping[str, Any]) -> int:
    """Return an object's resourceVersion as a number: a later one is larger (KEP-5504)."""
    text = str((document.get("metadata") or {}).get("resourceVersion", ""))
    return int(text) if text.isdigit() else 0


def meaning(value: Any) -> Any:
    """Return a value without what is absent to every reader: null, empty, zero, false."""
    if isinstance(value, dict):
        return {key: told for key, item in value.items() if (told := meaning(item))}
    if isinstance(value, list | tuple):
        return [meaning(item) for item in value]
    return value
