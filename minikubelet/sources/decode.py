"""The content of a manifest file or URL to pods, document by document. Pure.

One bad document never blocks the others. Where a document is invalid, its last good version takes
its place: found by namespace and name; where the document can't even say its name, or has a new
one, every earlier pod that the content no longer names stays, since stopping a pod needs a readable
wish. Text that can't be split into documents keeps all its pods. Who calls: `sources.file`,
`sources.http`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from minikubelet.api.problems import Problem, join
from minikubelet.api.record import PodRecord
from minikubelet.api.yaml import Document, YAMLError, load_all
from minikubelet.sources.reports import ManifestReport, RawDocument
from minikubelet.sources.static import Outcome, Place, static_pod

_LISTS = {"PodList": "Pod", "List": ""}
"""List kinds and the kind that an item without one has."""

_MAX_TOLD = 20
_ANY_POD = (
    b"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, image: a}]}}"
)

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a content means: pods to run, documents for the last-good store, what to tell.

    `has_list` is True when the content is or holds a list: an empty one is then meant, not a
    mistake.
    """

    pods: tuple[PodRecord, ...] = ()
    documents: tuple[RawDocument, ...] = ()
    reports: tuple[ManifestReport, ...] = ()
    has_list: bool = False


@dataclass(frozen=True, slots=True)
class _Item:
    """A pod document and where it stands: document number, path of the item in a list."""

    raw: Any
    document: Document
    prefix: str
    implied_kind: str

    @property
    def key(self) -> Key | None:
        return _key_of(self.raw)


def get_ready() -> None:
    """Do at start what the first manifest would wait for: 15 ms of looking at the struct types."""
    decode_manifest(_ANY_POD, Place("", "", "node"))


