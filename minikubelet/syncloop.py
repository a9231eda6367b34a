"""The one place where news meets: source sets, runtime changes and time, each handed to its worker.

Owns the merge state and nothing else. Never does I/O and never waits for a worker: a slow pod
delays no other. Source: kubelet kubelet.go syncLoopIteration.
"""

from collections.abc import Callable, Iterable

import anyio
import structlog

from minikubelet.api.timestamp import rfc3339_nano
from minikubelet.pods.registry import Registry
from minikubelet.sources.merge import MergeState, NameConflict, adopted, merge, sources_ready
from minikubelet.sources.updates import API, Op, PodUpdate, SourceSet

_log = structlog.get_logger("syncloop")


class SyncLoop:
    """Turns source sets into work for the registry."""

    def __init__(
        self, registry: Registry, configured: Iterable[str], wall_ns: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._configured = frozenset(configured)
        self._wall_ns = wall_ns
        self._state = MergeState(ran=registry.remembered())
        self.conflicts: tuple[NameConflict, ...] = ()
        self.all_seen = anyio.Event()
        """Set once every configured source has spoken: only then absence means removal."""

    async def deliver(self, delivered: SourceSet) -> None:
        """Take one source's whole set."""
        if delivered.source != API:
            pods = tuple(self._registry.as_it_runs(record) for record in delivered.pods)
            delivered = SourceSet(delivered.source, pods)
        now = rfc3339_nano(self._wall_ns())
        self._state, updates, conflicts = merge(self._state, delivered, now)
        for conflict in conflicts:
            if conflict not in self.conflicts:
                _log.warning("two manifests claim one pod", error=str(conflict))
        self.conflicts = conflicts
        for update in updates:
            self._apply(update)
        self._sweep()

    def adopt(self, source: str) -> None:
        """Care for what a silent source had wanted, until it speaks."""
        if source in self._state.seen:
            return
        records = self._registry.adopt(source)
        self._state = adopted(self._state, source, records)
        _log.warning("a pod source is silent, its pods go on", source=source, pods=len(records))

    def runtime_changed(self, uid: str) -> None:
        """Take the news that the runtime's view of a pod changed."""
        self._registry.runtime_changed(uid)

    def _apply(self, update: PodUpdate) -> None:
        for record in update.pods:
            # RECONCILE mostly brings back what the node itself has told.
            tell = _log.debug if update.op is Op.RECONCILE else _log.info
            tell(
                "pod update",
                op=update.op.value,
                source=update.source,
                pod=record.pod.full_name,
                uid=record.uid,
            )
            match update.op:
                case Op.ADD:
                    self._registry.add(record, update.source)
                case Op.UPDATE | Op.DELETE | Op.RECONCILE:
                    self._registry.update(record)
                case Op.REMOVE:
                    self._registry.remove(record.uid)

    def _sweep(self) -> None:
        """End what nobody wants, once: later removals come as updates."""
        if sources_ready(self._configured, self._state.seen) and not self.all_seen.is_set():
            self.all_seen.set()
            self._registry.end_unwanted()
