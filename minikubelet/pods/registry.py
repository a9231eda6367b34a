"""Which pods there are: one worker a uid, and of two static pods with one name only one at a time.

Owns the workers' tasks. An edited manifest is a new uid under the same full name: the old instance
ends with its own grace first, its end releases the next; of several that wait only the newest
starts. Pods that the runtime holds and nobody wants are ended with what is remembered of them.
Source: kubelet pod_workers.go (allowPodStart), kubelet_pods.go (HandlePodCleanups).
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import structlog
from anyio.abc import TaskGroup

from minikubelet.api.codec import DecodeError, decode_pod, without_nulls
from minikubelet.api.meta import CONFIG_SOURCE
from minikubelet.api.pod import Pod
from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.api.timestamp import NANOSECONDS
from minikubelet.lifecycle.backoff import Backoff
from minikubelet.lifecycle.phase import FINAL
from minikubelet.pods.admission import Rejection
from minikubelet.pods.admitter import admit_beside, holds
from minikubelet.pods.adoption import Adoptions
from minikubelet.pods.ending import MAX_GRACE, Kill
from minikubelet.pods.kit import Kit
from minikubelet.pods.recovery import (
    record_from_runtime,
    restore,
    status_from_runtime,
    take_status,
)
from minikubelet.pods.state import PodState
from minikubelet.pods.worker import Stage, Worker
from minikubelet.sources.updates import API, FILE
from minikubelet.state.pods import PodMemory

INITIAL_BACKOFF = 10.0

_log = structlog.get_logger("pods")


class Registry:
    """All workers, by uid."""

    def __init__(self, kit: Kit, group: TaskGroup, memories: dict[str, PodMemory]) -> None:
        self._kit = kit
        self._group = group
        self._memories = memories
        self._workers: dict[str, Worker] = {}
        self._started: dict[str, str] = {}
        self._respawn: dict[str, tuple[PodRecord, str]] = {}
        self._adoptions = Adoptions(memory.record for memory in memories.values())
        self._all_spoke = False
        """True once what no source has named is known to be unwanted."""

    @property
    def workers(self) -> tuple[Worker, ...]:
        """All workers, in order of arrival."""
        return tuple(self._workers.values())

    def remembered(self) -> dict[str, tuple[str, PodRecord]]:
        """Return the pods of the agent's last run that weren't to end: source and pod by name."""
        return {
            memory.record.pod.full_name: (memory.source, memory.record)
            for memory in self._memories.values()
            if memory.source != API
            and (memory.termination is None or not memory.termination.removed)
        }

    def adopt(self, source: str) -> tuple[PodRecord, ...]:
        """Take the remembered pods of a source that is silent, as if it had delivered them."""
        records = tuple(
            memory.record
            for memory in self._memories.values()
            if memory.source == source
            and (memory.termination is None or not memory.termination.removed)
        )
        for record in records:
            self.add(record, source)
        return records

    def worker(self, uid: str) -> Worker | None:
        """Return a pod's worker."""
        return self._workers.get(uid)

    def as_it_runs(self, record: PodRecord) -> PodRecord:
        """Return a manifest's pod under the uid that it has in the runtime, if that is another."""
        known = self._workers.keys() | self._memories.keys()
        return self._adoptions.as_it_runs(record, self._kit.cache, known)

    def add(self, record: PodRecord, source: str) -> None:
        """Take a new pod; one that comes back while its old instance ends starts after it."""
        if source != API:
            self._claim_from_runtime(record)
        old = self._workers.get(record.uid)
        if old is not None and (old.ending or old.removed):
            self._respawn[record.uid] = (record, source)
            return
        if old is not None:
            old.update(record)
            return
        worker = self._spawn(record, source)
        self._start_or_wait(worker)

    def update(self, record: PodRecord) -> None:
        """Take a newer version of a known pod."""
        worker = self._workers.get(record.uid)
        if worker is not None:
            worker.update(record)

    def debug_static(self, full_name: str, mirror: Mapping[str, Any]) -> None:
        """Run the ephemeral containers that somebody added to the picture of a static pod (B28)."""
        asked = mirror.get("spec", {}).get("ephemeralContainers") or ()
        uid = self._started.get(full_name, "")
        worker = self._workers.get(uid)
        if not asked or worker is None or not worker.state.static:
            return
        record = worker.state.record
        raw = {**record.raw, "spec": {**record.raw["spec"], "ephemeralContainers": asked}}
        if raw == record.raw:
            return
        try:
            worker.update(replace(record, pod=decode_pod(without_nulls(raw)), raw=raw))
        except DecodeError as error:
            _log.warning("cannot read ephemeral containers", pod=full_name, error=str(error))

    def remove(self, uid: str) -> None:
        """End a pod that its source no longer has."""
        self._respawn.pop(uid, None)
        worker = self._workers.get(uid)
        if worker is not None:
            worker.kill(Kill(removed=True))

    def runtime_changed(self, uid: str) -> None:
        """Pass on that the runtime's view of a pod changed.

        A pod that nobody wants may still appear: a runtime that restarts finds what it had lost.
        """
        worker = self._workers.get(uid)
        if worker is not None:
            worker.runtime_changed()
        elif self._all_spoke:
            self._end_leftover(uid)

    def objects_changed(self, uid: str) -> None:
        """Pass on that an object changed that a pod uses."""
        worker = self._workers.get(uid)
        if worker is not None:
            worker.refresh_volumes()

    def wake_all(self) -> None:
        """Let every worker look again: the runtime is back."""
        for worker in self.workers:
            worker.wake()

    def resume_terminations(self) -> None:
        """Go on with terminations that the last run of the agent had begun."""
        for uid, memory in list(self._memories.items()):
            if memory.termination is not None and memory.termination.removed:
                self._end_leftover(uid)

    def end_unwanted(self) -> None:
        """End what the runtime or the state directory holds and no source wants.

        To be called once every configured source has spoken.
        """
        self._all_spoke = True
        for uid in {*self._kit.cache.uids(), *self._memories}:
            if uid not in self._workers:
                self._end_leftover(uid)

    def _claim_from_runtime(self, record: PodRecord) -> None:
        """End an older instance of the same name that runs from before: it must go first."""
        for uid in self._kit.cache.uids():
            if uid == record.uid or uid in self._workers:
                continue
            view = self._kit.cache.get(uid)
            if f"{view.name}_{view.namespace}" == record.pod.full_name:
                self._end_leftover(uid)

    def _end_leftover(self, uid: str) -> None:
        memory = self._memories.get(uid)
        view = self._kit.cache.get(uid)
        record = memory.record if memory is not None else record_from_runtime(view)
        if record is None:
            return
        told = record.pod.metadata.annotations.get(CONFIG_SOURCE, FILE)
        worker = self._spawn(record, memory.source if memory is not None else told, wanted=False)
        worker.admitted = True
        self._started.setdefault(record.pod.full_name, uid)
        worker.begin()
        _log.info("pod is not wanted any more, it ends", uid=uid, pod=record.pod.full_name)
        worker.kill(Kill(removed=True, grace=self._remaining(memory)))

    def _remaining(self, memory: PodMemory | None) -> float | None:
        """Return what is left of the grace of a termination begun earlier; None without one."""
        if memory is None or memory.termination is None:
            return None
        left = (memory.termination.deadline_ns - self._kit.clock.wall_ns()) / NANOSECONDS
        return min(max(0.0, left), MAX_GRACE)

    def _spawn(self, record: PodRecord, source: str, *, wanted: bool = True) -> Worker:
        state = PodState(
            record, source, Backoff(INITIAL_BACKOFF, self._kit.limits.max_restart_delay)
        )
        memory = self._memories.pop(record.uid, None)
        if memory is not None:
            restore(self._kit, state, memory)
        elif not state.static:
            # What another agent told of it (restart counts, readiness) goes on.
            take_status(self._kit, state, record.pod.status)
        elif record.manifest_uid:
            take_status(self._kit, state, status_from_runtime(self._kit.cache.get(record.uid)))
        state.probes = self._kit.probes.add(record.pod, state.status)
        worker = Worker(self._kit, state, self._admit, self._finished)
        self._workers[record.uid] = worker
        if wanted:
            self._kit.statuses.known(record, static=state.static)
        self._resume_end(worker, memory)
        self._group.start_soon(worker.run, name=f"worker {record.pod.full_name}")
        self._kit.timeline.mark(record.uid, "seen")
        return worker

    def _resume_end(self, worker: Worker, memory: PodMemory | None) -> None:
        """Go on with an end that was begun, and begin the one that the pod's object asks for."""
        state = worker.state
        ending = memory.termination if memory is not None else None
        if ending is not None and (ending.deleted or state.verdict is not None):
            grace = self._remaining(memory)
            worker.kill(Kill(removed=False, deleted=ending.deleted, grace=grace))
        if not state.static:
            worker.take_deletion()
            if state.pod.status.phase in FINAL:
                worker.admitted = True
                worker.kill(Kill(removed=False))

    def _start_or_wait(self, worker: Worker) -> None:
        if not worker.state.static:
            worker.begin()
            return
        name = worker.state.pod.full_name
        current = self._started.get(name)
        if current is None:
            self._started[name] = worker.uid
            worker.begin()
            return
        text = "waiting for the previous instance of this pod to end"
        worker.state.waits = ("", text)
        worker.state.update_status(self._kit)

    def _finished(self, worker: Worker) -> None:
        """Release the pod's name, and its resources to those that were refused."""
        uid, name = worker.uid, worker.state.pod.full_name
        del self._workers[uid]
        if self._started.get(name) == uid:
            del self._started[name]
        self._kit.timeline.forget(uid)
        self._kit.statuses.forget(uid)
        self._kit.objects.forget(uid)
        self._kit.probes.remove(uid)
        respawn = self._respawn.pop(uid, None)
        if respawn is not None:
            self._spawn(*respawn)
        waiting = [
            w
            for w in self.workers
            if w.stage is Stage.WAITING and not w.ending and w.state.pod.full_name == name
        ]
        if waiting and name not in self._started:
            self._start_or_wait(waiting[-1])
        for other in self.workers:
            if not other.admitted:
                other.wake()

    def _admit(self, worker: Worker) -> Rejection | None:
        return admit_beside(self._kit, worker, self.workers)

    def records(self) -> Iterable[tuple[PodRecord, PodStatus, Worker]]:
        """Yield every pod with its status at this moment."""
        for worker in self.workers:
            yield worker.state.record, worker.status_now(), worker

    def pods(self) -> tuple[Pod, ...]:
        """Return the pods that hold resources."""
        return tuple(worker.state.pod for worker in self.workers if holds(worker))
