"""The way in: a raw JSON document to a typed Pod, and the values that stand for a document.

Raises `DecodeError` with every wrong type at once. Unknown fields are no error: they stay in the
raw document, and `shape.compare` names them for whoever wants to warn.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from minikubelet.api.pod import Pod
from minikubelet.api.problems import Problem
from minikubelet.api.shape import compare


class DecodeError(ValueError):
    """A document has fields of a wrong type; `problems` names each."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("; ".join(map(str, problems)))
        self.problems = tuple(problems)


def without_nulls(value: Any) -> Any:
    """Return the document without null fields: to every Kubernetes decoder they are absent."""
    if isinstance(value, Mapping):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list | tuple):
        return [without_nulls(item) for item in value]
    return value


def decode_pod(raw: Mapping[str, Any]) -> Pod:
    """Return the typed pod of a document without nulls. Raises DecodeError."""
    try:
        return msgspec.convert(raw, Pod)
    except msgspec.ValidationError as error:
        problems = compare(raw, Pod).wrong_types
        raise DecodeError(problems or [_problem_of(error)]) from error


def _problem_of(error: msgspec.ValidationError) -> Problem:
    message, _, path = str(error).partition(" - at `$")
    return Problem(path.strip("`").lstrip("."), message[:1].lower() + message[1:])


def canonical_json(value: Any) -> bytes:
    """Return compact JSON with sorted keys: the same bytes for the same content."""
    return msgspec.json.encode(value, order="sorted")


def content_hash(*parts: bytes) -> str:
    """Return 32 hex digits that stand for the parts."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.hexdigest()[:32]
