"""YAML and JSON text to documents, read as the Kubernetes tools read it, each value with its line.

Kubernetes reads YAML 1.1 through go-yaml v2: `yes` and `on` are booleans, dates and base-60 numbers
are strings, keys become strings, a doubled key is an error here (where the kubelet keeps the last
one silently). The text is composed to nodes once (by libyaml where it is there), values are built
from the nodes by our own scalar rules (`yaml_scalars`), and the nodes stay with the document only
as long as someone may ask for a line. Pure; `sources.decode` is who comes next.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import yaml
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from minikubelet.api.yaml_scalars import PLAIN, ScalarError, json_key, scalar

_ALIAS_FLOOR = 100_000
_ALIAS_RATIO = 10
"""A document whose aliases unfold to more values than this is an attack, not a manifest."""

_MAX_DEPTH = 200
_MAX_VALUES = 1_000_000
"""Values of a text, also after unfolding aliases: 700 bytes each in memory while it is read."""
_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class YAMLError(ValueError):
    """The text is not readable; `line` counts from 1, 0 when unknown."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


_TOO_MANY = f"cannot read YAML: it has more than {_MAX_VALUES:,} values"


class _NodeRules:
    """Keeps plain scalars apart from quoted ones: their meaning is decided by `yaml_scalars`."""

    _values = 0

    def resolve(self, kind: type[Node], _value: str | None, implicit: Any) -> str:
        self._values += 1
        if self._values > _MAX_VALUES:
            raise YAMLError(_TOO_MANY)
        if kind is ScalarNode:
            plain = implicit[0] if isinstance(implicit, tuple) else implicit
            return PLAIN if plain else "tag:yaml.org,2002:str"
        return "tag:yaml.org,2002:map" if kind is MappingNode else "tag:yaml.org,2002:seq"

    def descend_resolver(self, parent: Any, index: Any) -> None:
        pass

    def ascend_resolver(self) -> None:
        pass


if yaml.__with_libyaml__:
    _CParser: Any = yaml.cyaml.CParser  # type: ignore[attr-defined]  # the stubs don't know it

    class _Loader(_NodeRules, _CParser):  # type: ignore[misc]  # its base is unknown to the stubs
        """Composes nodes with libyaml."""
else:

    class _Loader(  # type: ignore[no-redef]  # the same class without libyaml
        _NodeRules,
        yaml.reader.Reader,
        yaml.scanner.Scanner,
        yaml.parser.Parser,
        yaml.composer.Composer,
    ):
        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)
            yaml.composer.Composer.__init__(self)


@dataclass(frozen=True, slots=True)
class Document:
    """One document of a text: its JSON value, its number (from 1) and where its values stand."""

    value: Any
    number: int
    line: int
    _root: Node | None = field(default=None, repr=False, compare=False)

    def line_of(self, path: str) -> int:
        """Return the line of a field path, or of its nearest ancestor that the text contains."""
        node, line = self._root, self.line
        for bracketed, name in _STEP.findall(path):
            node, found = _child(node, bracketed or name)
            if node is None:
                break
            line = found
        return line


def _child(node: Node | None, step: str) -> tuple[Node | None, int]:
    if isinstance(node, MappingNode):
        for key, value in node.value:
            if isinstance(key, ScalarNode) and key.value == step:
                return value, key.start_mark.line + 1
    elif isinstance(node, SequenceNode) and step.isdigit() and int(step) < len(node.value):
        item = node.value[int(step)]
        return item, item.start_mark.line + 1
    return None, 0


def load_all(text: str) -> list[Document]:
    """Return all documents that aren't empty. Raises YAMLError with the line of the first fault."""
    if text.lstrip().startswith(("{", "[")) and (document := _load_json(text)) is not None:
        return [document]
    documents = []
    for number, root in enumerate(_compose(text), start=1):
        try:
            value, size = _Builder().build(root, 0)
        except ScalarError as error:
            raise YAMLError(str(error), error.line) from error
        if size > _ALIAS_FLOOR and size > _ALIAS_RATIO * len(text):
            raise YAMLError("cannot read YAML: document contains excessive aliasing")
        if size > _MAX_VALUES:
            raise YAMLError(_TOO_MANY)
        if value is not None:
            documents.append(Document(value, number, root.start_mark.line + 1, root))
    return documents


def _load_json(text: str) -> Document | None:
    """Return JSON proper, with its lines found through YAML; None for anything else."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError as error:
        raise YAMLError("cannot read JSON: nested too deeply") from error
    except ValueError:
        return None  # flow-style YAML, or broken: the YAML reader tells the line
    if "\\u" in text:
        value = _without_surrogates(value)
    try:
        root = next(_compose(text), None)
    except YAMLError:
        root = None
    return Document(value, 1, 1, root)


def _without_surrogates(value: Any) -> Any:
    """Replace halves of surrogate pairs, which no encoder takes, as Go's decoder does."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(v) for key, v in value.items()}
    return [_without_surrogates(v) for v in value] if isinstance(value, list) else value


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("doubled key")
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _compose(text: str) -> Iterator[Node]:
    loader = None
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None:
                yield node
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).partition("\n")[0]
        raise YAMLError(f"cannot read YAML: {problem}", mark.line + 1 if mark else 0) from error
    except RecursionError as error:
        raise YAMLError("cannot read YAML: nested too deeply") from error
    finally:
        dispose = getattr(loader, "dispose", None)
        if dispose:
            dispose()


class _Builder:
    """Builds the value of a node; aliases share one value, their unfolded size is counted."""

    def __init__(self) -> None:
        self._done: dict[int, tuple[Any, int]] = {}
        self._open: set[int] = set()

    def build(self, node: Node, depth: int) -> tuple[Any, int]:
        line = node.start_mark.line + 1
        if isinstance(node, ScalarNode):
            return scalar(node.value, node.tag, line), 1
        if id(node) in self._done:
            return self._done[id(node)]
        if id(node) in self._open:
            raise YAMLError(f"cannot read YAML: anchor at line {line} contains itself", line)
        if depth > _MAX_DEPTH:
            raise YAMLError("cannot read YAML: nested too deeply", line)
        self._open.add(id(node))
        if isinstance(node, SequenceNode):
            built = [self.build(item, depth + 1) for item in node.value]
            result: tuple[Any, int] = ([v for v, _ in built], 1 + sum(size for _, size in built))
        else:
            result = self._mapping(node, depth)
        self._open.discard(id(node))
        self._done[id(node)] = result
        return result

    def _mapping(self, node: Node, depth: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        merged: dict[str, Any] = {}
        total = 1
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, ScalarNode):
                raise YAMLError("cannot read YAML: a key must be a plain value", line)
            value, size = self.build(value_node, depth + 1)
            total += size
            if key_node.value == "<<" and key_node.tag == PLAIN:
                merged |= _merge_source(value, line)
                continue
            key = json_key(scalar(key_node.value, key_node.tag, line))
            if key in values:
                raise YAMLError(f"cannot read YAML: key {json.dumps(key)} is set twice", line)
            values[key] = value
        return merged | values, total


def _merge_source(value: Any, line: int) -> dict[str, Any]:
    sources = value if isinstance(value, list) else [value]
    result: dict[str, Any] = {}
    for source in reversed(sources):
        if not isinstance(source, dict):
            raise YAMLError("cannot read YAML: a merge key (<<) needs a mapping", line)
        result |= source
    return result
