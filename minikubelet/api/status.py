"""PodStatus: what the agent tells about a pod. Computed by `lifecycle`, never edited in place."""

from typing import Any

from minikubelet.api.base import APIStruct


class ContainerStateRunning(APIStruct, frozen=True):
    """The container's process runs."""

    started_at: str | None = None


class ContainerStateTerminated(APIStruct, frozen=True):
    """The container's process has ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = ""


class ContainerStateWaiting(APIStruct, frozen=True):
    """The container isn't started; reason is one of the kubelet's (pod-lifecycle facts 3.11)."""

    reason: str = ""
    message: str = ""


class ContainerState(APIStruct, frozen=True):
    """At most one member is set; none means waiting."""

    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None
    waiting: ContainerStateWaiting | None = None


class ContainerStatus(APIStruct, frozen=True):
    """State of one container of the spec."""

    name: str = ""
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    ready: bool = False
    restart_count: int = 0
    image: str = ""
    image_id: str = ""
    container_id: str = ""
    started: bool | None = None
    allocated_resources: Any = None
    resources: Any = None
    volume_mounts: tuple[Any, ...] = ()
    user: Any = None
    allocated_resources_status: tuple[Any, ...] = ()
    stop_signal: str | None = None


class PodCondition(APIStruct, frozen=True):
    """One condition; lastTransitionTime moves only when `status` changes."""

    type: str = ""
    status: str = ""
    observed_generation: int = 0
    reason: str = ""
    message: str = ""
    last_probe_time: str | None = None
    last_transition_time: str | None = None


class PodIP(APIStruct, frozen=True):
    """An address of the pod or its host."""

    ip: str = ""


class PodStatus(APIStruct, frozen=True):
    """State of the pod."""

    phase: str = ""
    observed_generation: int = 0
    conditions: tuple[PodCondition, ...] = ()
    message: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    host_ip: str = ""
    host_ips: tuple[PodIP, ...] = ()
    pod_ip: str = ""
    pod_ips: tuple[PodIP, ...] = ()
    start_time: str | None = None
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    qos_class: str = ""
    resize: str = ""
    resource_claim_statuses: tuple[Any, ...] = ()
    extended_resource_claim_status: Any = None
    allocated_resources: Any = None
    resources: Any = None
    node_allocatable_resource_claim_statuses: tuple[Any, ...] = ()
