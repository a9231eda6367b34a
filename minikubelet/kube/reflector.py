"""List and watch: the objects of one path, as they are now, told after each change.

Lists page by page, then watches from the list's resourceVersion with bookmarks. Each watch asks to
be ended after 40-50 s and is given up a few seconds later, so that a connection that died without a
word is noticed within a minute; the next one goes on from the last resourceVersion without a list.
Only 410 leads to a new list. Everything else is tried again with back-off, for ever; the reason is
told once (`on_problem`, one log line), and once when it is over.

A single object is a list with the query `fieldSelector=metadata.name=NAME`. Speaks anyio only.
Source: client-go tools/cache/reflector.go.
"""

import random as _random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import structlog
from anyio.abc import ObjectReceiveStream, TaskStatus

from minikubelet.kube import answers
from minikubelet.kube.api import API, Document, Pool
from minikubelet.kube.backoff import Backoff
from minikubelet.kube.errors import APIError, Gone, ServerError, Unavailable

Objects = Mapping[str, Document]
"""Documents by `namespace/name`, or by name where there is no namespace."""
OnSet = Callable[[Objects], Awaitable[None]]

_PAGE = "500"
_SHORT_SECONDS = 1.0
"""A watch that ends earlier and brought nothing is a failure."""
_BREAKS = 3
"""So many in a row, and somebody has to know."""
_log = structlog.get_logger("kube")


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds a watch lasts: the server ends it between the first two, the client some later."""

    shortest: float = 40.0
    longest: float = 50.0
    margin: float = 5.0
    random: Callable[[], float] = _random.random
    """A number from [0, 1), for these and for the pauses after failures."""


def _nothing(_problem: str) -> None:
    pass


async def list_watch(
    api: API,
    path: str,
    query: Mapping[str, str],
    on_set: OnSet,
    *,
    on_problem: Callable[[str], None] = _nothing,
    timing: Timing = Timing(),
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Keep telling `on_set` all objects of a path, until cancelled.

    It is awaited after the first list and after each change of an object, with a new mapping each
    time, and must not raise an APIError. The documents are the server's, with apiVersion and kind
    also in items of a list, without managedFields. `on_problem` gets the reason why the objects may
    be out of date, and an empty text once they aren't any more. Started once the first list was
    told: who can't wait for the apiserver uses `start_soon`.
    """
    await _Reflector(api, path, query, on_set, on_problem, timing).run(task_status)


