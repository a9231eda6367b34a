"""Labels and annotations on CRI objects: written at creation, read back after a restart.

They are all that an agent knows about containers it didn't start itself, and the keys and values
are the kubelet's, so that either agent understands the other's containers.
Source: kuberuntime/labels.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from minikubelet.api.pod import Container, ContainerPort, LifecycleHandler, Pod
from minikubelet.criconfig.hash import container_hash

POD_NAME = "io.kubernetes.pod.name"
POD_NAMESPACE = "io.kubernetes.pod.namespace"
POD_UID = "io.kubernetes.pod.uid"
CONTAINER_NAME = "io.kubernetes.container.name"

HASH = "io.kubernetes.container.hash"
RESTART_COUNT = "io.kubernetes.container.restartCount"
TERMINATION_MESSAGE_PATH = "io.kubernetes.container.terminationMessagePath"
TERMINATION_MESSAGE_POLICY = "io.kubernetes.container.terminationMessagePolicy"
POD_TERMINATION_GRACE = "io.kubernetes.pod.terminationGracePeriod"
POD_DELETION_GRACE = "io.kubernetes.pod.deletionGracePeriod"
PRE_STOP = "io.kubernetes.container.preStopHandler"
PORTS = "io.kubernetes.container.ports"


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose container or sandbox it is; `container` is empty for a sandbox."""

    pod_name: str
    namespace: str
    uid: str
    container: str = ""


@dataclass(frozen=True, slots=True)
class Notes:
    """What the annotations of a container remember. Missing or unreadable ones are empty."""

    hash: str = ""
    restart_count: int = 0
    termination_message_path: str = ""
    termination_message_policy: str = ""
    pod_termination_grace: int | None = None
    pod_deletion_grace: int | None = None
    pre_stop: LifecycleHandler | None = None
    ports: tuple[ContainerPort, ...] = ()


def _pod_labels(pod: Pod) -> dict[str, str]:
    meta = pod.metadata
    return {POD_NAME: meta.name, POD_NAMESPACE: meta.namespace, POD_UID: meta.uid}


def sandbox_labels(pod: Pod) -> dict[str, str]:
    """Return the pod's own labels and its identity, which wins."""
    return dict(pod.metadata.labels) | _pod_labels(pod)


def container_labels(pod: Pod, container: Container) -> dict[str, str]:
    """Return the identity only: pod labels belong to the sandbox."""
    return {CONTAINER_NAME: container.name} | _pod_labels(pod)


def container_annotations(pod: Pod, container: Container, restart_count: int) -> dict[str, str]:
    """Return what a restarted agent has to know to watch and end this container."""
    notes = {
        HASH: container_hash(container),
        RESTART_COUNT: str(restart_count),
        TERMINATION_MESSAGE_PATH: container.termination_message_path,
        TERMINATION_MESSAGE_POLICY: container.termination_message_policy,
    }
    if pod.metadata.deletion_grace_period_seconds is not None:
        notes[POD_DELETION_GRACE] = str(pod.metadata.deletion_grace_period_seconds)
    if pod.spec.termination_grace_period_seconds is not None:
        notes[POD_TERMINATION_GRACE] = str(pod.spec.termination_grace_period_seconds)
    if container.lifecycle is not None and container.lifecycle.pre_stop is not None:
        notes[PRE_STOP] = msgspec.json.encode(container.lifecycle.pre_stop).decode()
    if container.ports:
        notes[PORTS] = msgspec.json.encode(container.ports).decode()
    return notes


def read_identity(labels: Mapping[str, str]) -> Identity | None:
    """Return whose object this is, or None for one that no kubelet made."""
    uid = labels.get(POD_UID)
    if not uid:
        return None
    return Identity(
        labels.get(POD_NAME, ""), labels.get(POD_NAMESPACE, ""), uid, labels.get(CONTAINER_NAME, "")
    )


def read_annotations(annotations: Mapping[str, str]) -> Notes:
    """Return what is remembered; a value that can't be read counts as missing."""
    return Notes(
        hash=annotations.get(HASH, ""),
        restart_count=_integer(annotations, RESTART_COUNT) or 0,
        termination_message_path=annotations.get(TERMINATION_MESSAGE_PATH, ""),
        termination_message_policy=annotations.get(TERMINATION_MESSAGE_POLICY, ""),
        pod_termination_grace=_integer(annotations, POD_TERMINATION_GRACE),
        pod_deletion_grace=_integer(annotations, POD_DELETION_GRACE),
        pre_stop=_pre_stop(annotations.get(PRE_STOP, "")),
        ports=_ports(annotations.get(PORTS, "")),
    )


def _integer(annotations: Mapping[str, str], key: str) -> int | None:
    try:
        return int(annotations[key])
    except (KeyError, ValueError):
        return None


def _pre_stop(text: str) -> LifecycleHandler | None:
    try:
        return msgspec.json.decode(text, type=LifecycleHandler) if text else None
    except msgspec.DecodeError:
        return None


def _ports(text: str) -> tuple[ContainerPort, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[ContainerPort, ...]) if text else ()
    except msgspec.DecodeError:
        return ()
