"""The watch over the runtime: its event stream, the repairs, and whether it is there at all.

Streams are tried in order of speed; without any, a relist each second stands in, as in the
kubelet's generic PLEG. A stream that breaks is opened again with growing pauses and followed by a
relist, since events in between are lost. After a hint of an exit the runtime may not have noticed
yet itself: it is asked again (5, 10, 20 ms … 1 s) until it agrees. Who comes next: `on_change`
wakes the worker.
"""

from collections.abc import Callable, Sequence

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from minikubelet.cri.errors import CRIError, Unimplemented
from minikubelet.cri.services import EventKind, RuntimeEvent, RuntimeEvents
from minikubelet.host.clock import Clock
from minikubelet.lifecycle.runtime import PodRuntimeStatus, State
from minikubelet.pleg.cache import PodCache

RELIST_WITH_EVENTS = 60.0
RELIST_WITHOUT_EVENTS = 1.0
RECONNECT_FIRST, RECONNECT_MAX = 0.1, 3.0
AGREE_FIRST, AGREE_MAX = 0.005, 1.0
STRANGER_SECONDS = 2.0
"""How long whoever made a container has time to say so."""
AGREE_LIMIT = RELIST_WITH_EVENTS
"""Seconds until a hint is given up: a busy runtime may take long to end the call it is in."""


