"""SyncPod: bring one pod a step closer to its spec.

The numbered steps are the kubelet's (kuberuntime_manager.go SyncPod): 1 status, a final phase ends
it; 2 actions; 3 kill what must go; 4 cgroup, folders, volumes; 5 sandbox; 6 ephemeral, 7 init,
8 regular containers in spec order, each held by the postStart hook of the one before. Only image
checks and pulls run ahead of their container. Nothing here decides: `lifecycle.actions` did.
"""

from dataclasses import dataclass, replace

from structlog.contextvars import bound_contextvars

from minikubelet.cri.errors import AlreadyExists, CRIError
from minikubelet.criconfig.context import ConfigProblem
from minikubelet.images.manager import ImagesAhead
from minikubelet.lifecycle.actions import PodActions, compute
from minikubelet.lifecycle.phase import FINAL
from minikubelet.lifecycle.runtime import PodRuntimeStatus, State
from minikubelet.observe.events import NORMAL, WARNING
from minikubelet.pods.cgroups import ensure_cgroup
from minikubelet.pods.hold_back import hold_back
from minikubelet.pods.kill import (
    Ending,
    kill_container,
    kill_containers,
    kill_grace,
    kill_pod,
)
from minikubelet.pods.kit import Kit
from minikubelet.pods.sandbox import (
    Sandbox,
    create_sandbox,
    current_sandbox,
    sandbox_config,
)
from minikubelet.pods.start import (
    RUN_CONTAINER_ERROR,
    StartProblem,
    run_post_start,
    start_container,
)
from minikubelet.pods.state import PodState
from minikubelet.pods.volumes import refresh_volumes, set_up_volumes, volumes_due_in
from minikubelet.volumes.errors import VolumeError

ERROR_DELAY = 10.0
NETWORK_DELAY = 1.0
CONFLICT_DELAY = 1.0
JITTER = 0.5


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a sync ended: `again_in` seconds the pod wants another look at the latest."""

    again_in: float
    terminal: bool = False
    error: str = ""


async def sync_pod(kit: Kit, state: PodState, view: PodRuntimeStatus) -> Outcome:
    """Walk the steps once. Raises CRIError when the runtime fails as a whole."""
    status = state.update_status(kit)
    if status.phase in FINAL:
        return Outcome(0, terminal=True)
    await refresh_volumes(kit, state, view)
    actions = compute(state.pod, view, state.action_inputs())
    if not actions.anything:
        return _settled(kit, state)
    pause = state.sandbox_not_before - kit.clock.monotonic()
    if actions.create_sandbox and pause > 0:
        return Outcome(pause, error=state.waits[1])
    actions, earliest = hold_back(kit, state, view, actions)
    try:
        outcome = await _carry_out(kit, state, view, actions)
    finally:
        state.update_status(kit)
    if earliest is not None:
        return replace(outcome, again_in=min(outcome.again_in, earliest))
    return outcome


def _settled(kit: Kit, state: PodState) -> Outcome:
    state.waits = ("", "")
    state.update_status(kit)
    pause = _jittered(kit, kit.limits.sync_frequency)
    return Outcome(min(pause, volumes_due_in(kit, state)))


def _jittered(kit: Kit, delay: float) -> float:
    return delay * (1 + JITTER * kit.random())


async def _carry_out(
    kit: Kit, state: PodState, view: PodRuntimeStatus, actions: PodActions
) -> Outcome:
    if actions.changed_sandbox_id and actions.create_sandbox:
        text = "Pod sandbox changed, it will be killed and re-created."
        kit.events.emit(state.ref(), NORMAL, "SandboxChanged", text)
    await _make_room(kit, state, view, actions)
    if not (actions.create_sandbox or actions.starts or actions.hooks):
        return Outcome(0 if actions.kill or actions.reset else kit.limits.sync_frequency)
    problem = await _prepare(kit, state)
    if problem is not None:
        return problem
    try:
        config = await sandbox_config(kit, state, actions.attempt)
    except ConfigProblem as error:
        return await _sandbox_failed(kit, state, error)
    containers = list(state.containers(actions.starts))
    async with kit.images.ahead(state.pod, containers, config, state.ref) as ahead:
        if not actions.create_sandbox:
            sandbox = current_sandbox(kit, state, view, config)
        else:
            try:
                sandbox = await create_sandbox(kit, state, config)
            # OSError: the folder of its logs; ConfigProblem: its RuntimeClass
            except (CRIError, OSError, ConfigProblem) as error:
                return await _sandbox_failed(kit, state, error)
        return await _start_all(kit, state, view, actions, sandbox, ahead)


async def _make_room(
    kit: Kit, state: PodState, view: PodRuntimeStatus, actions: PodActions
) -> None:
    """Step 3: end and remove what must not be there any more."""
    if actions.kill_pod:
        await kill_pod(kit, state, view)
    by_id = {record.id: record for record in view.containers}
    endings = [
        Ending(by_id[kill.id], kill.message, kill_grace(state.pod, kill)) for kill in actions.kill
    ]
    await kill_containers(kit, state, endings)
    if actions.reset:
        await _reset(kit, state, view, actions)
    for container_id in actions.prune:
        await kit.runtime.remove_container(container_id)
        state.acted(kit)


async def _reset(kit: Kit, state: PodState, view: PodRuntimeStatus, actions: PodActions) -> None:
    """Take every container away for RestartAllContainers; their counts go on from here."""
    told = (*state.status.init_container_statuses, *state.status.container_statuses)
    names = {record.name for record in actions.reset}
    state.completed_init.clear()
    for status in told:
        if status.name in names:
            state.removed_for_restart.setdefault(status.name, status)
    for record in actions.reset:
        if record in view.running:
            await kill_container(kit, state, record, "", grace=0)
        await kit.runtime.remove_container(record.id)
        state.acted(kit)


async def _prepare(kit: Kit, state: PodState) -> Outcome | None:
    """Step 4: what must be complete before the sandbox; return an outcome if something isn't."""
    try:
        await ensure_cgroup(kit, state.pod)
    except OSError as error:
        return _blocked(
            kit,
            state,
            "FailedCreatePodContainer",
            f"unable to ensure pod container exists: {error}",
        )
    pause = state.volumes_not_before - kit.clock.monotonic()
    if pause > 0:
        return Outcome(pause, error=state.waits[1])
    kit.objects.use(state.pod)
    try:
        await set_up_volumes(kit, state)
    except VolumeError as error:
        pause = max(0.0, state.volumes_not_before - kit.clock.monotonic())
        return replace(_blocked(kit, state, "FailedMount", str(error)), again_in=pause)
    state.waits = ("", "")
    kit.timeline.mark(state.uid, "volumes")
    return None


