"""What a source tells people about a manifest: which pods run from it and what is wrong with it.

Served by the local API (`/manifests`), logged on change. Values only.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from minikubelet.sources.updates import SourceSet


@dataclass(frozen=True, slots=True)
class ManifestReport:
    """One document of a file or URL, or the whole (`document` 0) when it can't be split.

    `pods` are full names (`name_namespace`). Errors and warnings are complete sentences with place,
    line and field path. `last_good` says that an earlier version runs, as the present one is
    invalid.
    """

    source: str
    location: str
    document: int = 0
    pods: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    last_good: bool = False


class Source(Protocol):
    """A source of static pods: runs for ever, delivers whole sets, tells what is wrong."""

    async def run(
        self,
        send: Callable[[SourceSet], Awaitable[None]],
        *,
        task_status: TaskStatus[None] = TASK_STATUS_IGNORED,
    ) -> None:
        """Deliver the set now and after each change, until cancelled."""

    def reports(self) -> list[ManifestReport]:
        """Return what is to be told about each manifest, as of the last look."""


RawDocument = Mapping[str, Any]


class LastGood(Protocol):
    """The store of the newest valid documents by path or URL. May block: threads only."""

    def load(self) -> Mapping[str, Sequence[RawDocument]]:
        """Return everything stored."""

    def save(self, location: str, documents: Sequence[RawDocument]) -> None:
        """Replace what is stored for a path or URL."""

    def forget(self, location: str) -> None:
        """Drop a path or URL that no longer exists."""


class MemoryLastGood:
    """A store that lives as long as the process."""

    def __init__(self, documents: Mapping[str, Sequence[RawDocument]] | None = None) -> None:
        self.documents = dict(documents or {})

    def load(self) -> Mapping[str, Sequence[RawDocument]]:
        """Return a copy of everything stored."""
        return dict(self.documents)

    def save(self, location: str, documents: Sequence[RawDocument]) -> None:
        """Replace what is stored for a path or URL."""
        self.documents[location] = tuple(documents)

    def forget(self, location: str) -> None:
        """Drop a path or URL."""
        self.documents.pop(location, None)
