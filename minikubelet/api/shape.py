"""Compares a raw document with the struct types: unknown fields and wrong types, all at once.

msgspec stops at the first wrong type and ignores unknown fields; a person who wrote a manifest
wants to see all of both, each with its path and the name that was probably meant. Nothing is
changed here.
"""

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from minikubelet.api.problems import Problem, at_key, join

_CUTOFF = 0.6
_INT64 = 2**63
_MAX_HINTS = 50
"""Finding the nearest name takes time; nobody reads more of them."""
_MAX_SHOWN = 200
"""Characters of a wrong value."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What `compare` found: wrong types are errors, unknown fields are for the caller to judge."""

    wrong_types: list[Problem] = field(default_factory=list)
    unknown: list[Problem] = field(default_factory=list)


def compare(document: Any, struct: type[msgspec.Struct], path: str = "") -> Shape:
    """Compare a JSON value with a struct type."""
    shape = Shape()
    _Walk(shape, struct).visit(document, _info(struct), path)
    return shape


@cache
def _info(struct: type[msgspec.Struct]) -> inspect.Type:
    return inspect.type_info(struct)


@cache
def _fields(struct: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    info = inspect.type_info(struct)
    if not isinstance(info, inspect.StructType):
        raise TypeError(f"{struct} is no struct")
    return {item.encode_name: item.type for item in info.fields}


@cache
def _places(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return the shortest path of each field name (`restartPolicy`: `spec.restartPolicy`)."""
    places: dict[str, str] = {}
    level: list[tuple[str, type[msgspec.Struct]]] = [("", struct)]
    seen: set[type[msgspec.Struct]] = set()
    while level:
        below = []
        for path, owner in level:
            if owner in seen:
                continue
            seen.add(owner)
            for name, kind in _fields(owner).items():
                places.setdefault(name, join(path, name))
                below += [(join(path, name) + suffix, s) for s, suffix in _structs(kind)]
        level = below
    return places


def _structs(kind: inspect.Type, suffix: str = "") -> Iterator[tuple[type[msgspec.Struct], str]]:
    if isinstance(kind, inspect.StructType):
        yield kind.cls, suffix
    elif isinstance(kind, inspect.VarTupleType):
        yield from _structs(kind.item_type, suffix + "[]")
    elif isinstance(kind, inspect.UnionType):
        for member in kind.types:
            yield from _structs(member, suffix)


class _Walk:
    def __init__(self, shape: Shape, root: type[msgspec.Struct]) -> None:
        self._shape = shape
        self._root = root

    def visit(self, value: Any, kind: inspect.Type, path: str) -> None:
        if isinstance(kind, inspect.AnyType):
            return
        members = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        for member in members:
            if _fits(value, member):
                self._inside(value, member, path)
                return
        names = dict.fromkeys(n for m in members if (n := _NAMES.get(type(m))))
        expected = " or ".join(names)
        self._shape.wrong_types.append(Problem(path, f"expected {expected}, got {_got(value)}"))

    def _inside(self, value: Any, kind: inspect.Type, path: str) -> None:
        if isinstance(kind, inspect.StructType):
            fields = _fields(kind.cls)
            for name, item in value.items():
                known = fields.get(name)
                if known is None:
                    few = len(self._shape.unknown) < _MAX_HINTS
                    hint = self._hint(path, name, fields) if few else ""
                    self._shape.unknown.append(Problem(join(path, name), f"unknown field{hint}"))
                else:
                    self.visit(item, known, join(path, name))
        elif isinstance(kind, inspect.VarTupleType):
            for index, item in enumerate(value):
                self.visit(item, kind.item_type, join(path, index))
        elif isinstance(kind, inspect.DictType):
            for key, item in value.items():
                self.visit(item, kind.value_type, at_key(path, key))

    def _hint(self, path: str, name: str, fields: Mapping[str, Any]) -> str:
        near = nearest(name, fields)
        if near:
            return f", did you mean {near}?"
        place = _places(self._root).get(name)
        if place and place.rpartition(".")[0] != path:
            return f" here, it belongs to {place}"
        return ""


def nearest(name: str, known: Mapping[str, Any] | list[str]) -> str | None:
    """Return the known name that was probably meant."""
    by_lower = {item.lower(): item for item in known}
    close = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=_CUTOFF)
    return by_lower[close[0]] if close else None


_NAMES: dict[type[inspect.Type], str] = {
    inspect.StructType: "object",
    inspect.DictType: "object",
    inspect.VarTupleType: "list",
    inspect.StrType: "string",
    inspect.IntType: "integer",
    inspect.FloatType: "number",
    inspect.BoolType: "boolean",
}


def _fits(value: Any, kind: inspect.Type) -> bool:
    if isinstance(kind, inspect.NoneType):
        return value is None
    if isinstance(kind, inspect.StructType | inspect.DictType):
        return isinstance(value, Mapping)
    if isinstance(kind, inspect.VarTupleType):
        return isinstance(value, list | tuple)
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str)
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.IntType):
        return isinstance(value, int) and not isinstance(value, bool) and -_INT64 <= value < _INT64
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(kind, inspect.AnyType)


def _got(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    name = {bool: "boolean", int: "integer", float: "number"}.get(type(value), "string")
    if name == "integer" and not -_INT64 <= value < _INT64:
        name = "number"
    text = msgspec.json.encode(value).decode()
    return f"{name} {text if len(text) <= _MAX_SHOWN else text[:_MAX_SHOWN] + '…'}"
