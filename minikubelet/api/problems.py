"""What is wrong with a document: one field, one sentence, in the apiserver's own wording.

Validation collects problems instead of raising, so that a person sees all of them at once. Who
knows the file and its lines (`sources.decode`) puts them in front. Source of the texts:
apimachinery pkg/util/validation/field/errors.go.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Problem:
    """A field path such as `spec.containers[1].ports[0].containerPort` and what is wrong there."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


def join(path: str, *steps: str | int) -> str:
    """Return `path` with field names and list indices appended."""
    for step in steps:
        name = f"[{step}]" if isinstance(step, int) else f".{step}"
        path = f"{path}{name}" if path else str(step)
    return path


def at_key(path: str, key: str) -> str:
    """Return the path of one key of a map."""
    return f"{path}[{key}]"


def quote(text: str) -> str:
    """Return the text as Go's %q does."""
    return json.dumps(text, ensure_ascii=False)


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    if value is None:
        return "null"
    return json.dumps(value, separators=(",", ":"), default=str)


def _with_detail(text: str, detail: str) -> str:
    return f"{text}: {detail}" if detail else text


def required(path: str, detail: str = "") -> Problem:
    """Build the problem of a missing field."""
    return Problem(path, _with_detail("Required value", detail))


def invalid(path: str, value: Any, detail: str) -> Problem:
    """Build the problem of a malformed value."""
    return Problem(path, _with_detail(f"Invalid value: {_shown(value)}", detail))


def duplicate(path: str, value: Any) -> Problem:
    """Build the problem of a value that must be unique."""
    return Problem(path, f"Duplicate value: {_shown(value)}")


def unsupported(path: str, value: Any, supported: Iterable[str]) -> Problem:
    """Build the problem of a value outside an enumeration."""
    values = ", ".join(quote(item) for item in supported)
    detail = f"supported values: {values}" if values else ""
    return Problem(path, _with_detail(f"Unsupported value: {_shown(value)}", detail))


def forbidden(path: str, detail: str) -> Problem:
    """Build the problem of a field that must not be set here."""
    return Problem(path, _with_detail("Forbidden", detail))


def not_found(path: str, value: Any) -> Problem:
    """Build the problem of a reference that points nowhere."""
    return Problem(path, f"Not found: {_shown(value)}")


def too_long(path: str, limit: int) -> Problem:
    """Build the problem of a text above its limit in bytes."""
    return Problem(path, f"Too long: may not be more than {limit} bytes")


def too_many(path: str, count: int, limit: int) -> Problem:
    """Build the problem of a list above its limit."""
    items = "item" if limit == 1 else "items"
    return Problem(path, f"Too many: {count}: must have at most {limit} {items}")
