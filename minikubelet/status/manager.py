"""Writes pod statuses to the apiserver: the newest wins, a burst makes one patch.

Workers tell each new status without waiting; one task writes, several pods at a time. A status that
only shows progress waits a moment for what follows it; a new phase, readiness and an end go out at
once. What the apiserver holds is known from its watch and from its replies, so nothing is read
before a patch, and nothing is sent when nothing differs. While the apiserver is away everything
waits and then goes once, as it is by then. A deleted pod's object is removed here, after its last
status and only when its worker says that nothing is left. Never computes a status.
Source: kubelet status/status_manager.go.
"""

from collections.abc import Callable, Mapping

import anyio
import structlog
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskGroup, TaskStatus

from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.host.clock import Clock
from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.documents import version_of
from minikubelet.kube.errors import (
    APIError,
    Conflict,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
    Unavailable,
)
from minikubelet.lifecycle.conditions import OWNED
from minikubelet.lifecycle.phase import FINAL
from minikubelet.status.entry import Entry
from minikubelet.status.patch import patch_body, status_patch

HOLD_SECONDS = 0.3
"""How long a status that only shows progress waits for the next one, times how many wait so."""
HOLD_MAX = 10.0
"""The longest such wait, in a burst of starts (kubelet: syncPeriod of its statuses)."""
PARALLEL = 8
REFUSED_PAUSE = 10.0
AWAY_FIRST, AWAY_MAX = 0.5, 10.0

_log = structlog.get_logger("status")


