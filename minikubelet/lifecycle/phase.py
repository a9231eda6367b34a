"""The pod's phase, counted from its container statuses.

Source: kubelet kubelet_pods.go getPhase. A final phase never flips: `settled_phase` keeps it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from minikubelet.api.pod import Container, Pod
from minikubelet.api.status import ContainerStateTerminated, ContainerStatus
from minikubelet.lifecycle.restart import Restart, after_exit

FINAL = frozenset({"Succeeded", "Failed"})
RESTARTING_ALL = "RestartingAllContainers"


@dataclass(slots=True)
class _Counts:
    unknown: int = 0
    running: int = 0
    waiting: int = 0
    stopped: int = 0
    stopped_final: int = 0
    succeeded: int = 0
    pending_init: int = 0
    pending_sidecar: int = 0
    failed_init: int = 0
    failed_final: int = 0


def _restartable(pod: Pod, container: Container, ended: ContainerStateTerminated) -> bool:
    if ended.reason == RESTARTING_ALL:
        return True
    return after_exit(pod, container, ended.exit_code) is not Restart.NO


def _count_init(
    counts: _Counts, pod: Pod, container: Container, status: ContainerStatus | None
) -> None:
    ended = None
    if status is not None:
        ended = status.state.terminated
        if ended is None and status.state.waiting is not None:
            ended = status.last_state.terminated
    if ended is None:
        counts.pending_init += 1
    elif ended.exit_code != 0:
        counts.failed_init += 1
        if not _restartable(pod, container, ended):
            counts.failed_final += 1
    elif status is not None and status.state.terminated is None:
        # Waiting after a success: it is about to run again.
        counts.pending_init += 1


def _count_sidecar(counts: _Counts, status: ContainerStatus | None) -> None:
    if status is None:
        counts.unknown += 1
    elif status.state.running is not None:
        counts.running += 1
        if not status.started:
            counts.pending_sidecar += 1
    elif status.state.terminated is not None:
        pass
    elif status.state.waiting is not None:
        if status.last_state.terminated is None:
            counts.pending_sidecar += 1
            counts.waiting += 1
    else:
        counts.pending_sidecar += 1
        counts.unknown += 1


def _count_regular(
    counts: _Counts, pod: Pod, container: Container, status: ContainerStatus | None
) -> None:
    state = status.state if status is not None else None
    if status is None or state is None:
        counts.unknown += 1
    elif state.running is not None:
        counts.running += 1
    elif state.terminated is not None:
        counts.stopped += 1
        counts.succeeded += state.terminated.exit_code == 0
        counts.stopped_final += not _restartable(pod, container, state.terminated)
    elif state.waiting is not None:
        ended = status.last_state.terminated
        if ended is not None:
            counts.stopped += 1
            counts.stopped_final += not _restartable(pod, container, ended)
        else:
            counts.waiting += 1
    else:
        counts.unknown += 1


def phase(
    pod: Pod,
    statuses: Sequence[ContainerStatus],
    *,
    pod_is_terminal: bool,
    has_initialized: bool,
    static: bool,
) -> str:
    """Return the phase that the container statuses mean.

    `statuses` covers init and regular containers; `has_initialized` says that a regular container
    of the current sandbox exists; `pod_is_terminal` that the worker has stopped everything.
    """
    by_name = {status.name: status for status in statuses}
    counts = _Counts()
    for container in pod.spec.init_containers:
        if container.is_sidecar:
            _count_sidecar(counts, by_name.get(container.name))
        else:
            _count_init(counts, pod, container, by_name.get(container.name))
    for container in pod.spec.containers:
        _count_regular(counts, pod, container, by_name.get(container.name))
    return _decide(
        counts, pod_is_terminal=pod_is_terminal, has_initialized=has_initialized, static=static
    )


def _decide(counts: _Counts, *, pod_is_terminal: bool, has_initialized: bool, static: bool) -> str:
    if counts.failed_final:
        return "Failed"
    initializing = counts.pending_init or (counts.pending_sidecar and not has_initialized)
    if initializing or counts.waiting:
        return "Pending"
    if counts.running and not counts.unknown:
        return "Running"
    if not counts.running and counts.stopped and not counts.unknown:
        all_succeeded = counts.stopped == counts.succeeded
        if pod_is_terminal and not static:
            return "Succeeded" if all_succeeded else "Failed"
        if counts.stopped != counts.stopped_final:
            return "Running"
        return "Succeeded" if all_succeeded else "Failed"
    return "Pending"


def settled_phase(computed: str, *earlier: str) -> str:
    """Return the computed phase, or an earlier final one: a final phase never changes."""
    return next((phase for phase in earlier if phase in FINAL), computed)
