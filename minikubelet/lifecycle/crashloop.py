"""CrashLoopBackOff: how long a dead container waits for its next start.

The first restart comes at once, then after 10, 20, 40 … seconds counted from the container's end.
A container that ran long enough starts from the beginning again. Completed and crashed containers
wait alike, but the words tell them apart. Source: kubelet kuberuntime_manager.go doBackOff.
"""

from dataclasses import dataclass

from minikubelet.api.duration import go_duration_seconds
from minikubelet.api.pod import Container, Pod
from minikubelet.api.timestamp import NANOSECONDS, rfc3339
from minikubelet.lifecycle.backoff import Backoff
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State


@dataclass(frozen=True, slots=True)
class CrashLoop:
    """A container that must wait until `until` (monotonic seconds)."""

    until: float
    message: str
    event: str


def _key(container: Container) -> str:
    return f"{container.name} {container.image} {container.resources!r}"


def last_exit(status: PodRuntimeStatus, name: str) -> ContainerRecord | None:
    """Return the newest ended record of a name."""
    return next((r for r in status.records(name) if r.state is State.EXITED), None)


def crash_loop(
    backoff: Backoff, pod: Pod, container: Container, status: PodRuntimeStatus, now: float
) -> CrashLoop | None:
    """Return the wait that is due, or None when the container may start now."""
    record = last_exit(status, container.name)
    if record is None:
        return None
    delay = backoff.get(_key(container), record.finished_mono)
    until = record.finished_mono + delay
    if now >= until:
        return None
    duration = go_duration_seconds(delay)
    completed = record.exit_code == 0
    how = "it completed with exit code 0" if completed else f"exit code {record.exit_code}"
    at = rfc3339(record.finished_at + round(delay * NANOSECONDS))
    return CrashLoop(
        until=until,
        message=f"back-off {duration} restarting failed container={container.name} "
        f"pod={pod.description} ({how}, next try at {at})",
        event=f"Back-off restarting failed container {container.name} in pod {pod.description}",
    )


def attempted(
    backoff: Backoff, container: Container, status: PodRuntimeStatus, now: float
) -> Backoff:
    """Return the back-off for one more start: the next waits longer, if there was an end before."""
    record = last_exit(status, container.name)
    if record is None:
        return backoff
    return backoff.next(_key(container), now, record.finished_mono)