def decode_manifest(
    content: bytes, place: Place, last_good: Sequence[RawDocument] = ()
) -> Manifest:
    """Return what the content means, with the last good documents of the same path at hand."""
    try:
        documents = load_all(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        return broken(
            f"{place.name}: cannot read manifest: not UTF-8 at byte {error.start}",
            place,
            last_good,
        )
    except YAMLError as error:
        line = f":{error.line}" if error.line else ""
        return broken(f"{place.name}{line}: {error}", place, last_good)
    except Exception as error:  # noqa: BLE001  # whatever a text does to the reader, it is one file's fault
        message = f"{place.name}: cannot read manifest: {type(error).__name__}: {error}"
        return broken(message, place, last_good)
    return _Decoder(place, last_good).decode(documents)


def broken(message: str, place: Place, last_good: Sequence[RawDocument]) -> Manifest:
    """Return the manifest of something unreadable: the last good pods stay, with one error."""
    pods = tuple(
        outcome.record for raw in last_good if (outcome := _checked(raw, place)).record is not None
    )
    names = tuple(record.pod.full_name for record in pods)
    report = ManifestReport(place.source, place.name, 0, names, (message,), (), bool(pods))
    return Manifest(pods, tuple(last_good), (report,))


class _Decoder:
    def __init__(self, place: Place, last_good: Sequence[RawDocument]) -> None:
        self._place = place
        # What stands in the state directory may have been edited by hand.
        self._last_good = {key: raw for raw in last_good if (key := _key_of(raw)) is not None}
        self._pods: list[PodRecord] = []
        self._raws: list[RawDocument] = []
        self._reports: list[ManifestReport] = []
        self._has_list = False

    def decode(self, documents: Sequence[Document]) -> Manifest:
        items = [item for document in documents for item in self._items(document)]
        several = len(items) > 1
        named = {item.key for item in items}
        unmatched: list[int] = []
        for item in items:
            origin = self._origin(item) if several else self._place.name
            if not self._take(item, origin):
                unmatched.append(len(self._reports) - 1)
        if unmatched:
            self._keep_unnamed(named, unmatched[0], several=several)
        return Manifest(tuple(self._pods), tuple(self._raws), tuple(self._reports), self._has_list)

    def _items(self, document: Document) -> Iterator[_Item]:
        value = document.value
        kind = _kind_of(value)
        if kind not in _LISTS:
            yield _Item(value, document, "", "")
            return
        self._has_list = True
        content = value.get("items") or []
        if not isinstance(content, list):
            self._report(
                document, errors=(self._place_of(document, Problem("items", "expected list")),)
            )
            return
        for index, item in enumerate(content):
            yield _Item(item, document, join("items", index), _LISTS[kind])

    def _origin(self, item: _Item) -> str:
        index = item.prefix.removeprefix("items")
        return f"{self._place.name}#{item.document.number}{index}"

    def _take(self, item: _Item, origin: str) -> bool:
        """Report one item; False when it is invalid and no last good version of it is known."""
        skipped = self._skip_reason(item)
        if skipped is not None:
            self._report(
                item.document, warnings=(self._place_of(item.document, skipped, item.prefix),)
            )
            return True
        fault = _kind_fault(item)
        outcome = Outcome(None, (fault,)) if fault else self._checked(item.raw, origin)
        errors = self._told(item, outcome.errors)
        warnings = self._told(item, outcome.warnings)
        if outcome.record is not None:
            self._keep(outcome.record, item.raw)
            self._report(item.document, (outcome.record,), errors, warnings)
            return True
        earlier = self._last_good.get(item.key) if item.key else None
        kept = self._checked(earlier, origin).record if earlier is not None else None
        if earlier is None or kept is None:
            self._report(item.document, (), errors, warnings)
            return False
        self._keep(kept, earlier)
        self._report(item.document, (kept,), errors, warnings, last_good=True)
        return True

    def _checked(self, raw: RawDocument, origin: str) -> Outcome:
        return _checked(raw, self._place, origin)

    def _keep_unnamed(self, named: set[Key | None], index: int, *, several: bool) -> None:
        """Keep earlier pods that aren't named any more beside a document that can't be read."""
        kept = []
        for key, raw in self._last_good.items():
            if key in named:
                continue
            number = f"#{self._reports[index].document}" if several else ""
            origin = f"{self._place.name}{number}"
            record = self._checked(raw, origin).record
            if record is not None:
                self._keep(record, raw)
                kept.append(record.pod.full_name)
        if kept:
            report = self._reports[index]
            self._reports[index] = replace(report, pods=(*report.pods, *kept), last_good=True)

    def _keep(self, record: PodRecord, raw: RawDocument) -> None:
        self._pods.append(record)
        self._raws.append(raw)

    def _report(
        self,
        document: Document,
        pods: tuple[PodRecord, ...] = (),
        errors: tuple[str, ...] = (),
        warnings: tuple[str, ...] = (),
        *,
        last_good: bool = False,
    ) -> None:
        names = tuple(record.pod.full_name for record in pods)
        place = self._place
        self._reports.append(
            ManifestReport(
                place.source, place.name, document.number, names, errors, warnings, last_good
            )
        )

    def _told(self, item: _Item, problems: Sequence[Problem]) -> tuple[str, ...]:
        """Return sentences for the first problems; thousands would help nobody and take long."""
        told = [self._place_of(item.document, p, item.prefix) for p in problems[:_MAX_TOLD]]
        if len(problems) > _MAX_TOLD:
            told.append(f"{self._place.name}: {len(problems) - _MAX_TOLD} more like these")
        return tuple(told)

    def _place_of(self, document: Document, problem: Problem, prefix: str = "") -> str:
        path = join(prefix, problem.path) if prefix and problem.path else prefix or problem.path
        line = document.line_of(path)
        return f"{self._place.name}:{line}: {Problem(path, problem.message)}"

    def _skip_reason(self, item: _Item) -> Problem | None:
        kind = _kind_of(item.raw)
        if kind in {"", "Pod", *_LISTS}:
            return None
        name = item.key[1] if item.key else "?"
        return Problem("", f"{kind}/{name} is skipped: only Pod, PodList and List are read here")


def _checked(raw: RawDocument, place: Place, origin: str = "") -> Outcome:
    """A document that trips over a fault of ours is one bad document, not the agent's end."""
    try:
        return static_pod(raw, place, origin)
    except Exception as error:  # noqa: BLE001  # whatever it is, it concerns this document alone
        return Outcome(None, (Problem("", f"cannot check it: {type(error).__name__}: {error}"),))


def _key_of(raw: Any) -> Key | None:
    """Return namespace and name, None for a document that doesn't say its name."""
    metadata = raw.get("metadata") if isinstance(raw, Mapping) else None
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(metadata, Mapping) or not isinstance(name, str) or not name:
        return None
    return str(metadata.get("namespace") or "default"), name


def _kind_of(raw: Any) -> str:
    """Return the kind of a document, empty when it has none that can be read."""
    kind = raw.get("kind") if isinstance(raw, Mapping) else None
    return kind if isinstance(kind, str) else ""


def _kind_fault(item: _Item) -> Problem | None:
    if not isinstance(item.raw, Mapping):
        return Problem("", "expected an object with kind Pod")
    kind = _kind_of(item.raw) or item.implied_kind
    version = item.raw.get("apiVersion", "v1" if item.implied_kind else None)
    if kind in _LISTS:
        return Problem("kind", "a list cannot hold a list")
    if not kind:
        return Problem("kind", "Required value: must be Pod, PodList or List")
    if version != "v1":
        return Problem(
            "apiVersion",
            'Unsupported value: supported values: "v1"'
            if version
            else "Required value: must be v1",
        )
    return None