class Monitor:
    """Keeps the cache true and tells which pods changed.

    `on_change(uid)` is called for each pod whose view changed; `on_health()` when `problem` did;
    `on_exec_exit(container_id, exit_code)` when a process run by exec ended.
    """

    def __init__(
        self,
        cache: PodCache,
        streams: Sequence[RuntimeEvents],
        clock: Clock,
        on_change: Callable[[str], None],
        on_health: Callable[[], None],
        on_exec_exit: Callable[[str, int], None] = lambda _id, _code: None,
    ) -> None:
        self._cache = cache
        self._streams = list(streams)
        self._clock = clock
        self._on_change = on_change
        self._on_health = on_health
        self._on_exec_exit = on_exec_exit
        self._hints: dict[str, dict[str, EventKind]] = {}
        self._strangers: set[str] = set()
        self._log = structlog.get_logger("pleg")
        self.problem = "the container runtime has not answered yet"
        """Why the runtime's state isn't known now; empty when it is."""
        self.relisted_at = float("-inf")
        """Monotonic seconds of the last complete look."""

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Watch for ever; started once the runtime has been read for the first time."""
        pause = RECONNECT_FIRST
        async with anyio.create_task_group() as group:
            while True:
                try:
                    problem = await self._watch(group, task_status)
                except Unimplemented:
                    self._log.info("the runtime lacks an event stream, the next is tried")
                    self._streams.pop(0)
                    continue
                except (CRIError, OSError) as error:
                    problem = _down(error)
                if not self.problem:
                    pause = RECONNECT_FIRST
                self._set_problem(problem)
                await anyio.sleep(pause)
                pause = min(pause * 2, RECONNECT_MAX)

    async def relist(self) -> None:
        """Look at everything once and tell what changed. Raises CRIError."""
        began = self._clock.monotonic()
        for uid in await self._cache.relist():
            await self._cache.refresh(uid)
            self._on_change(uid)
        self.relisted_at = began
        self._set_problem("")

    async def _watch(self, group: TaskGroup, task_status: TaskStatus[None]) -> str:
        """Follow one stream to its end; return why it ended. Raises CRIError before it began."""
        if not self._streams:
            while True:
                await self.relist()
                _started(task_status)
                await anyio.sleep(RELIST_WITHOUT_EVENTS)
        problem = "the runtime's event stream ended"
        async with self._streams[0].subscribe() as events:
            await self.relist()
            _started(task_status)
            async with anyio.create_task_group() as inner:
                inner.start_soon(self._relist_slowly)
                try:
                    async for event in events:
                        self._handle(event, group)
                except CRIError as error:
                    problem = _down(error)
                inner.cancel_scope.cancel()
        return problem

    async def _relist_slowly(self) -> None:
        while True:
            await anyio.sleep(RELIST_WITH_EVENTS)
            try:
                await self.relist()
            except CRIError as error:
                self._log.warning("cannot relist, the next one repairs", error=str(error))

    def _handle(self, event: RuntimeEvent, group: TaskGroup) -> None:
        if event.kind is EventKind.EXEC_EXITED:
            self._on_exec_exit(event.container_id, event.exit_code)
            return
        uid = event.pod_uid or self._cache.owner(event.container_id)
        if uid:
            self._hint(uid, event, group)
        elif event.kind is not EventKind.DELETED:
            group.start_soon(self._identify, event, group, name=f"pleg owner {event.container_id}")

    async def _identify(self, event: RuntimeEvent, group: TaskGroup) -> None:
        """Find out whose container an event is about; the events of others don't wait for it.

        Events of a start come before the call that makes it returns: then its worker says whose it
        is, and looks itself. An end may be all that is ever heard.
        """
        if event.kind is not EventKind.STOPPED:
            if event.container_id in self._strangers:
                return
            self._strangers.add(event.container_id)
            await anyio.sleep(STRANGER_SECONDS)
            self._strangers.discard(event.container_id)
            if self._cache.owner(event.container_id):
                return
        try:
            uid = await self._cache.find_owner(event.container_id)
        except CRIError as error:
            self._log.warning("cannot look for a pod", id=event.container_id, error=str(error))
            return
        if uid:
            self._hint(uid, event, group)

    def _hint(self, uid: str, event: RuntimeEvent, group: TaskGroup) -> None:
        self._cache.mark_dirty(uid)
        busy = uid in self._hints
        self._hints.setdefault(uid, {})[event.container_id] = event.kind
        if not busy:
            group.start_soon(self._look, uid, name=f"pleg look {uid}")

    async def _look(self, uid: str) -> None:
        """Look at one pod until its view agrees with every hint that came for it."""
        waited, pause = 0.0, AGREE_FIRST
        try:
            while self._hints.get(uid):
                hints = dict(self._hints[uid])
                before = self._cache.get(uid)
                view = await self._cache.refresh(uid)
                if view != before:
                    self._on_change(uid)
                late = {key for key, kind in hints.items() if _disagrees(view, key, kind)}
                for key, kind in hints.items():
                    if key not in late and self._hints[uid].get(key) is kind:
                        del self._hints[uid][key]
                if late and waited >= AGREE_LIMIT:
                    self._log.warning("the runtime doesn't confirm an event", uid=uid, ids=late)
                    break
                if late:
                    await anyio.sleep(pause)
                    waited += pause
                    pause = min(pause * 2, AGREE_MAX)
        except CRIError as error:
            self._log.warning("cannot look at a pod", uid=uid, error=str(error))
        finally:
            self._hints.pop(uid, None)

    def _set_problem(self, problem: str) -> None:
        if problem != self.problem:
            self.problem = problem
            self._on_health()


def _down(error: Exception) -> str:
    return f"container runtime is down: {error}"


def _disagrees(view: PodRuntimeStatus, container_id: str, kind: EventKind) -> bool:
    """Return True while the view shows a state that the event says is over.

    containerd tells of a start, and of the end of a short process, while CRI still says created.
    """
    over = {
        EventKind.STARTED: (State.CREATED,),
        EventKind.STOPPED: (State.CREATED, State.RUNNING),
    }.get(kind, ())
    containers = (r for r in view.containers if not r.start_cancelled)
    if any(r.id == container_id and r.state in over for r in containers):
        return True
    stopped = kind is EventKind.STOPPED
    return stopped and any(s.id == container_id and s.ready for s in view.sandboxes)


def _started(task_status: TaskStatus[None]) -> None:
    # A second call (after a reconnect) is refused by anyio: only the first one matters.
    try:
        task_status.started()
    except RuntimeError:
        return
