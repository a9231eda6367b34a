"""What a pod needs next: a pure function from spec and runtime state to actions.

Owns the order of things: sandbox first, ephemeral containers any time, init containers one after
the other, regular ones once the pod is initialized. Never knows how an action is done; `pods.sync`
walks the actions in numbered steps. Being level-triggered it needs no memory of what was done
before: after any crash the runtime's state leads to the same end.
Source: kubelet kuberuntime/kuberuntime_manager.go computePodActions, computeInitContainerActions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle.init_containers import init_actions
from minikubelet.lifecycle.probes import NO_PROBES, ProbeResults, Result
from minikubelet.lifecycle.restart import (
    restart_all_source,
    restartable_after_failure,
    should_restart,
    succeeded,
)
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State
from minikubelet.lifecycle.sandbox import sandbox_decision
from minikubelet.lifecycle.steps import ContainerKill, KillCause


@dataclass(frozen=True, slots=True)
class ActionInputs:
    """What `compute` knows beside spec and runtime state."""

    probes: ProbeResults = NO_PROBES
    hashes: dict[str, str] = field(default_factory=dict)
    """Expected hash by container name; a missing name isn't compared."""
    completed_init: frozenset[str] = frozenset()
    """Init containers seen to succeed in the current sandbox, even if their record is gone."""
    begun_ephemeral: frozenset[str] = frozenset()
    """Ephemeral containers that were started once: they never are again, record or no record."""
    pending_hooks: frozenset[str] = frozenset()
    """Ids of running containers whose postStart hook hasn't ended."""


@dataclass(frozen=True, slots=True)
class PodActions:
    """The next actions, in the order of the fields."""

    kill_pod: bool = False
    create_sandbox: bool = False
    attempt: int = 0
    sandbox_id: str = ""
    """The sandbox to start containers in; empty when one must be created first."""
    changed_sandbox_id: str = ""
    """Set when a sandbox is replaced: worth an event."""
    kill: tuple[ContainerKill, ...] = ()
    reset: tuple[ContainerRecord, ...] = ()
    """Records to kill and remove, in this order, for RestartAllContainers."""
    ephemeral: tuple[str, ...] = ()
    init: tuple[str, ...] = ()
    regular: tuple[str, ...] = ()
    hooks: tuple[str, ...] = ()
    """Running containers whose postStart hook must be run (again) before later ones start."""
    prune: tuple[str, ...] = ()
    """Init records that no longer count: of an older sandbox, or older than the newest."""

    @property
    def starts(self) -> tuple[str, ...]:
        """All containers to start."""
        return (*self.ephemeral, *self.init, *self.regular)

    @property
    def anything(self) -> bool:
        """False when the pod is as it should be."""
        return bool(
            self.kill_pod
            or self.create_sandbox
            or self.kill
            or self.reset
            or self.starts
            or self.hooks
        )


def compute(pod: Pod, status: PodRuntimeStatus, inputs: ActionInputs) -> PodActions:
    """Return what the pod needs next."""
    decision = sandbox_decision(pod, status)
    if decision.create:
        return _with_new_sandbox(pod, status, decision.attempt, decision.old_id)
    sandbox_id = status.sandboxes[0].id
    current = replace(
        status,
        containers=tuple(_counting(pod, status, sandbox_id)),
    )
    base = PodActions(attempt=decision.attempt, sandbox_id=sandbox_id)
    source = restart_all_source(pod, current)
    if source is not None:
        return replace(base, reset=tuple(_reset_order(pod, status, source)))
    base = replace(
        base,
        ephemeral=tuple(
            c.name
            for c in pod.spec.ephemeral_containers
            if current.newest(c.name) is None and c.name not in inputs.begun_ephemeral
        ),
        prune=tuple(_prunable(pod, status, sandbox_id)),
    )
    init = init_actions(
        pod,
        current,
        probes=inputs.probes,
        hashes=inputs.hashes,
        completed=inputs.completed_init,
        pending_hooks=inputs.pending_hooks,
    )
    base = replace(base, kill=init.kill, init=init.start, hooks=init.hooks, kill_pod=init.kill_pod)
    if init.kill_pod or not init.initialized:
        return base
    return _with_regular(pod, current, inputs, base)