class StatusManager:
    """The statuses of all pods. `mirror_of(full name)` finds the mirror pod of a static pod."""

    def __init__(
        self,
        api: kube.API,
        clock: Clock,
        random: Callable[[], float],
        mirror_of: Callable[[str], Document | None] = lambda _name: None,
    ) -> None:
        self._api = api
        self._clock = clock
        self._random = random
        self._mirror_of = mirror_of
        self._entries: dict[str, Entry] = {}
        self._wake = anyio.Event()
        self._places = anyio.CapacityLimiter(PARALLEL)
        self._away_until = float("-inf")
        self._away_pause = 0.0

    def tell(self, record: PodRecord, status: PodStatus, *, static: bool) -> None:
        """Take a pod's newest status, or news of what the apiserver holds. Never blocks."""
        uid = record.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = Entry(record, status, static)
        entry.record = record
        entry.status = status
        if not static:
            entry.take_live(record.raw)
        self._consider(entry)

    def known(self, record: PodRecord, *, static: bool) -> None:
        """Take a pod that has a worker; there is nothing to write before its first status."""

    def mirrors_changed(self, changed: Mapping[str, Document]) -> None:
        """Take notice of mirror pods (by full name) that were made or changed."""
        for entry in self._entries.values():
            if entry.static and entry.record.pod.full_name in changed:
                self._consider(entry)

    def finished(self, record: PodRecord) -> None:
        """Say that nothing of a pod is left on the node: the object of a deleted one may go."""
        entry = self._entries.get(record.uid)
        if entry is not None and not entry.static:
            entry.record = record
            entry.finished = True
            self._due(entry, 0)

    def forget(self, uid: str) -> None:
        """Drop a pod that has no object any more."""
        self._entries.pop(uid, None)

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Write until cancelled."""
        task_status.started()
        async with anyio.create_task_group() as group:
            while True:
                self._wake = anyio.Event()
                pause = self._start_due(group)
                with anyio.move_on_after(pause):
                    await self._wake.wait()

    def _start_due(self, group: TaskGroup) -> float:
        """Start what is due; return the seconds until the next is."""
        now = self._clock.monotonic()
        if now < self._away_until:
            return self._away_until - now
        soonest = float("inf")
        for entry in list(self._entries.values()):
            if entry.due is None or entry.sending:
                continue
            if entry.due > now:
                soonest = min(soonest, entry.due)
                continue
            entry.sending, entry.due = True, None
            group.start_soon(self._send, entry, name=f"status {entry.record.pod.full_name}")
        return soonest - now

    def _consider(self, entry: Entry) -> None:
        """Find out whether there is something to write, and how soon."""
        if self._patch_of(entry) is None:
            if entry.may_be_deleted():
                self._due(entry, 0)
            else:
                entry.due = None
            return
        self._due(entry, self._hold(entry))

    def _hold(self, entry: Entry) -> float:
        """Return how long a status waits: the more start at once, the less each one's steps count.

        Each patch costs the apiserver and all who watch the pod what its start needs more.
        """
        if entry.is_urgent():
            return 0
        waiting = sum(each.due is not None for each in self._entries.values())
        return min(HOLD_SECONDS * max(waiting, 1), HOLD_MAX)

    def _due(self, entry: Entry, seconds: float) -> None:
        due = self._clock.monotonic() + seconds
        if entry.due is None or due < entry.due:
            entry.due = due
            self._wake.set()

    def _patch_of(self, entry: Entry) -> Document | None:
        if entry.static:
            mirror = self._mirror_of(entry.record.pod.full_name)
            if mirror is None or not entry.pictured_by(mirror):
                return None
            entry.take_live(mirror)
        elif entry.deleted:
            return None
        patch = status_patch(entry.live, entry.wanted(), OWNED)
        return None if patch == entry.settled else patch

    async def _send(self, entry: Entry) -> None:
        try:
            async with self._places:
                patch = self._patch_of(entry)
                if patch is not None:
                    await self._write(entry, patch)
                if entry.may_be_deleted() and entry.live.get("phase") in FINAL:
                    await self._delete(entry)
        except (Unavailable, ServerError, TooManyRequests) as error:
            self._away(entry, error)
        except APIError as error:
            self._refused(entry, error)
        except Exception:  # noqa: BLE001  one pod's fault keeps no other's status back
            _log.exception("cannot write a pod's status", pod=entry.name)
            self._due(entry, REFUSED_PAUSE * (1 + self._random()))
        finally:
            entry.sending = False
            if entry.due is not None:
                self._wake.set()

    def _refused(self, entry: Entry, error: APIError) -> None:
        if isinstance(error, NotFound) or _is_namesake(error):
            # There is nobody to tell.
            _log.info("pod has no object any more", pod=entry.name, error=str(error))
            entry.deleted = True
        elif isinstance(error, Conflict):
            self._due(entry, HOLD_SECONDS)  # many wrote at once
        else:
            _log.warning("cannot write a pod's status", pod=entry.name, error=str(error))
            self._due(entry, REFUSED_PAUSE * (1 + self._random()))

    async def _write(self, entry: Entry, patch: Document) -> None:
        meta = entry.record.pod.metadata
        path = kube.pods_path(meta.namespace, meta.name, "status")
        answer = await self._api.request(
            "PATCH",
            path,
            body=patch_body(entry.live_uid or entry.record.uid, patch),
            content_type=kube.STRATEGIC_MERGE_PATCH,
        )
        if not (answer.get("metadata") or {}).get("uid"):
            raise Unavailable(f"cannot read the answer to the status of pod {entry.name}: no pod")
        self._back()
        entry.take_live(answer)
        entry.settled = None
        left = status_patch(entry.live, entry.wanted(), OWNED)
        is_answer = version_of(answer) == entry.live_version
        # Either a newer status came meanwhile, or somebody else wrote after this patch, or this
        # apiserver dropped what it doesn't know.
        if left is not None and not (is_answer and _overlaps(left, patch)):
            self._due(entry, self._hold(entry))
        else:
            entry.settled = left

    async def _delete(self, entry: Entry) -> None:
        meta = entry.record.pod.metadata
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": meta.uid},
        }
        path = kube.pods_path(meta.namespace, meta.name)
        await self._api.request("DELETE", path, body=options)
        self._back()
        entry.deleted = True

    def _away(self, entry: Entry, error: APIError) -> None:
        """Let everything wait a moment: one try finds out for all whether it is back."""
        now = self._clock.monotonic()
        self._due(entry, 0)
        if now < self._away_until:
            return
        if not self._away_pause:
            _log.warning("statuses wait for the apiserver", error=str(error))
        self._away_pause = min(AWAY_MAX, max(AWAY_FIRST, 2 * self._away_pause))
        pause = self._away_pause * (0.5 + self._random())
        self._away_until = now + max(error.retry_after or 0.0, pause)

    def _back(self) -> None:
        if self._away_pause:
            _log.info("the apiserver takes statuses again")
        self._away_pause = 0.0


def _is_namesake(error: APIError) -> bool:
    """Tell whether a request met another pod of the name: what it says depends on its timing."""
    told = "UID in precondition", "UID in the precondition", "metadata.uid: "
    return isinstance(error, Conflict | Invalid) and any(text in error.message for text in told)


def _overlaps(left: Document, sent: Document) -> bool:
    """Tell whether what is left is part of what was sent: then sending it again won't help."""
    return all(name in sent and sent[name] == value for name, value in left.items())
