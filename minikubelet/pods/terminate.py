"""The end of a pod: terminating until nothing runs, terminated until nothing is left.

`terminate_pod` stops containers and sandboxes and tells the final status; `clean_up` takes the
volumes and the cgroup away; `remove_pod` removes sandboxes, records and logs of a pod that nobody
wants any more. Each may be repeated after a crash. Source: kubelet SyncTerminatingPod,
SyncTerminatedPod.
"""

import structlog

from minikubelet.cri.errors import CRIError, NotFound
from minikubelet.lifecycle.runtime import PodRuntimeStatus
from minikubelet.pods.cgroups import remove_cgroup
from minikubelet.pods.files import remove_pod_files
from minikubelet.pods.kill import kill_pod
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState

_log = structlog.get_logger("pods")


async def terminate_pod(
    kit: Kit, state: PodState, view: PodRuntimeStatus, deadline: float, *, removed: bool
) -> bool:
    """Stop everything by `deadline` (monotonic seconds); return whether nothing runs any more.

    The sandbox of a pod that nobody wants is removed without a stop before: each of the two calls
    makes the runtime tear the network down, and once is enough. Raises CRIError.
    """
    state.update_status(kit)
    kit.probes.ending(state.uid)
    grace = max(0.0, deadline - kit.clock.monotonic())
    await kill_pod(kit, state, view, grace=grace, stop_sandboxes=not removed)
    after = await kit.cache.newer_than(state.uid, state.last_action)
    if after.running:
        _log.info("containers still run after the kill", uid=state.uid)
        return False
    state.is_terminal = True
    state.update_status(kit)
    if removed:
        try:
            await _remove_sandboxes(kit, state, after)
        except CRIError as error:
            # What can't be removed is stopped at least: that is what others wait for.
            _log.info("a sandbox can't be removed yet", uid=state.uid, error=str(error))
            await kill_pod(kit, state, after)
    elif any(sandbox.ready for sandbox in after.sandboxes):
        return False
    kit.timeline.mark(state.uid, "stopped")
    return True


async def clean_up(kit: Kit, state: PodState) -> None:
    """Take away what only a living pod needs. Raises VolumeError, OSError."""
    await kit.volumes.teardown(state.uid)
    await remove_cgroup(kit, state.pod)


async def remove_pod(kit: Kit, state: PodState) -> None:
    """Remove every trace of a pod that is no longer wanted. Raises CRIError."""
    view = await kit.cache.newer_than(state.uid, state.last_action)
    await _remove_sandboxes(kit, state, view)
    await _remove_strays(kit, state)
    await remove_pod_files(kit.node, state.pod)
    await kit.memories.forget(state.uid)
    kit.images.forget(state.uid)
    kit.cache.forget(state.uid)
    kit.timeline.mark(state.uid, "removed")


async def _remove_sandboxes(kit: Kit, state: PodState, view: PodRuntimeStatus) -> None:
    for sandbox in view.sandboxes:
        try:
            await kit.runtime.remove_pod_sandbox(sandbox.id)
        except NotFound:
            pass
        finally:
            state.acted(kit)


async def _remove_strays(kit: Kit, state: PodState) -> None:
    """Remove containers whose sandbox is gone already."""
    view = await kit.cache.newer_than(state.uid, state.last_action)
    for record in view.containers:
        await kit.runtime.remove_container(record.id)
        state.acted(kit)
    if view.containers:
        await kit.cache.newer_than(state.uid, state.last_action)


async def trim_dead(kit: Kit, state: PodState, view: PodRuntimeStatus) -> None:
    """Remove what a living pod has outgrown.

    All but the newest dead container of each name (facts: maxPerPodContainer 1), and older
    sandboxes that are down and hold no container any more.
    """
    seen: set[str] = set()
    for record in view.containers:
        if record in view.running or record.finished_at == 0:
            continue
        if record.name in seen:
            await kit.runtime.remove_container(record.id)
            state.acted(kit)
        seen.add(record.name)
    held = {record.sandbox_id for record in view.containers}
    for sandbox in view.sandboxes[1:]:
        if not sandbox.ready and sandbox.id not in held:
            await kit.runtime.remove_pod_sandbox(sandbox.id)
            state.acted(kit)
