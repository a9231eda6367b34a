"""The pod cache: the newest view of each pod in the runtime, stamped with when it was asked for.

Owns the views and the map from container ids to pods. A view is made from CRI replies only; an
event merely makes it dirty. `newer_than` is the one way for a worker to read before it acts, so
that no action follows from a view older than the worker's own last action.
"""

from collections.abc import Awaitable, Callable, Iterable

import anyio

from minikubelet.cri import messages as m
from minikubelet.cri.errors import NotFound
from minikubelet.cri.services import RuntimeService
from minikubelet.host.clock import Clock
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, SandboxRecord, State
from minikubelet.pleg.records import (
    POD_UID,
    STATES,
    container_record,
    pod_status,
    pod_uid,
    sandbox_record,
)

NANOSECONDS = 1_000_000_000


TerminationMessage = Callable[[m.ContainerStatus], Awaitable[str]]
"""Reads what an ended container left: its termination file, or its log's end."""


class PodCache:
    """Views by pod uid."""

    def __init__(
        self, runtime: RuntimeService, clock: Clock, termination_message: TerminationMessage
    ) -> None:
        self._runtime = runtime
        self._clock = clock
        self._termination_message = termination_message
        self._views: dict[str, PodRuntimeStatus] = {}
        self._owners: dict[str, str] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._dirty: set[str] = set()
        self._asking: dict[object, float] = {}

    def get(self, uid: str) -> PodRuntimeStatus:
        """Return the last view; empty for an unknown pod."""
        return self._views.get(uid) or PodRuntimeStatus(uid)

    def uids(self) -> set[str]:
        """Return the pods that the runtime held at the last look."""
        return {uid for uid, view in self._views.items() if view.sandboxes or view.containers}

    def owner(self, container_id: str) -> str:
        """Return the pod of a container or sandbox id, or an empty string."""
        return self._owners.get(container_id, "")

    def learn(self, container_id: str, uid: str) -> None:
        """Note whose container was just made, so that its first event needs no look-up."""
        self._owners[container_id] = uid

    def add_sandbox(self, uid: str, status: m.PodSandboxStatus) -> SandboxRecord:
        """Show a sandbox that was just made: its events came before the runtime listed it.

        The view is as old as before: a reader that wants a newer one asks for all.
        """
        old, record = self.get(uid), sandbox_record(status)
        sandboxes = [record, *(other for other in old.sandboxes if other.id != record.id)]
        self._views[uid] = pod_status(uid, sandboxes, old.containers, old.observed_at)
        return record

    def unanswered(self) -> float:
        """Return for how many seconds the runtime has owed an answer; 0 when it owes none."""
        oldest = min(self._asking.values(), default=None)
        return 0.0 if oldest is None else self._clock.monotonic() - oldest

    def mark_dirty(self, uid: str) -> None:
        """Note that something happened: the next reader asks the runtime."""
        self._dirty.add(uid)

    async def find_owner(self, container_id: str) -> str:
        """Ask the runtime whose container or sandbox this is; empty when it doesn't know."""
        for listed in await self._runtime.list_containers(id=container_id):
            self.learn(container_id, pod_uid(listed.labels))
        if not self.owner(container_id):
            for sandbox in await self._runtime.list_pod_sandbox(id=container_id):
                self.learn(container_id, pod_uid(sandbox.labels))
        return self.owner(container_id)

    async def newer_than(self, uid: str, moment: float) -> PodRuntimeStatus:
        """Return a view asked for after `moment` (monotonic seconds). Raises CRIError."""
        view = self._views.get(uid)
        if view is not None and view.observed_at > moment and uid not in self._dirty:
            return view
        return await self.refresh(uid, newer_than=moment)

    async def refresh(self, uid: str, *, newer_than: float | None = None) -> PodRuntimeStatus:
        """Ask the runtime for one pod; a look that another began after `newer_than` will do."""
        wanted = self._clock.monotonic() if newer_than is None else newer_than
        lock = self._locks.setdefault(uid, anyio.Lock())
        async with lock:
            view = self._views.get(uid)
            if view is not None and view.observed_at > wanted and uid not in self._dirty:
                return view
            self._dirty.discard(uid)
            try:
                return await self._ask(uid)
            except BaseException:
                self._dirty.add(uid)
                raise
            finally:
                if not lock.statistics().tasks_waiting:
                    self._locks.pop(uid, None)

    async def relist(self) -> set[str]:
        """Look at everything; return the uids whose states changed. Raises CRIError."""
        began = self._clock.monotonic()
        sandboxes = await self._runtime.list_pod_sandbox()
        containers = await self._runtime.list_containers()
        seen: dict[str, set[tuple[str, object]]] = {}
        for sandbox in sandboxes:
            ready = sandbox.state == m.SANDBOX_READY
            seen.setdefault(pod_uid(sandbox.labels), set()).add((sandbox.id, ready))
        for container in containers:
            state = STATES.get(container.state, State.UNKNOWN)
            seen.setdefault(pod_uid(container.labels), set()).add((container.id, state))
        seen.pop("", None)
        changed = {
            uid
            for uid in seen.keys() | self._views.keys()
            if seen.get(uid, set()) != _shape(self.get(uid)) and self.get(uid).observed_at <= began
        }
        for uid in changed:
            self.mark_dirty(uid)
        return changed

    def forget(self, uid: str) -> None:
        """Drop what is known of a pod that is gone."""
        if uid not in self._views:
            self._dirty.discard(uid)
            self._owners = {key: owner for key, owner in self._owners.items() if owner != uid}

    async def _ask(self, uid: str) -> PodRuntimeStatus:
        began = self._clock.monotonic()
        asking = object()
        self._asking[asking] = began
        try:
            return await self._view(uid, began)
        finally:
            del self._asking[asking]

    async def _view(self, uid: str, began: float) -> PodRuntimeStatus:
        selector = {POD_UID: uid}
        sandboxes = await self._runtime.list_pod_sandbox(label_selector=selector)
        containers = await self._runtime.list_containers(label_selector=selector)
        old = self.get(uid)
        sandbox_records = [
            sandbox for item in sandboxes if (sandbox := await self._sandbox(item, old)) is not None
        ]
        records = [
            record
            for item in containers
            if (record := await self._container(item, old)) is not None
        ]
        for gone in _ids(old.sandboxes, old.containers) - _ids(sandbox_records, records):
            self._owners.pop(gone, None)
        self._owners.update(dict.fromkeys(_ids(sandbox_records, records), uid))
        view = pod_status(uid, sandbox_records, records, began)
        if sandbox_records or records:
            self._views[uid] = view
        else:  # an event may still ask for a pod that is gone for good
            self._views.pop(uid, None)
        return view

    async def _sandbox(self, listed: m.PodSandbox, old: PodRuntimeStatus) -> SandboxRecord | None:
        ready = listed.state == m.SANDBOX_READY
        for known in old.sandboxes:
            is_complete = known.ips or known.host_network or not ready
            if known.id == listed.id and known.ready == ready and is_complete:
                return known
        try:
            return sandbox_record(await self._runtime.pod_sandbox_status(listed.id))
        except NotFound:
            return None

    async def _container(
        self, listed: m.Container, old: PodRuntimeStatus
    ) -> ContainerRecord | None:
        state = STATES.get(listed.state, State.UNKNOWN)
        for known in old.containers:
            if known.id == listed.id and (known.state is state or known.start_cancelled):
                return known
        try:
            status = await self._runtime.container_status(listed.id)
        except NotFound:
            return None
        message, finished = "", 0.0
        if status.state == m.CONTAINER_EXITED:
            message = await self._termination_message(status)
            ago = (self._clock.wall_ns() - status.finished_at) / NANOSECONDS
            finished = self._clock.monotonic() - max(0.0, ago)
        return container_record(listed, status, finished_mono=finished, termination_message=message)


def _ids(sandboxes: Iterable[SandboxRecord], containers: Iterable[ContainerRecord]) -> set[str]:
    return {*(sandbox.id for sandbox in sandboxes), *(record.id for record in containers)}


def _shape(view: PodRuntimeStatus) -> set[tuple[str, object]]:
    shape: set[tuple[str, object]] = {(sandbox.id, sandbox.ready) for sandbox in view.sandboxes}
    shape.update((record.id, record.state) for record in view.containers)
    return shape
