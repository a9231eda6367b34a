"""One container's API status from the runtime's records and what was told before.

The newest record of a name is its state, the second its last state; what the runtime has forgotten
is taken from the earlier status. Source: kubelet kubelet_pods.go convertToAPIContainerStatuses.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from minikubelet.api.pod import Container, Pod
from minikubelet.api.status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
)
from minikubelet.api.timestamp import rfc3339_or_none
from minikubelet.lifecycle.phase import RESTARTING_ALL
from minikubelet.lifecycle.restart import after_exit, should_restart
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State

UNKNOWN_REASON = "ContainerStatusUnknown"
UNKNOWN_EXIT = 137


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a container isn't started: the last attempt's reason and message."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StatusInputs:
    """What statuses are made from beside the runtime's records."""

    runtime_name: str = "containerd"
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    """By container name: failures of the last start attempt, back-off included."""
    progress: Mapping[str, str] = field(default_factory=dict)
    """By container name: what a waiting container waits for, in words."""
    removed_for_restart: Mapping[str, ContainerStatus] = field(default_factory=dict)
    """By container name: status before RestartAllContainers removed the record."""
    completed_init: frozenset[str] = frozenset()
    allocated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


def container_statuses(
    pod: Pod,
    status: PodRuntimeStatus,
    containers: Sequence[Container],
    earlier: Sequence[ContainerStatus],
    inputs: StatusInputs,
) -> tuple[ContainerStatus, ...]:
    """Return one status per container of `containers` (one of the spec's three lists)."""
    old_by_name = {old.name: old for old in earlier}
    default = "PodInitializing" if pod.spec.init_containers else "ContainerCreating"
    return tuple(
        _one(pod, status, container, old_by_name.get(container.name), inputs, default)
        for container in containers
    )


def _one(
    pod: Pod,
    status: PodRuntimeStatus,
    container: Container,
    old: ContainerStatus | None,
    inputs: StatusInputs,
    default_reason: str,
) -> ContainerStatus:
    records = list(status.records(container.name))[:2]
    if not records:
        result = _without_record(pod, status, container, old, inputs, default_reason)
    else:
        result = _from_record(records[0], old, inputs)
        if len(records) > 1 and records[1].state is State.EXITED:
            result = replace(
                result, last_state=ContainerState(terminated=_terminated(records[1], inputs))
            )
    result = _waiting_with_reason(pod, container, records[0] if records else None, result, inputs)
    return replace(
        result,
        name=container.name,
        volume_mounts=_volume_mounts(container),
        resources=_resources(container),
        allocated_resources=dict(container.resources.requests) or None,
    )


def _without_record(
    pod: Pod,
    status: PodRuntimeStatus,
    container: Container,
    old: ContainerStatus | None,
    inputs: StatusInputs,
    default_reason: str,
) -> ContainerStatus:
    waiting = ContainerStatus(
        name=container.name,
        image=container.image,
        state=ContainerState(
            waiting=ContainerStateWaiting(
                reason=default_reason, message=inputs.progress.get(container.name, "")
            )
        ),
    )
    before = inputs.removed_for_restart.get(container.name)
    if before is not None:
        return _removed_for_restart(waiting, before)
    is_init = any(container.name == init.name for init in pod.spec.init_containers)
    if is_init and not container.is_sidecar:
        finished = _forgotten_init(pod, status, container, old, inputs)
        if finished is not None:
            return replace(
                waiting,
                state=ContainerState(terminated=finished),
                ready=True,
                restart_count=old.restart_count if old else 0,
            )
    if old is None:
        return waiting
    if old.state.terminated is not None:
        return old
    lost = ContainerStateTerminated(
        exit_code=UNKNOWN_EXIT,
        reason=UNKNOWN_REASON,
        message="The container could not be located when the pod was deleted.  "
        "The container used to be Running",
    )
    if old.container_id and any(container.name == e.name for e in pod.spec.ephemeral_containers):
        # Nobody starts it again (B27): that is how it ended.
        return replace(old, state=ContainerState(terminated=lost), started=False, ready=False)
    waiting = replace(waiting, restart_count=old.restart_count, last_state=old.last_state)
    if old.state.running is None:
        return waiting
    deleting = pod.metadata.deletion_timestamp is not None
    return replace(
        waiting,
        last_state=ContainerState(terminated=lost),
        restart_count=old.restart_count + (not deleting),
    )


def _forgotten_init(
    pod: Pod,
    status: PodRuntimeStatus,
    container: Container,
    old: ContainerStatus | None,
    inputs: StatusInputs,
) -> ContainerStateTerminated | None:
    """Say how a finished init container ended whose record the runtime no longer has.

    Its success is remembered while the sandbox lives (kubelet 1.36, PR 131317).
    """
    ended = old.state.terminated if old is not None else None
    if ended is not None and ended.exit_code == 0:
        return ended
    regular_created = any(status.newest(regular.name) for regular in pod.spec.containers)
    if not regular_created and container.name not in inputs.completed_init:
        return None
    return ContainerStateTerminated(
        reason="Completed",
        exit_code=0,
        message="Unable to get init container status from container runtime and pod has been "
        "initialized, treat it as exited normally",
    )