class _Reflector:
    def __init__(
        self,
        api: API,
        path: str,
        query: Mapping[str, str],
        on_set: OnSet,
        on_problem: Callable[[str], None],
        timing: Timing,
    ) -> None:
        self._api = api
        self._path = path
        self._query = dict(query)
        self._on_set = on_set
        self._on_problem = on_problem
        self._timing = timing
        self._backoff = Backoff(timing.random)
        self._objects: dict[str, Document] | None = None
        self._version = ""
        self._problem = ""
        self._breaks = 0
        """Watches in a row that were opened and broke at once."""
        self._log = _log.bind(path=path, **query)

    async def run(self, task_status: TaskStatus[None]) -> None:
        started = False
        while True:
            try:
                if not self._version:
                    await self._list()
                if not started:
                    started = True
                    task_status.started()
                await self._watch()
            except Gone as error:
                self._version = ""
                # The first list after a 410 waits for nothing; a server that says it again and
                # again isn't overrun.
                pause = self._backoff.failed(error.retry_after)
                if self._backoff.failures > 1:
                    await anyio.sleep(pause)
            except APIError as error:
                self._tell(error.message)
                await anyio.sleep(self._backoff.failed(error.retry_after))

    async def _list(self) -> None:
        found: dict[str, Document] = {}
        try:
            version, token = await self._page(found, {"limit": _PAGE})
            while token:
                version, token = await self._page(found, {"limit": _PAGE, "continue": token})
        except Gone:
            # The snapshot that the pages come from was compacted meanwhile: all at once.
            found.clear()
            version, _ = await self._page(found, {})
        before, self._objects, self._version = self._objects, found, version
        if before is None or _versions(before) != _versions(found):
            await self._on_set(dict(found))

    async def _page(self, found: dict[str, Document], query: Mapping[str, str]) -> tuple[str, str]:
        """Add a page's objects; return the list's version and the token of the next page."""
        document = await self._api.request(
            "GET", self._path, query={**self._query, **query}, pool=Pool.WATCH
        )
        meta, items = document.get("metadata"), document.get("items") or []
        if not isinstance(meta, dict) or not isinstance(items, list):
            raise Unavailable(
                f"cannot read the list {self._path}: no metadata, or items is no list"
            )
        version, token = meta.get("resourceVersion"), meta.get("continue")
        if not version:
            raise Unavailable(f"cannot read the list {self._path}: no metadata.resourceVersion")
        kind = {
            "apiVersion": document.get("apiVersion"),
            "kind": str(document.get("kind")).removesuffix("List"),
        }
        for item in items:
            if (key := self._key(item)) is not None:
                found[key] = _without_managed_fields({**kind, **item})
        return str(version), str(token or "")

    async def _watch(self) -> None:
        """Watch until the watch ends or breaks; then pause, if it is too early for the next one."""
        timing = self._timing
        seconds = timing.shortest + (timing.longest - timing.shortest) * timing.random()
        query = {
            **self._query,
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(max(round(seconds), 1)),
        }
        async with self._api.watch(self._path, query, seconds + timing.margin) as events:
            if self._breaks < _BREAKS:
                self._tell("")
            why = await self._receive(events)
        if why:
            # One break is no news, if the next watch can be opened and lasts.
            self._log.debug("watch broke", error=why)
            self._breaks += 1
            if self._breaks >= _BREAKS:
                self._tell(why)
            await anyio.sleep(self._backoff.failed())

    async def _receive(self, events: ObjectReceiveStream[Document]) -> str:
        """Take a watch's events until it ends; return what broke it, empty for a good end."""
        began, good = anyio.current_time(), False
        try:
            while True:
                await self._take(await events.receive())
                good = True
        except anyio.EndOfStream:
            why = f"cannot watch {self._path}: the apiserver ends each watch at once"
            ended = True
        except Unavailable as error:
            why, ended = error.message, False
        finally:
            good = good or anyio.current_time() - began >= _SHORT_SECONDS
            if good:
                self._backoff.succeeded()
                self._breaks = 0
        return "" if good and ended else why

    async def _take(self, event: Document) -> None:
        kind, document = event.get("type"), event.get("object")
        if kind == "ERROR" and isinstance(document, dict):
            raise answers.of_status(document)
        meta = document.get("metadata") if isinstance(document, dict) else None
        if not isinstance(document, dict) or not isinstance(meta, dict):
            raise ServerError(f"cannot read an event of {self._path}: no object.metadata")
        self._version = str(meta.get("resourceVersion") or self._version)
        key = None if kind == "BOOKMARK" else self._key(document)
        if key is None:
            return
        before = self._objects or {}
        if kind == "DELETED":
            after = {name: held for name, held in before.items() if name != key}
        else:
            after = {**before, key: _without_managed_fields(document)}
        self._objects = after
        if _version(before.get(key)) != _version(after.get(key)):
            await self._on_set(dict(after))

    def _key(self, document: Any) -> str | None:
        meta = document.get("metadata") if isinstance(document, dict) else None
        name = meta.get("name") if isinstance(meta, dict) else None
        if not isinstance(meta, dict) or not isinstance(name, str) or not name:
            self._log.warning("object ignored: the apiserver sent it without metadata.name")
            return None
        namespace = meta.get("namespace")
        return f"{namespace}/{name}" if namespace else name

    def _tell(self, problem: str) -> None:
        if problem == self._problem:
            return
        if problem:
            self._log.warning("objects may be out of date", error=problem)
        else:
            self._log.info("objects are up to date again")
        self._problem = problem
        self._on_problem(problem)


def _without_managed_fields(document: Document) -> Document:
    # The larger half of many objects, and nobody here has a use for it.
    document["metadata"].pop("managedFields", None)
    return document


def _version(document: Document | None) -> Any:
    return None if document is None else document["metadata"].get("resourceVersion")


def _versions(objects: Objects) -> dict[str, Any]:
    return {key: _version(document) for key, document in objects.items()}
