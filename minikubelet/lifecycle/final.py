"""The last word on a pod whose end is complete: no container may look as if it still ran.

Source: kubelet status/status_manager.go TerminatePod.
"""

from msgspec.structs import replace

from minikubelet.api.pod import Pod
from minikubelet.api.status import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    PodStatus,
)
from minikubelet.lifecycle.container_statuses import UNKNOWN_EXIT, UNKNOWN_REASON
from minikubelet.lifecycle.phase import FINAL

_LOST = ContainerState(
    terminated=ContainerStateTerminated(
        exit_code=UNKNOWN_EXIT,
        reason=UNKNOWN_REASON,
        message="The container could not be located when the pod was terminated",
    )
)


def final_status(pod: Pod, status: PodStatus, *, static: bool) -> PodStatus:
    """Return the status of a pod of which nothing is left on the node."""
    regular, init = status.container_statuses, status.init_container_statuses
    if _has_initialized(pod, status):
        regular = tuple(_ended(each) for each in regular)
    last = max((index for index, each in enumerate(init) if _was_begun(each)), default=0)
    init = tuple(_ended(each) if index <= last else each for index, each in enumerate(init))
    phase = status.phase
    if phase not in FINAL and not static:
        phase = "Failed"
    return replace(status, phase=phase, container_statuses=regular, init_container_statuses=init)


def _has_initialized(pod: Pod, status: PodStatus) -> bool:
    if not pod.spec.init_containers or any(map(_was_begun, status.container_statuses)):
        return True
    last = status.init_container_statuses[-1:]
    ended = last[0].last_state.terminated or last[0].state.terminated if last else None
    return ended is not None and ended.exit_code == 0


def _was_begun(status: ContainerStatus) -> bool:
    state = status.state
    return bool(state.running or state.terminated or status.last_state.terminated)


def _ended(status: ContainerStatus) -> ContainerStatus:
    if status.state.terminated is not None:
        return status
    return replace(status, state=_LOST, started=False, ready=False)