def _removed_for_restart(waiting: ContainerStatus, before: ContainerStatus) -> ContainerStatus:
    ended = ContainerStateTerminated(
        exit_code=UNKNOWN_EXIT,
        reason=RESTARTING_ALL,
        message="The container is removed because RestartAllContainers in place",
    )
    return replace(
        waiting,
        state=ContainerState(
            waiting=ContainerStateWaiting(reason=RESTARTING_ALL, message=ended.message)
        ),
        last_state=ContainerState(terminated=ended),
        restart_count=before.restart_count + 1,
    )


def _from_record(
    record: ContainerRecord, old: ContainerStatus | None, inputs: StatusInputs
) -> ContainerStatus:
    container_id = f"{inputs.runtime_name}://{record.id}"
    count = record.restart_count
    last = ContainerState()
    state = ContainerState()
    if old is not None:
        count = max(count, old.restart_count)
        ended = old.state.terminated
        same = old.container_id == container_id
        last = ContainerState(terminated=ended) if ended and not same else old.last_state
    match record.state:
        case State.RUNNING:
            state = ContainerState(
                running=ContainerStateRunning(started_at=rfc3339_or_none(record.started_at))
            )
        case State.EXITED:
            state = ContainerState(terminated=_terminated(record, inputs))
        case State.CREATED:
            state = ContainerState(waiting=ContainerStateWaiting())
        case State.UNKNOWN if old is not None and old.state.running is not None:
            state = ContainerState(
                terminated=ContainerStateTerminated(
                    exit_code=UNKNOWN_EXIT,
                    reason=UNKNOWN_REASON,
                    message="The container could not be located when the pod was terminated",
                )
            )
            count = old.restart_count + 1
        case State.UNKNOWN:
            state = ContainerState(waiting=ContainerStateWaiting())
    return ContainerStatus(
        name=record.name,
        state=state,
        last_state=last,
        restart_count=count,
        image=record.image,
        image_id=record.image_ref,
        container_id=container_id,
        user=record.user,
    )


def _terminated(record: ContainerRecord, inputs: StatusInputs) -> ContainerStateTerminated:
    message = ": ".join(text for text in (record.message, record.termination_message) if text)
    return ContainerStateTerminated(
        exit_code=record.exit_code,
        reason=record.reason,
        message=message,
        started_at=rfc3339_or_none(record.started_at),
        finished_at=rfc3339_or_none(record.finished_at),
        container_id=f"{inputs.runtime_name}://{record.id}",
    )


def _waiting_with_reason(
    pod: Pod,
    container: Container,
    record: ContainerRecord | None,
    result: ContainerStatus,
    inputs: StatusInputs,
) -> ContainerStatus:
    """Show a container that should start but can't as waiting, with the reason of the attempt."""
    reason = inputs.reasons.get(container.name)
    if reason is None or not _due(pod, container, record, result):
        return result
    last = result.last_state
    if result.state.terminated is not None:
        last = ContainerState(terminated=result.state.terminated)
    waiting = ContainerStateWaiting(reason=reason.reason, message=reason.message)
    return replace(result, state=ContainerState(waiting=waiting), last_state=last)


def _due(
    pod: Pod, container: Container, record: ContainerRecord | None, result: ContainerStatus
) -> bool:
    is_init = any(container.name == init.name for init in pod.spec.init_containers)
    if not is_init or container.is_sidecar:
        return should_restart(pod, container, record)
    ended = result.state.terminated
    if ended is not None and ended.exit_code == 0:
        return False
    if record is not None and record.state is State.EXITED:
        return bool(after_exit(pod, container, record.exit_code).value != "no")
    return record is None or record.state is not State.RUNNING


def _volume_mounts(container: Container) -> tuple[dict[str, Any], ...]:
    mounts = []
    for mount in container.volume_mounts:
        shown: dict[str, Any] = {"name": mount.name, "mountPath": mount.mount_path}
        if mount.read_only:
            enabled = mount.recursive_read_only == "Enabled"
            shown["readOnly"] = True
            shown["recursiveReadOnly"] = "Enabled" if enabled else "Disabled"
        mounts.append(shown)
    return tuple(mounts)


def _resources(container: Container) -> dict[str, Any] | None:
    resources = container.resources
    shown: dict[str, Any] = {}
    if resources.limits:
        shown["limits"] = dict(resources.limits)
    if resources.requests:
        shown["requests"] = dict(resources.requests)
    return shown
