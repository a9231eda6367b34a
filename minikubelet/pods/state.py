"""What a worker knows of its pod beside spec and runtime: retries, reasons, hooks, the last status.

Owned by one worker; `sync`, `start`, `kill` and `terminate` read and write it while the worker runs
them. Everything here can be lost: what a restart needs goes to `state.pods` through `memory()`.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field, replace

import structlog

from minikubelet.api.duration import go_duration_seconds
from minikubelet.api.pod import Container, Pod
from minikubelet.api.record import PodRecord
from minikubelet.api.status import ContainerStatus, PodStatus
from minikubelet.api.timestamp import rfc3339
from minikubelet.criconfig.context import MountedVolume
from minikubelet.criconfig.hash import container_hash
from minikubelet.criconfig.qos import qos_class
from minikubelet.lifecycle.actions import ActionInputs
from minikubelet.lifecycle.backoff import Backoff
from minikubelet.lifecycle.container_statuses import Reason, StatusInputs
from minikubelet.lifecycle.probes import NO_PROBES, ProbeResults
from minikubelet.lifecycle.restart import init_failed
from minikubelet.lifecycle.runtime import PodRuntimeStatus, State
from minikubelet.lifecycle.status import Situation, Verdict, generate, rejected_status
from minikubelet.observe.events import WARNING, PodRef
from minikubelet.pods.allocation import REFUSED, Allocated, allocated_of, with_allocated
from minikubelet.pods.kit import Kit
from minikubelet.state.pods import PodMemory, Termination

MAX_PAUSE = 10.0
"""Seconds between tries of a start that fails, at most."""
FIRST_VOLUME_PAUSE = 0.5
"""Seconds after the first failure of a volume, doubled with each (kubelet exponentialbackoff)."""

_log = structlog.get_logger("pods")


@dataclass(frozen=True, slots=True)
class Progress:
    """What a container waits for, and since when (monotonic seconds)."""

    text: str
    since: float


@dataclass(slots=True)
class PodState:
    """One pod in the worker's eyes."""

    record: PodRecord
    source: str
    backoff: Backoff
    status: PodStatus = PodStatus()  # noqa: RUF009  frozen
    started_mono: float | None = None
    """When status.startTime was set, in monotonic seconds: activeDeadlineSeconds counts from it."""
    reasons: dict[str, Reason] = field(default_factory=dict)
    progress: dict[str, Progress] = field(default_factory=dict)
    pending_hooks: dict[str, str] = field(default_factory=dict)
    completed_init: set[str] = field(default_factory=set)
    sandbox_id: str = ""
    start_failures: dict[str, tuple[int, float]] = field(default_factory=dict)
    """By container name: failed starts in a row, and when (monotonic seconds) the next is due."""
    sandbox_failures: int = 0
    sandbox_not_before: float = float("-inf")
    """After a failure (monotonic seconds): the runtime's events must not hasten the next try."""
    conflicts: dict[str, int] = field(default_factory=dict)
    """How often a name ("" for the sandbox) was found taken with nothing to show for it."""
    volumes: dict[str, MountedVolume] = field(default_factory=dict)
    volumes_stale: bool = True
    """True when files in volumes may be older than what they show."""
    volume_failures: int = 0
    volumes_not_before: float = float("-inf")
    """After a failure (monotonic seconds): only news of an object hastens the next try."""
    verdict: Verdict | None = None
    rejected: bool = False
    """True for a pod that was refused for good: it never had a container."""
    told: bool = False
    """True once the status was told: after a restart nobody has been told anything yet."""
    is_terminal: bool = False
    waits: tuple[str, str] = ("", "")
    """Reason and message of what the pod as a whole waits for."""
    pre_stopped: set[str] = field(default_factory=set)
    """Ids of containers whose preStop hook was begun: it isn't run twice."""
    stopped_sandboxes: set[str] = field(default_factory=set)
    """Ids of sandboxes whose network is known to be gone."""
    removed_for_restart: dict[str, ContainerStatus] = field(default_factory=dict)
    """Statuses of containers whose record RestartAllContainers took away, until the next start."""
    termination: Termination | None = None
    allocated: Allocated = field(default_factory=dict)
    resize_refused: str = ""
    """Why a wish for other resources isn't followed."""
    last_action: float = float("-inf")
    probes: ProbeResults = NO_PROBES

    @property
    def pod(self) -> Pod:
        """The pod."""
        return self.record.pod

    @property
    def uid(self) -> str:
        """Its uid."""
        return self.record.uid

    @property
    def static(self) -> bool:
        """True for pods of files and URLs."""
        return self.source != "api"

    def take(self, kit: Kit, record: PodRecord) -> None:
        """Take a version of the pod; it keeps the resources that it was admitted with."""
        self.allocated = self.allocated or allocated_of(record.pod)
        pod = with_allocated(record.pod, self.allocated)
        refused = "" if pod is record.pod else REFUSED
        self.record = replace(record, pod=pod)
        if refused and not self.resize_refused:
            text = f"Pod resize Infeasible: {refused}"
            kit.events.emit(self.ref(), WARNING, "ResizeInfeasible", text)
        self.resize_refused = refused

    def ref(self, container: Container | str | None = None) -> PodRef:
        """Return what an event is about: the pod, or one of its containers."""
        meta = self.pod.metadata
        name = container.name if isinstance(container, Container) else container
        path = f"spec.{self._list_of(name)}{{{name}}}" if name else ""
        return PodRef(meta.namespace, meta.name, meta.uid, path)

    def _list_of(self, name: str) -> str:
        spec = self.pod.spec
        if any(c.name == name for c in spec.init_containers):
            return "initContainers"
        if any(c.name == name for c in spec.ephemeral_containers):
            return "ephemeralContainers"
        return "containers"

    def observe(self, view: PodRuntimeStatus) -> None:
        """Remember of a view what the runtime may forget, and forget what it has overtaken."""
        sandbox = view.sandboxes[0].id if view.sandboxes else ""
        if sandbox and sandbox != self.sandbox_id:
            if self.sandbox_id:
                self.completed_init.clear()
            self.sandbox_id = sandbox
        for name, told in list(self.removed_for_restart.items()):
            newest = view.newest(name)
            if newest is not None and not told.container_id.endswith(newest.id):
                del self.removed_for_restart[name]
        for container in self.pod.spec.init_containers:
            if self._has_completed(container, view, sandbox):
                self.completed_init.add(container.name)
        for record in view.containers:
            # A hook is due while its container is created or runs; an end makes it void.
            if record.state not in (State.CREATED, State.RUNNING):
                self.pending_hooks.pop(record.id, None)

    def _has_completed(self, container: Container, view: PodRuntimeStatus, sandbox: str) -> bool:
        newest = view.newest(container.name)
        if newest is None or container.is_sidecar or container.name in self.removed_for_restart:
            return False
        in_sandbox = newest.sandbox_id == sandbox and newest.state is State.EXITED
        return in_sandbox and not init_failed(newest)

    def action_inputs(self) -> ActionInputs:
        """Return what the decision needs beside spec and view."""
        return ActionInputs(
            probes=self.probes,
            hashes={c.name: container_hash(c) for c in self.pod.all_containers()},
            completed_init=frozenset(self.completed_init),
            begun_ephemeral=frozenset(
                status.name
                for status in self.status.ephemeral_container_statuses
                if status.container_id
            ),
            pending_hooks=frozenset(self.pending_hooks),
        )

    def situation(self, kit: Kit) -> Situation:
        """Return what the status needs beside spec and view."""
        now = kit.clock.monotonic()
        reason, message = self.waits
        return Situation(
            containers=StatusInputs(
                runtime_name=kit.runtime_name,
                reasons=self.reasons,
                progress={
                    name: f"{waiting.text} ({go_duration_seconds(int(now - waiting.since))})"
                    for name, waiting in self.progress.items()
                },
                removed_for_restart=self.removed_for_restart,
                completed_init=frozenset(self.completed_init),
            ),
            probes=self.probes,
            pending_hooks=frozenset(self.pending_hooks),
            host_ips=kit.host_ips,
            qos_class=qos_class(self.pod),
            static=self.static,
            pod_is_terminal=self.is_terminal,
            verdict=self.verdict,
            reason=reason,
            message=message,
            resize_refused=self.resize_refused,
        )

    def status_at(self, kit: Kit) -> PodStatus:
        """Compute the status now; changes nothing."""
        now = rfc3339(kit.clock.wall_ns())
        if self.rejected and self.verdict is not None:
            return rejected_status(self.pod, self.status, self.verdict, qos_class(self.pod), now)
        return generate(self.pod, kit.cache.get(self.uid), self.status, self.situation(kit), now)

    def update_status(self, kit: Kit) -> PodStatus:
        """Compute the status and keep it."""
        self.observe(kit.cache.get(self.uid))
        if self.started_mono is None:
            self.started_mono = kit.clock.monotonic()
        status = self.status_at(kit)
        if status != self.status:
            if status.phase != self.status.phase:
                _log.info("pod phase", phase=status.phase, reason=status.reason, uid=self.uid)
            self.status = status
            self.told = False
        kit.probes.observe(self.uid, status, self.pending_hooks)
        if not self.told:
            self.told = True
            kit.statuses.tell(self.record, status, static=self.static)
        return status

    def containers(self, names: Collection[str]) -> Iterator[Container]:
        """Yield the pod's containers of these names, of all kinds, in spec order."""
        return (c for c in self.pod.all_containers() if c.name in names)

    def acted(self, kit: Kit) -> None:
        """Note an action just done: no older view may lead to the next one."""
        self.last_action = kit.clock.monotonic()

    def fail(self, name: str, reason: str, message: str) -> None:
        """Note why a container isn't started."""
        self.reasons[name] = Reason(reason, message)

    def refresh_volumes(self) -> None:
        """Note that what volumes show has changed."""
        self.volumes_stale = True
        self.volumes_not_before = float("-inf")

    def volumes_failed(self, now: float) -> None:
        """Note that volumes can't be set up; what changed meanwhile is tried at once."""
        delay = min(MAX_PAUSE, FIRST_VOLUME_PAUSE * 2.0 ** min(self.volume_failures, 10))
        self.volume_failures += 1
        if not self.volumes_stale:
            self.volumes_not_before = now + delay
        self.volumes_stale = True

    def start_failed(self, name: str, now: float) -> None:
        """Note a failed start: the runtime's own events about it must not hasten the next try."""
        failures, _ = self.start_failures.get(name, (0, 0.0))
        self.start_failures[name] = (failures + 1, now + min(MAX_PAUSE, 2.0**failures))

    def pause(self, name: str, now: float) -> float:
        """Return for how many seconds a container that failed to start must still wait."""
        _, due = self.start_failures.get(name, (0, now))
        return max(0.0, due - now)

    def wait_for(self, names: Iterable[str], text: str, now: float) -> None:
        """Note what containers wait for; an unchanged text keeps its start."""
        for name in names:
            old = self.progress.get(name)
            if old is None or old.text != text:
                self.progress[name] = Progress(text, now)

    def memory(self) -> PodMemory:
        """Return what must outlive the agent."""
        return PodMemory(
            record=self.record,
            source=self.source,
            status=self.status,
            sandbox_id=self.sandbox_id,
            completed_init=frozenset(self.completed_init),
            pending_hooks=dict(self.pending_hooks),
            termination=self.termination,
            allocated=self.allocated,
        )
