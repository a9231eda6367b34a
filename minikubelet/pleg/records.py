"""CRI replies as the values that decisions read."""

from collections.abc import Iterable, Mapping

from minikubelet.cri import messages as m
from minikubelet.lifecycle.runtime import (
    ContainerRecord,
    PodRuntimeStatus,
    SandboxRecord,
    State,
)

POD_UID = "io.kubernetes.pod.uid"
POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
HASH = "io.kubernetes.container.hash"

STATES = {
    m.CONTAINER_CREATED: State.CREATED,
    m.CONTAINER_RUNNING: State.RUNNING,
    m.CONTAINER_EXITED: State.EXITED,
    m.CONTAINER_UNKNOWN: State.UNKNOWN,
}


def pod_uid(labels: Mapping[str, str]) -> str:
    """Return whose object this is; empty for one that no kubelet made: it is left alone.

    A uid names folders, so one that is no plain name can't be a kubelet's.
    """
    uid = labels.get(POD_UID, "")
    return "" if "/" in uid or uid in (".", "..") else uid


def container_record(
    listed: m.Container,
    status: m.ContainerStatus,
    *,
    finished_mono: float,
    termination_message: str,
) -> ContainerRecord:
    """Join a container's list entry and its status."""
    cancelled = _start_was_cancelled(status)
    user = status.user.linux if status.HasField("user") and status.user.HasField("linux") else None
    return ContainerRecord(
        id=listed.id,
        name=listed.metadata.name,
        state=State.CREATED if cancelled else STATES.get(status.state, State.UNKNOWN),
        start_cancelled=cancelled,
        sandbox_id=listed.pod_sandbox_id,
        attempt=listed.metadata.attempt,
        created_at=status.created_at,
        started_at=status.started_at,
        finished_at=status.finished_at,
        finished_mono=finished_mono,
        exit_code=status.exit_code,
        reason=status.reason,
        message=status.message,
        image=status.image.user_specified_image or status.image.image,
        image_id=status.image_id,
        image_ref=status.image_ref,
        hash=listed.annotations.get(HASH, ""),
        log_path=status.log_path,
        labels=dict(listed.labels),
        annotations=dict(listed.annotations),
        user=None
        if user is None
        else {
            "linux": {
                "uid": user.uid,
                "gid": user.gid,
                "supplementalGroups": list(user.supplemental_groups),
            }
        },
        termination_message=termination_message,
    )


def _start_was_cancelled(status: m.ContainerStatus) -> bool:
    """Tell a start that ended with its caller (an agent killed in the middle) from one that failed.

    containerd gives the call up with the connection and leaves the container exited with 128.
    """
    never_ran = status.state == m.CONTAINER_EXITED and not status.started_at
    return never_ran and status.reason == "StartError" and "context canceled" in status.message


def sandbox_record(status: m.PodSandboxStatus) -> SandboxRecord:
    """Return what is read of a sandbox."""
    namespaces = status.linux.namespaces.options
    network = status.network if status.HasField("network") else None
    ips: tuple[str, ...] = ()
    if network is not None and network.ip:
        ips = (network.ip, *(extra.ip for extra in network.additional_ips))
    return SandboxRecord(
        id=status.id,
        ready=status.state == m.SANDBOX_READY,
        attempt=status.metadata.attempt,
        created_at=status.created_at,
        host_network=namespaces.network == m.NODE,
        has_network_status=network is not None,
        ips=ips,
        labels=dict(status.labels),
        annotations=dict(status.annotations),
        runtime_handler=status.runtime_handler,
    )


def pod_status(
    uid: str,
    sandboxes: Iterable[SandboxRecord],
    containers: Iterable[ContainerRecord],
    observed_at: float,
) -> PodRuntimeStatus:
    """Sort newest first: by attempt, then creation, then id (kubelet: kuberuntime_sandbox.go)."""
    ordered = sorted(
        sandboxes,
        key=lambda sandbox: (sandbox.attempt, sandbox.created_at, sandbox.id),
        reverse=True,
    )
    newest = sorted(
        containers, key=lambda record: (record.created_at, record.attempt, record.id), reverse=True
    )
    labels: Mapping[str, str] = {}
    if ordered or newest:
        labels = ordered[0].labels if ordered else newest[0].labels
    return PodRuntimeStatus(
        uid=uid,
        name=labels.get(POD_NAME, ""),
        namespace=labels.get(POD_NAMESPACE, ""),
        sandboxes=tuple(ordered),
        containers=tuple(newest),
        observed_at=observed_at,
    )
