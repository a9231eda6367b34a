"""The file source: a manifest folder or file, taken over at once when it changes.

Each round covers the path with watches, looks (in a thread, with a deadline), sends the whole set
if it changed, and then waits for an event or for the slow relist, which only repairs what events
missed. There is no debounce: writing a file ends with one event that means complete, and what else
is queued by then belongs to the same round. The newest valid documents go to the last-good store
after the set was sent, so that keeping them delays no start. Who comes next: `sources.merge`.
"""

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence

import anyio
from anyio.abc import TaskStatus
from anyio.to_thread import run_sync

from minikubelet.sources.decode import get_ready
from minikubelet.sources.folder import Look, Request, look
from minikubelet.sources.reporting import Reporter
from minikubelet.sources.reports import LastGood, ManifestReport, RawDocument
from minikubelet.sources.updates import FILE, SourceSet
from minikubelet.sources.watch import Watch

_LOOK_SECONDS = 10.0
"""A look that takes longer hangs on a dead file system; what is known stays meanwhile."""

Send = Callable[[SourceSet], Awaitable[None]]


class FileSource:
    """Delivers the pods of `path`; `check_frequency` (seconds) is the slow relist's."""

    def __init__(
        self,
        path: str,
        node_name: str,
        last_good: LastGood,
        *,
        check_frequency: float = 20.0,
        on_problem: Callable[[ManifestReport], None] | None = None,
    ) -> None:
        self._root = os.path.abspath(path)
        self._node_name = node_name
        self._store = last_good
        self._frequency = check_frequency
        self._reporter = Reporter(on_problem)
        self._look = Look()
        self._newest = self._look
        self._stored: dict[str, Sequence[RawDocument]] = {}
        self._store_fault = ""
        self._one_look = anyio.CapacityLimiter(1)

    def reports(self) -> list[ManifestReport]:
        """Return what is to be told about each file, as of the last look."""
        return self._reporter.reports()

    async def run(
        self, send: Send, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Deliver the set now and after each change, until cancelled."""
        watch = Watch()
        try:
            await run_sync(watch.__enter__)
            self._stored = await run_sync(self._load)
            task_status.started()
            await self._rounds(send, watch)
        finally:
            watch.__exit__(None, None, None)

    async def _rounds(self, send: Send, watch: Watch) -> None:
        sent: SourceSet | None = None
        request = Request(self._root, self._node_name)
        while True:
            if await self._round(request, watch):
                current = self._set()
                if current != sent:
                    await send(current)
                    sent = current
                await run_sync(self._keep)
            touched = await watch.wait(self._frequency)
            request = Request(
                self._root, self._node_name, touched or frozenset(), relist=touched is None
            )

    async def _round(self, request: Request, watch: Watch) -> bool:
        """Look once; False when the file system didn't answer in time."""
        with anyio.move_on_after(_LOOK_SECONDS) as deadline:
            self._look = await run_sync(
                self._look_again, request, watch, abandon_on_cancel=True, limiter=self._one_look
            )
        faults = [fault for fault in (watch.fault, self._store_fault) if fault]
        if deadline.cancelled_caught:
            faults.append(
                f"cannot read manifests: {self._root} does not answer within {_LOOK_SECONDS:g} s"
            )
        own = [ManifestReport(FILE, self._root, errors=tuple(faults))] if faults else []
        self._reporter.update([*own, *self._look.reports])
        return not deadline.cancelled_caught

    def _look_again(self, request: Request, watch: Watch) -> Look:
        """In a thread, one at a time; what an abandoned one has read needn't be read again."""
        self._newest = _cover_and_look(request, watch, self._newest, self._stored)
        return self._newest

    def _set(self) -> SourceSet:
        files = self._look.files
        return SourceSet(
            FILE, tuple(pod for path in sorted(files) for pod in files[path].manifest.pods)
        )

    def _load(self) -> dict[str, Sequence[RawDocument]]:
        get_ready()
        try:
            return dict(self._store.load())
        except OSError as error:
            self._store_fault = f"cannot read the last good manifests: {error}"
            return {}

    def _keep(self) -> None:
        """A full disk costs the memory of good versions, not the pods."""
        try:
            self._persist()
        except OSError as error:
            self._store_fault = f"cannot keep the last good manifests: {error}"
        else:
            self._store_fault = ""

    def _persist(self) -> None:
        """Bring the store up to date. In a thread; only this method and `load` touch the store."""
        for path, state in self._look.files.items():
            documents = state.manifest.documents
            if documents and documents != tuple(self._stored.get(path, ())):
                self._store.save(path, documents)
                self._stored[path] = documents
        if self._look.fault:
            return
        for path in [p for p in self._stored if self._is_own(p)]:
            kept = self._look.files.get(path)
            if kept is None or not kept.manifest.documents:
                self._store.forget(path)
                del self._stored[path]

    def _is_own(self, path: str) -> bool:
        """URLs may stand in the same store, and so may another path's files."""
        return path == self._root or os.path.dirname(path) == self._root


def _cover_and_look(
    request: Request, watch: Watch, before: Look, stored: Mapping[str, Sequence[RawDocument]]
) -> Look:
    """Watch, then look, so that later changes raise an event; new links need a second round."""
    watch.cover(request.root, before.links)
    after = look(request, before, stored)
    if after.links != before.links:
        watch.cover(request.root, after.links)
        after = look(request, after, stored)
    return after