def _blocked(kit: Kit, state: PodState, reason: str, message: str) -> Outcome:
    state.waits = (reason, message)
    kit.events.emit(state.ref(), WARNING, reason, message)
    return Outcome(_jittered(kit, ERROR_DELAY), error=message)


async def _sandbox_failed(kit: Kit, state: PodState, error: Exception) -> Outcome:
    reason, message = "FailedCreatePodSandBox", f"Failed to create pod sandbox: {error}"
    delay = min(ERROR_DELAY, 2.0**state.sandbox_failures)
    state.sandbox_failures += 1
    if isinstance(error, AlreadyExists):
        # An earlier call that outlived its deadline may still be at work on this very sandbox:
        # the next look finds it, or the attempt number is raised.
        state.conflicts[""] = state.conflicts.get("", 0) + 1
        delay = CONFLICT_DELAY
    problem = "" if state.pod.spec.host_network else await kit.network_problem()
    if problem:
        reason, message = "NetworkNotReady", f"network is not ready: {problem}"
        delay = NETWORK_DELAY
    state.waits = (reason, message)
    kit.events.emit(state.ref(), WARNING, reason, message)
    delay = _jittered(kit, delay)
    state.sandbox_not_before = kit.clock.monotonic() + delay
    return Outcome(delay, error=message)


async def _start_all(
    kit: Kit,
    state: PodState,
    view: PodRuntimeStatus,
    actions: PodActions,
    sandbox: Sandbox,
    ahead: ImagesAhead,
) -> Outcome:
    """Steps 6 to 8. A failing regular init container ends the walk, others only themselves."""
    errors: list[str] = []
    spec = state.pod.spec
    due = {*actions.starts, *actions.hooks}
    order = (*spec.ephemeral_containers, *spec.init_containers, *spec.containers)
    for container in order:
        if container.name not in due:
            continue
        try:
            with bound_contextvars(container=container.name):
                if container.name in actions.hooks and container.name not in actions.starts:
                    await run_post_start(kit, state, container, view.newest(container.name))
                else:
                    await start_container(kit, state, container, view, sandbox, ahead)
        except StartProblem as problem:
            state.fail(container.name, problem.reason, problem.message)
            state.start_failed(container.name, kit.clock.monotonic())
            errors.append(f"{problem.reason}: {problem.message}")
            if problem.conflict:
                state.conflicts[container.name] = state.conflicts.get(container.name, 0) + 1
            if container in spec.init_containers and not container.is_sidecar:
                break
        else:
            state.reasons.pop(container.name, None)
            state.start_failures.pop(container.name, None)
            state.conflicts.pop(container.name, None)
        state.progress.clear()
        state.update_status(kit)
    state.progress.clear()
    if errors:
        delay = CONFLICT_DELAY if state.conflicts else ERROR_DELAY
        if await _any_died(kit, state):
            delay = 0  # it counts as a restart: the next look sets the CrashLoopBackOff
        return Outcome(_jittered(kit, delay), error="; ".join(errors))
    # A started sidecar, or a hook that has ended, lets the next one go without any event.
    more = any(c.is_sidecar for c in state.containers(actions.init)) or actions.hooks
    return Outcome(0 if more else _jittered(kit, kit.limits.sync_frequency))


async def _any_died(kit: Kit, state: PodState) -> bool:
    """Tell whether the runtime shows a container dead whose start failed; no event tells of it."""
    failed = [name for name, why in state.reasons.items() if why.reason == RUN_CONTAINER_ERROR]
    if not failed:
        return False
    view = await kit.cache.newer_than(state.uid, state.last_action)
    records = (view.newest(name) for name in failed)
    return any(record is not None and record.state is State.EXITED for record in records)
