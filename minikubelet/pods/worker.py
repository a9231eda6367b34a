"""The life of one pod: one task a uid, strictly one thing at a time.

syncing ▶ terminating ▶ terminated ▶ finished, never backwards. Work is level-triggered: whoever has
news wakes the worker, the worker reads the newest spec and a view of the runtime that is newer than
its own last action, and acts. An end (or a shorter grace) interrupts the running step between two
CRI calls. A crash of one worker is logged, counted and retried, never the agent's end.
Source: kubelet pod_workers.go.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import Enum

import anyio
import anyio.lowlevel
import structlog
from structlog.contextvars import bound_contextvars

from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.api.timestamp import rfc3339
from minikubelet.cri.errors import CRIError
from minikubelet.lifecycle.final import final_status
from minikubelet.observe.events import WARNING
from minikubelet.observe.once import Troubles
from minikubelet.pods.admission import Rejection
from minikubelet.pods.ending import Ending, Kill, merged
from minikubelet.pods.gate import Gate
from minikubelet.pods.kill import spec_grace
from minikubelet.pods.kit import Kit
from minikubelet.pods.notes import Notes
from minikubelet.pods.state import PodState
from minikubelet.pods.sync import ERROR_DELAY, sync_pod
from minikubelet.pods.terminate import clean_up, remove_pod, terminate_pod, trim_dead
from minikubelet.volumes.errors import VolumeError

CRASH_DELAY = 5.0
RUNTIME_DELAY = 2.0
CLEAN_UP_DELAY = 2.0

_log = structlog.get_logger("pods")


class Stage(Enum):
    """Where the pod is in its life."""

    WAITING = "waiting"
    SYNCING = "syncing"
    TERMINATING = "terminating"
    TERMINATED = "terminated"
    FINISHED = "finished"


class Worker:
    """One pod. `admit` is asked before the first step; `on_finished` is told at the very end."""

    def __init__(
        self,
        kit: Kit,
        state: PodState,
        admit: Callable[["Worker"], Rejection | None],
        on_finished: Callable[["Worker"], None],
    ) -> None:
        self._kit = kit
        self.state = state
        self.stage = Stage.WAITING
        self.admitted = False
        self.crashes = 0
        self._admit = admit
        self._gate = Gate(kit, state)
        self._on_finished = on_finished
        self.changed = anyio.Event()
        """Set (and replaced) when the runtime's view of the pod changes."""
        self._wake = anyio.Event()
        self._wished = anyio.Event()
        self._step: anyio.CancelScope | None = None
        self._again_at = float("inf")
        self._ending: Ending | None = None
        self._troubles = Troubles()
        self._notes = Notes(kit, state)
        self._cleaned = False

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.state.uid

    @property
    def ending(self) -> bool:
        """True from the first wish to end the pod."""
        return self._ending is not None

    @property
    def termination_text(self) -> str:
        """When the pod will be gone at the latest (RFC 3339); empty while it isn't asked to go."""
        ending = self.state.termination
        return rfc3339(ending.deadline_ns) if ending is not None and ending.removed else ""

    @property
    def termination_grace(self) -> int:
        """The grace in seconds that the end began with."""
        return round(self._ending.grace) if self._ending is not None else 0

    @property
    def removed(self) -> bool:
        """True when nobody wants the pod any more."""
        return self._ending is not None and self._ending.removed

    def begin(self) -> None:
        """Let a waiting pod start, if it is admitted.

        It is asked here and now, so that pods are judged in the order in which they came.
        """
        if self.stage is not Stage.WAITING:
            return
        self.stage = Stage.SYNCING
        self.state.waits = ("", "")
        with self._bound():
            try:
                if self.ending or self._check_admission():
                    self.wake()
            except Exception:  # noqa: BLE001  whoever brings the pod has others, too
                _log.exception("cannot judge a pod yet")
                self.wake()

    def wake(self) -> None:
        """Say that something changed."""
        self._wake.set()

    def update(self, record: PodRecord) -> None:
        """Take a newer spec of the same uid."""
        before = self.state.pod.metadata
        self.state.take(self._kit, record)
        after = self.state.pod.metadata
        if (before.labels, before.annotations) != (after.labels, after.annotations):
            self.state.refresh_volumes()  # downwardAPI files show them
        if not self.state.static:
            self.take_deletion()
        if self.state.status.phase:
            self._kit.statuses.tell(record, self.state.status, static=self.state.static)
        self.wake()

    def take_deletion(self) -> None:
        """End the pod if its object says so; the grace there may have become shorter."""
        meta = self.state.pod.metadata
        if meta.deletion_timestamp:
            grace = meta.deletion_grace_period_seconds
            self.kill(Kill(removed=False, deleted=True, grace=grace))

    def kill(self, kill: Kill) -> None:
        """End the pod; a shorter grace than the one so far interrupts the running step."""
        if kill.verdict is not None and self.state.verdict is None:
            self.state.verdict = kill.verdict
        earlier, now = self._ending, self._kit.clock.monotonic()
        self._ending = merged(earlier, kill, spec_grace(self.state.pod), now)
        is_sooner = earlier is None or self._ending.deadline < earlier.deadline
        if is_sooner and self.stage in (Stage.SYNCING, Stage.TERMINATING) and self._step:
            self._step.cancel()
        self._wished.set()
        self.wake()

    def refresh_volumes(self) -> None:
        """Take notice that an object changed that the pod uses."""
        self.state.refresh_volumes()
        self.wake()

    def runtime_changed(self) -> None:
        """Take notice of a new view: tell the status at once, act on the next turn."""
        if self.stage in (Stage.SYNCING, Stage.TERMINATING):
            try:
                self.state.update_status(self._kit)
            except Exception:  # noqa: BLE001  whoever brings the news has other pods, too
                _log.exception("cannot tell a pod's status", uid=self.uid)
        self.changed.set()
        self.changed = anyio.Event()
        self.wake()

    def status_now(self) -> PodStatus:
        """Return the status at this moment, for a reader."""
        return self.state.status_at(self._kit)

    async def run(self) -> None:
        """Live the pod's life to the end."""
        with self._bound():
            async with anyio.create_task_group() as group:
                group.start_soon(self._note_at_once)
                while self.stage is not Stage.FINISHED:
                    await self._rest()
                    with anyio.CancelScope() as self._step:
                        await self._guarded_turn()
                    self._step = None
                group.cancel_scope.cancel()
            self._on_finished(self)

    def _bound(self) -> AbstractContextManager[None]:
        """Let each line of the log name the pod."""
        meta = self.state.pod.metadata
        return bound_contextvars(pod=f"{meta.namespace}/{meta.name}", uid=self.uid)

    async def _note_at_once(self) -> None:
        """Write down a wish that comes while the pod is being stopped: that may take minutes."""
        while True:
            await self._wished.wait()
            self._wished = anyio.Event()
            if self.stage is Stage.TERMINATING:
                await self._save()

    async def _rest(self) -> None:
        """Wait for news or for the time of the next look."""
        pause = self._again_at - self._kit.clock.monotonic()
        if not self._wake.is_set() and pause > 0:
            with anyio.move_on_after(pause):
                await self._wake.wait()
        else:
            # A pod that has always something to do must not keep all others from it.
            await anyio.lowlevel.checkpoint()
        self._wake = anyio.Event()
        self._again_at = float("inf")

    def _again_in(self, seconds: float) -> None:
        self._again_at = min(self._again_at, self._kit.clock.monotonic() + seconds)

    async def _guarded_turn(self) -> None:
        try:
            await self._turn()
            self._tell("cannot reach a step's end", "")
        except CRIError as error:
            self._tell("cannot reach a step's end", str(error))
            self._kit.cache.mark_dirty(self.uid)
            self._again_in(RUNTIME_DELAY if self.stage is Stage.TERMINATING else ERROR_DELAY)
        except Exception as error:  # noqa: BLE001  one pod's crash is not the agent's
            self.crashes += 1
            _log.exception("worker crashed", stage=self.stage.value, crashes=self.crashes)
            text = f"error syncing pod: {_innermost(error)}"
            self.state.waits = ("", text)
            self._kit.events.emit(self.state.ref(), WARNING, "FailedSync", text)
            self._again_in(CRASH_DELAY)

    async def _turn(self) -> None:
        match self.stage:
            case Stage.WAITING:
                if self.ending:
                    await self._kit.memories.forget(self.uid)
                    self.stage = Stage.FINISHED
            case Stage.SYNCING if self.ending:
                await self._begin_termination()
            case Stage.SYNCING:
                await self._sync()
            case Stage.TERMINATING:
                await self._terminate()
            case Stage.TERMINATED:
                await self._wind_up()
            case Stage.FINISHED:
                pass
        if self.stage not in (Stage.WAITING, Stage.FINISHED):
            await self._save()

    async def _sync(self) -> None:
        kit, state = self._kit, self.state
        if not self._check_admission():
            return
        view = await kit.cache.newer_than(self.uid, state.last_action)
        # Whatever the pod gets on the node from here on, a restart must find whose it is.
        await self._save()
        if self._past_deadline():
            return
        outcome = await sync_pod(kit, state, view)
        self._tell("pod isn't complete yet", outcome.error, level="info")
        if outcome.terminal:
            self._end_itself()
            return
        self._again_in(outcome.again_in)
        try:
            await trim_dead(kit, state, kit.cache.get(self.uid))
            self._tell("cannot remove what the pod has outgrown", "")
        except CRIError as error:
            # The living part of the pod doesn't wait for it.
            self._tell("cannot remove what the pod has outgrown", str(error))

    def _tell(self, event: str, error: str, *, level: str = "warning") -> None:
        self._troubles.tell(event, error, level=level, stage=self.stage.value)

    def _end_itself(self) -> None:
        """Begin the end of a pod that has run to its own end: nothing interrupts this step."""
        now = self._kit.clock.monotonic()
        kill = Kill(removed=False)
        self._ending = merged(self._ending, kill, spec_grace(self.state.pod), now)
        self.wake()

    def _check_admission(self) -> bool:
        """Ask for admission; a pod that is admitted or runs has it."""
        if self.admitted:
            return True
        is_running = bool(self._kit.cache.get(self.uid).running)
        rejection = None if is_running else self._admit(self)
        if rejection is None:
            self.admitted = True
            self._gate.admitted()
            return True
        answer = self._gate.refused(rejection)
        if isinstance(answer, Kill):
            self.kill(answer)
        else:
            self._again_in(answer)
        self.state.update_status(self._kit)
        return False

    def _past_deadline(self) -> bool:
        """End the pod when activeDeadlineSeconds is over."""
        left = self._gate.time_left()
        if left is not None and left <= 0:
            self.kill(self._gate.overdue())
            return True
        if left is not None:
            self._again_in(left)
        return False

    async def _begin_termination(self) -> None:
        self.stage = Stage.TERMINATING
        self.state.progress.clear()
        # Before anything is stopped: a restart must go on with this end.
        await self._save()
        self._kit.timeline.mark(self.uid, "terminating")
        self.wake()

    async def _terminate(self) -> None:
        assert self._ending is not None  # noqa: S101  the stage says so
        kit, state, ending = self._kit, self.state, self._ending
        view = await kit.cache.newer_than(self.uid, state.last_action)
        if await terminate_pod(kit, state, view, ending.deadline, removed=ending.unwanted):
            self.stage = Stage.TERMINATED
            self.wake()
        else:
            self._again_in(RUNTIME_DELAY)

    async def _wind_up(self) -> None:
        """Clean up once; remove the rest when nobody wants the pod any more."""
        kit, state = self._kit, self.state
        try:
            if not self._cleaned:
                await clean_up(kit, state)
                self._cleaned = True
                self._conclude()
            if self.removed:
                await remove_pod(kit, state)
                self.stage = Stage.FINISHED
        except (VolumeError, OSError) as error:
            self._tell("cannot clean up yet", str(error))
            self._again_in(CLEAN_UP_DELAY)

    def _conclude(self) -> None:
        """Tell the last status; nothing of the pod is left but what is remembered."""
        kit, state = self._kit, self.state
        if not state.rejected:
            state.status = final_status(state.pod, state.status, static=state.static)
        kit.statuses.tell(state.record, state.status, static=state.static)
        kit.statuses.finished(state.record)

    async def _save(self) -> None:
        error = ""
        try:
            await self._notes.save(self._ending)
        except OSError as problem:
            error = str(problem)
            self._again_in(ERROR_DELAY)
        self._tell("cannot keep the pod's state, tried again", error)


def _innermost(error: BaseException) -> BaseException:
    """Return what went wrong in a group of tasks: the group's own text says nothing."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
