"""ConfigMaps and Secrets that pods here use: one watch an object, while at least one pod uses it.

`use` says which objects a pod refers to; the first user starts the watch, the last one ends it and
the object is forgotten. `get` waits for the first answer only. An immutable object is read once.
Who comes next: `on_change` tells each user of a changed object, whose volumes are then refreshed.
Source: kubelet util/manager/watch_based_manager.go.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import anyio
import structlog
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.errors import NotFound, Unavailable
from minikubelet.kube.reflector import list_watch

GET_SECONDS = 10.0
GRACE_SECONDS = 2.0
CONFIG_MAPS, SECRETS = "configmaps", "secrets"

_log = structlog.get_logger("objects")


@dataclass(frozen=True, slots=True, order=True)
class Ref:
    """One object: `kind` is the plural in paths, `configmaps` or `secrets`."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(slots=True)
class _Watched:
    """An object in use. `document` is None while it doesn't exist."""

    users: set[str] = field(default_factory=set)
    document: Document | None = None
    known: anyio.Event = field(default_factory=anyio.Event)
    """Set once there was an answer, or a reason why there is none."""
    answered: anyio.Event = field(default_factory=anyio.Event)
    problem: str = ""
    scope: anyio.CancelScope = field(default_factory=anyio.CancelScope)


class ObjectCache:
    """The objects in use. `on_change(uid)` is called for each pod that uses a changed object."""

    def __init__(self, api: kube.API, on_change: Callable[[str], None]) -> None:
        self._api = api
        self._on_change = on_change
        self._watched: dict[Ref, _Watched] = {}
        self._group: TaskGroup | None = None

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Keep the watches until cancelled; may be started again after a crash."""
        try:
            async with anyio.create_task_group() as group:
                self._group = group
                for ref, held in self._watched.items():
                    held.scope = anyio.CancelScope()
                    self._start(ref, held)
                task_status.started()
                await anyio.sleep_forever()
        finally:
            self._group = None

    def use(self, uid: str, refs: Iterable[Ref]) -> None:
        """Say which objects a pod refers to now; an empty set when it is gone."""
        wanted = set(refs)
        for ref in [ref for ref, held in self._watched.items() if uid in held.users]:
            if ref not in wanted:
                self._drop(ref, uid)
        for ref in wanted:
            held = self._watched.get(ref)
            if held is None:
                held = self._watched[ref] = _Watched()
                self._start(ref, held)
            held.users.add(uid)

    async def get(self, ref: Ref) -> Document:
        """Return an object in use as it is now.

        Raises kube.errors.NotFound when it doesn't exist, Unavailable when nobody knows.
        """
        held = self._watched.get(ref)
        if held is None:
            raise Unavailable(f"cannot read {ref}: no pod of this node uses it (any more)")
        with anyio.move_on_after(GET_SECONDS):
            await held.known.wait()
        if held.problem:
            # The authorizer may not have heard yet that the pod was bound to this node.
            with anyio.move_on_after(GRACE_SECONDS):
                await held.answered.wait()
        if not held.known.is_set() or (held.document is None and held.problem):
            raise Unavailable(f"cannot read {ref}: {held.problem or 'no answer yet'}")
        if held.document is None:
            kind = ref.kind.removesuffix("s")
            raise NotFound(f'{kind} "{ref.name}" not found', code=404, reason="NotFound")
        return held.document

    def _start(self, ref: Ref, held: _Watched) -> None:
        if self._group is not None:
            self._group.start_soon(self._watch, ref, held, name=f"watch {ref}")

    def _drop(self, ref: Ref, uid: str) -> None:
        held = self._watched[ref]
        held.users.discard(uid)
        if not held.users:
            del self._watched[ref]
            held.scope.cancel()

    async def _watch(self, ref: Ref, held: _Watched) -> None:
        async def take(documents: Mapping[str, Document]) -> None:
            found = documents.get(f"{ref.namespace}/{ref.name}")
            news = held.known.is_set() and found != held.document
            held.document, held.problem = found, ""
            held.known.set()
            held.answered.set()
            if news:
                _log.debug("object changed", object=str(ref))
                for uid in list(held.users):
                    self._on_change(uid)
            if found is not None and found.get("immutable"):
                held.scope.cancel()

        def note(problem: str) -> None:
            held.problem = problem
            if problem and not held.known.is_set():
                # Whoever waits learns the reason now; the watch goes on trying.
                held.known.set()

        with held.scope:
            path = kube.core_path(ref.namespace, ref.kind)
            query = {"fieldSelector": f"metadata.name={ref.name}"}
            await list_watch(self._api, path, query, take, on_problem=note)