def _counting(pod: Pod, status: PodRuntimeStatus, sandbox_id: str) -> Iterator[ContainerRecord]:
    """Leave out init records of older sandboxes: initialization belongs to one sandbox."""
    init_names = {container.name for container in pod.spec.init_containers}
    for record in status.containers:
        if record.name in init_names and record.sandbox_id not in ("", sandbox_id):
            continue
        yield record


def _prunable(pod: Pod, status: PodRuntimeStatus, sandbox_id: str) -> Iterator[str]:
    for container in pod.spec.init_containers:
        newest = True
        for record in status.records(container.name):
            stale = record.sandbox_id not in ("", sandbox_id)
            if record.state is State.EXITED and (stale or not newest):
                yield record.id
            newest = False


def _with_new_sandbox(pod: Pod, status: PodRuntimeStatus, attempt: int, old_id: str) -> PodActions:
    """Kill what is left and start from the beginning, unless nothing remains to be started."""
    kill_only = PodActions(kill_pod=True, attempt=attempt)
    if pod.metadata.deletion_timestamp is not None:
        return kill_only
    if pod.spec.restart_policy == "Never" and attempt != 0 and status.containers:
        return kill_only
    names = tuple(
        container.name
        for container in pod.spec.containers
        if not (
            _effective_policy(pod, container) == "OnFailure"
            and succeeded(status.newest(container.name))
        )
    )
    if not names and any(status.newest(container.name) for container in pod.spec.containers):
        return kill_only
    first_init = pod.spec.init_containers[:1]
    return PodActions(
        kill_pod=True,
        create_sandbox=True,
        attempt=attempt,
        changed_sandbox_id=old_id,
        init=tuple(container.name for container in first_init),
        regular=() if first_init else names,
        prune=tuple(
            record.id
            for container in pod.spec.init_containers
            for record in status.records(container.name)
        ),
    )


def _effective_policy(pod: Pod, container: Container) -> str:
    return container.restart_policy or pod.spec.restart_policy


def _reset_order(
    pod: Pod, status: PodRuntimeStatus, source: Container
) -> Iterator[ContainerRecord]:
    """Others first, the source's own record last, so that a crash in between changes nothing."""
    regular = [c.name for c in pod.spec.containers if c.name != source.name]
    init = [c.name for c in pod.spec.init_containers if c.name != source.name]
    for name in (*regular, *init, source.name):
        # Oldest first: the newest record of the source carries the wish.
        yield from reversed(list(status.records(name)))


def _with_regular(
    pod: Pod, status: PodRuntimeStatus, inputs: ActionInputs, base: PodActions
) -> PodActions:
    start: list[str] = []
    hooks = list(base.hooks)
    kill = list(base.kill)
    keeps = 0
    for container in pod.spec.containers:
        record = status.newest(container.name)
        if record is None or record.state is not State.RUNNING:
            if not should_restart(pod, container, record):
                continue
            if record is not None and record.state is State.UNKNOWN:
                message = (
                    f'Container is in "{record.state.value}" state, try killing it before restart'
                )
                kill.append(ContainerKill(record.id, container.name, message, KillCause.UNKNOWN))
            start.append(container.name)
            continue
        cause, restarts = _running_problem(pod, container, record, inputs)
        if cause is None:
            keeps += 1
            if record.id in inputs.pending_hooks:
                hooks.append(container.name)
            continue
        message = cause.text(container.name)
        if restarts:
            message += ", will be restarted"
            start.append(container.name)
        kill.append(ContainerKill(record.id, container.name, message, cause))
    if not keeps and not start:
        # No regular container is left: the sidecars end with the pod.
        return replace(base, kill_pod=True, kill=(), init=(), hooks=())
    return replace(base, kill=tuple(kill), regular=tuple(start), hooks=tuple(hooks))


def _running_problem(
    pod: Pod, container: Container, record: ContainerRecord, inputs: ActionInputs
) -> tuple[KillCause | None, bool]:
    """Return why a running container must end (None: it is fine) and whether it starts again."""
    deleting = pod.metadata.deletion_timestamp is not None
    expected = inputs.hashes.get(container.name)
    if expected is not None and record.hash != expected:
        return KillCause.DEFINITION_CHANGED, not deleting
    restarts = restartable_after_failure(pod, container) and not deleting
    probes = inputs.probes
    if probes.has_liveness(container) and probes.liveness.get(record.id) is Result.FAILURE:
        return KillCause.LIVENESS, restarts
    if probes.has_startup(container) and probes.startup.get(record.id) is Result.FAILURE:
        return KillCause.STARTUP, restarts
    return None, False
