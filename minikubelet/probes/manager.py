"""Who is probed when, and what came of it: all probes of the node.

Owns the results that `lifecycle` decides by. Told of each pod's newest status, it starts probing a
container when its turn has come; when a result settles it is written and `on_result` told: nothing
is restarted here. A probe between attempts is only an entry in `schedule`; attempts are made by
`attempts`. Source: kubelet prober/prober_manager.go, prober.go.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

import anyio
import anyio.abc
import structlog

from minikubelet.api.pod import Container, Pod
from minikubelet.api.status import ContainerStatus, PodStatus
from minikubelet.api.timestamp import NANOSECONDS, parse
from minikubelet.host.clock import Clock
from minikubelet.lifecycle.probe_state import NO_TARGET, ProbeKind, Target, id_of
from minikubelet.lifecycle.probes import ProbeResults, Result
from minikubelet.observe.events import WARNING, EventSink, PodRef
from minikubelet.probes.attempt import Outcome, ProbeError, Prober, Verdict
from minikubelet.probes.attempts import Attempts, Try
from minikubelet.probes.schedule import NEVER, Schedule
from minikubelet.probes.worker import Worker

_log = structlog.get_logger("probes")


@dataclass(slots=True, eq=False)
class _Pod:
    workers: list[Worker]
    regular: frozenset[str]
    status: PodStatus | None = None
    held: frozenset[str] = field(default_factory=frozenset)


class ProbeManager:
    """All probes of the node; `run` works them off until it is cancelled."""

    def __init__(
        self,
        prober: Prober,
        events: EventSink,
        clock: Clock,
        random: Callable[[], float],
        on_result: Callable[[str], None],
    ) -> None:
        self._events = events
        self._clock = clock
        self._random = random
        self._on_result = on_result
        self._pods: dict[str, _Pod] = {}
        self._schedule: Schedule[Worker | Try] = Schedule()
        self._attempts = Attempts(prober, self._schedule, self._ended)
        self._began = clock.monotonic()
        self._began_ns = clock.wall_ns()
        self.counts: Counter[tuple[ProbeKind, str]] = Counter()
        """Attempts by what they came to: successful, failed, unknown."""

    def add(self, pod: Pod, remembered: PodStatus) -> ProbeResults:
        """Take a pod's probes on; return its results, which from now on are kept up to date.

        `remembered` is its status before the agent's start. A pod known already begins anew.
        """
        uid = pod.metadata.uid
        self.remove(uid)
        results: dict[ProbeKind, dict[str, Result]] = {kind: {} for kind in ProbeKind}
        known = [status for status in _statuses(remembered) if status.container_id]
        workers = list(self._workers(pod, results, {id_of(status): status for status in known}))
        for worker in workers:
            # What is remembered counts before the first look at the runtime.
            for status in known:
                if status.name == worker.container.name:
                    worker.meet(id_of(status))
        if workers:
            self._pods[uid] = _Pod(workers, frozenset(c.name for c in pod.spec.containers))
        return ProbeResults(
            liveness=results[ProbeKind.LIVENESS],
            readiness=results[ProbeKind.READINESS],
            startup=results[ProbeKind.STARTUP],
        )

    def _workers(
        self,
        pod: Pod,
        results: dict[ProbeKind, dict[str, Result]],
        remembered: dict[str, ContainerStatus],
    ) -> Iterable[Worker]:
        now, meta = self._clock.monotonic(), pod.metadata
        for container, where in _probed(pod):
            path = f"spec.{where}{{{container.name}}}"
            ref = PodRef(meta.namespace, meta.name, meta.uid, path)
            for kind, found in results.items():
                probe = kind.of(container)
                if probe is not None:
                    yield Worker(pod, container, kind, probe, ref, found, remembered, now)

    def observe(self, uid: str, status: PodStatus, held: Collection[str]) -> None:
        """Take a pod's newest status; `held` are ids of containers whose postStart hook runs."""
        entry = self._pods.get(uid)
        if entry is None or (status == entry.status and entry.held == frozenset(held)):
            return
        entry.status, entry.held = status, frozenset(held)
        by_name = {each.name: each for each in _statuses(status)}
        now = self._clock.monotonic()
        for worker in entry.workers:
            worker.pod_ip = status.pod_ip
            worker.target = self._target(by_name.get(worker.container.name), entry.held, now)
            if worker.target.container_id not in ("", worker.state.container_id):
                worker.meet(worker.target.container_id)
            self._plan(worker, now)

    def _target(self, told: ContainerStatus | None, held: Collection[str], now: float) -> Target:
        if told is None or not told.container_id:
            return NO_TARGET
        container_id, running = id_of(told), told.state.running
        if running is None or container_id in held:
            return Target(container_id)
        began, is_older = now, False
        if running.started_at:
            at_ns = parse(running.started_at)
            began = now - max(0.0, (self._clock.wall_ns() - at_ns) / NANOSECONDS)
            is_older = at_ns // NANOSECONDS < self._began_ns // NANOSECONDS
        return Target(
            container_id,
            running=True,
            started=bool(told.started),
            began=began,
            is_older=is_older,
        )

    def _plan(self, worker: Worker, now: float) -> None:
        """Set the first tick, unless there is one; after an attempt it is planned again anyway."""
        if not worker.is_wanted:
            worker.due = NEVER
        elif worker.due == NEVER and not worker.in_flight:
            self._schedule.put(worker, worker.first_tick(now, self._spread))

    def _spread(self, period: float) -> float:
        is_recent = self._clock.monotonic() - self._began < period
        return self._random() * period if is_recent else 0.0

    def ending(self, uid: str) -> None:
        """Stop liveness and startup probes of the regular containers of a pod that is to end."""
        entry = self._pods.get(uid)
        if entry is None:
            return
        for worker in entry.workers:
            if worker.kind is not ProbeKind.READINESS and worker.container.name in entry.regular:
                worker.stop()

    def remove(self, uid: str) -> None:
        """Stop all probes of a pod. Idempotent."""
        entry = self._pods.pop(uid, None)
        for worker in entry.workers if entry is not None else ():
            worker.stop()

    async def run(
        self, *, task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED
    ) -> None:
        """Make attempts as they fall due."""
        async with anyio.create_task_group() as group:
            group.start_soon(self._attempts.run)
            task_status.started()
            while True:
                for item in self._schedule.fallen_due(self._clock.monotonic()):
                    if isinstance(item, Worker):
                        self._attempts.start(item, group)
                    else:
                        self._attempts.expire(item)
                await self._schedule.rest()

    def _ended(self, made: Try, outcome: Outcome | ProbeError) -> None:
        """Count an outcome, plan what is next, tell of a result."""
        worker = made.worker
        worker.in_flight = False
        result = self._judge(worker, outcome)
        settled = result is not None and worker.note(made.container_id, result)
        now = self._clock.monotonic()
        if not worker.is_wanted:
            worker.due = NEVER
        elif worker.state.container_id != made.container_id:
            self._plan(worker, now)
        else:
            self._schedule.put(worker, worker.next_tick(now, made.tick))
        if settled:
            self._tell(worker.ref.uid)

    def _tell(self, uid: str) -> None:
        try:
            self._on_result(uid)
        except Exception:  # noqa: BLE001  trouble with one pod is not the others'
            _log.exception("cannot pass a probe's result on", uid=uid)

    def _judge(self, worker: Worker, outcome: Outcome | ProbeError) -> Result | None:
        """Tell of a failure; return None for an attempt that can't tell anything."""
        kind = worker.kind
        if isinstance(outcome, ProbeError):
            self.counts[kind, "unknown"] += 1
            text = f"probe errored and resulted in {outcome.state} state: {outcome}"
            self._emit(worker, "Unhealthy", text)
            return None
        if outcome.verdict is Verdict.FAILURE:
            self.counts[kind, "failed"] += 1
            self._emit(worker, "Unhealthy", f"probe failed: {outcome.output}")
            return Result.FAILURE
        self.counts[kind, "successful"] += 1
        if outcome.verdict is Verdict.WARNING:
            self._emit(worker, "ProbeWarning", f"probe warning: {outcome.output}")
        return Result.SUCCESS

    def _emit(self, worker: Worker, reason: str, text: str) -> None:
        if not worker.stopped:
            self._events.emit(worker.ref, WARNING, reason, f"{worker.kind.value} {text}")


def _probed(pod: Pod) -> Iterable[tuple[Container, str]]:
    """Yield the containers that may have probes, each with the name of its list."""
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            yield container, "initContainers"
    for container in pod.spec.containers:
        yield container, "containers"


def _statuses(status: PodStatus) -> Iterable[ContainerStatus]:
    return (*status.init_container_statuses, *status.container_statuses)
