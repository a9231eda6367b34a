"""Which init container is next.

Init containers run one after the other; sidecars (restartPolicy Always) only have to be started,
and are kept running afterwards. The walk goes from the last to the first: the last one that the
runtime knows decides how far initialization has come, those before it are done (KEP-753).
Source: kubelet kuberuntime/kuberuntime_container.go computeInitContainerActions.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from minikubelet.api.pod import Container, Pod
from minikubelet.lifecycle.probes import ProbeResults, Result
from minikubelet.lifecycle.restart import init_failed, restartable_after_failure
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State
from minikubelet.lifecycle.steps import ContainerKill, KillCause


@dataclass(frozen=True, slots=True)
class InitActions:
    """`start` in spec order; `initialized` says that regular containers may start."""

    initialized: bool
    kill_pod: bool
    start: tuple[str, ...]
    kill: tuple[ContainerKill, ...]
    hooks: tuple[str, ...]


@dataclass(slots=True)
class _Walk:
    pod: Pod
    probes: ProbeResults
    hashes: Mapping[str, str]
    pending_hooks: Collection[str]
    initialized: bool
    previously: bool
    kill_pod: bool = False
    start: set[str] = field(default_factory=set)
    kill: list[ContainerKill] = field(default_factory=list)
    hooks: list[str] = field(default_factory=list)


def init_actions(
    pod: Pod,
    status: PodRuntimeStatus,
    *,
    probes: ProbeResults,
    hashes: Mapping[str, str],
    completed: Collection[str],
    pending_hooks: Collection[str],
) -> InitActions:
    """Decide for all init containers of a pod whose sandbox is ready."""
    containers = pod.spec.init_containers
    alive = (State.CREATED, State.RUNNING)
    done = any(
        record is not None and record.state in alive
        for record in (status.newest(container.name) for container in pod.spec.containers)
    )
    initialized = done or not containers
    walk = _Walk(pod, probes, hashes, pending_hooks, initialized, previously=initialized)
    for index in range(len(containers) - 1, -1, -1):
        container = containers[index]
        following = containers[index + 1] if index + 1 < len(containers) else None
        record = status.newest(container.name)
        if record is None and container.name not in completed:
            if walk.previously and container.is_sidecar:
                walk.start.add(container.name)
            continue
        if walk.previously and not container.is_sidecar:
            continue
        if record is None:
            _advance(walk, following)
        elif container.is_sidecar:
            _visit_sidecar(walk, container, record, following)
        else:
            _visit_regular(walk, container, record, following)
        walk.previously = True
    if not walk.previously:
        walk.start.add(containers[0].name)
    if pod.metadata.deletion_timestamp is not None:
        walk.start.clear()
    return InitActions(
        initialized=walk.initialized and not walk.kill_pod,
        kill_pod=walk.kill_pod,
        start=tuple(c.name for c in containers if c.name in walk.start),
        kill=tuple(walk.kill),
        hooks=tuple(c.name for c in containers if c.name in walk.hooks),
    )


def _advance(walk: _Walk, following: Container | None) -> None:
    """One init container is done for the first time: start the next, or the pod is initialized."""
    if following is None:
        walk.initialized = True
    elif not walk.previously:
        walk.start.add(following.name)


def _visit_regular(
    walk: _Walk, container: Container, record: ContainerRecord, following: Container | None
) -> None:
    match record.state:
        case State.CREATED:
            # The runtime never started it: trying again is safe.
            walk.start.add(container.name)
        case State.RUNNING:
            pass
        case State.EXITED if not init_failed(record):
            _advance(walk, following)
        case State.EXITED | State.UNKNOWN:
            if not restartable_after_failure(walk.pod, container):
                walk.kill_pod = True
                return
            if record.state is State.UNKNOWN:
                walk.kill.append(_unknown(container, record))
            walk.start.add(container.name)


def _visit_sidecar(
    walk: _Walk, container: Container, record: ContainerRecord, following: Container | None
) -> None:
    match record.state:
        case State.CREATED | State.EXITED:
            walk.start.add(container.name)
        case State.UNKNOWN:
            walk.kill.append(_unknown(container, record))
            walk.start.add(container.name)
        case State.RUNNING:
            _visit_running_sidecar(walk, container, record, following)


def _visit_running_sidecar(
    walk: _Walk, container: Container, record: ContainerRecord, following: Container | None
) -> None:
    if record.id in walk.pending_hooks:
        walk.hooks.append(container.name)
        if not walk.previously:
            # Started means that its postStart hook is done, too.
            return
    if walk.probes.has_startup(container):
        result = walk.probes.startup.get(record.id)
        if result is Result.FAILURE:
            _restart(walk, container, record, KillCause.STARTUP)
        if result is not Result.SUCCESS:
            return
    _advance(walk, following)
    expected = walk.hashes.get(container.name)
    if expected is not None and record.hash != expected:
        _restart(walk, container, record, KillCause.DEFINITION_CHANGED)
    elif (
        walk.probes.has_liveness(container)
        and walk.probes.liveness.get(record.id) is Result.FAILURE
    ):
        _restart(walk, container, record, KillCause.LIVENESS)


def _restart(walk: _Walk, container: Container, record: ContainerRecord, cause: KillCause) -> None:
    message = cause.text(container.name, prefix="Init container")
    walk.kill.append(ContainerKill(record.id, container.name, message, cause))
    walk.start.add(container.name)


def _unknown(container: Container, record: ContainerRecord) -> ContainerKill:
    message = f'Init container is in "{record.state.value}" state, try killing it before restart'
    return ContainerKill(record.id, container.name, message, KillCause.UNKNOWN)
