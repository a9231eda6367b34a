"""The Pod: every field of v1 PodSpec as of 1.36, typed where the agent reads it.

Fields the agent only refuses or reports by name are kept as raw values (`Any`), so that an unknown
field is one that no apiserver knows either. Source: k8s.io/api/core/v1/types.go.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from minikubelet.api.base import APIStruct
from minikubelet.api.meta import ObjectMeta
from minikubelet.api.status import PodStatus

Quantity = str | int | float
IntOrString = int | str


class ObjectFieldSelector(APIStruct, frozen=True):
    """A field of the pod itself."""

    field_path: str = ""
    api_version: str = ""


class ResourceFieldSelector(APIStruct, frozen=True):
    """A resource of a container."""

    resource: str = ""
    container_name: str = ""
    divisor: Quantity | None = None


class KeySelector(APIStruct, frozen=True):
    """One key of a ConfigMap or Secret."""

    key: str = ""
    name: str = ""
    optional: bool | None = None


class FileKeySelector(APIStruct, frozen=True):
    """One variable of an env file inside a volume (gate EnvFiles)."""

    volume_name: str = ""
    path: str = ""
    key: str = ""
    optional: bool | None = None


class EnvVarSource(APIStruct, frozen=True):
    """Where a variable's value comes from; exactly one is set."""

    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    config_map_key_ref: KeySelector | None = None
    secret_key_ref: KeySelector | None = None
    file_key_ref: FileKeySelector | None = None


class EnvVar(APIStruct, frozen=True):
    """One environment variable."""

    name: str = ""
    value: str = ""
    value_from: EnvVarSource | None = None


class EnvSource(APIStruct, frozen=True):
    """The name of a ConfigMap or Secret whose keys become variables."""

    name: str = ""
    optional: bool | None = None


class EnvFromSource(APIStruct, frozen=True):
    """All keys of an object as variables."""

    prefix: str = ""
    config_map_ref: EnvSource | None = None
    secret_ref: EnvSource | None = None


class ContainerPort(APIStruct, frozen=True):
    """A port the container listens on; hostPort publishes it."""

    container_port: int = 0
    name: str = ""
    host_port: int = 0
    protocol: str = ""
    host_ip: str = ""


class VolumeMount(APIStruct, frozen=True):
    """A volume made visible inside a container."""

    name: str = ""
    mount_path: str = ""
    read_only: bool = False
    recursive_read_only: str | None = None
    sub_path: str = ""
    sub_path_expr: str = ""
    mount_propagation: str | None = None


class VolumeDevice(APIStruct, frozen=True):
    """A block volume made visible inside a container."""

    name: str = ""
    device_path: str = ""


class ResourceRequirements(APIStruct, frozen=True):
    """Requests and limits by resource name; quantities as written."""

    limits: Mapping[str, Quantity] = {}
    requests: Mapping[str, Quantity] = {}
    claims: tuple[Any, ...] = ()


class ExecAction(APIStruct, frozen=True):
    """A command run inside the container, without a shell."""

    command: tuple[str, ...] = ()


class HTTPHeader(APIStruct, frozen=True):
    """A request header."""

    name: str = ""
    value: str = ""


class HTTPGetAction(APIStruct, frozen=True):
    """A GET request from the node."""

    port: IntOrString = 0
    path: str = ""
    host: str = ""
    scheme: str = ""
    http_headers: tuple[HTTPHeader, ...] = ()


class TCPSocketAction(APIStruct, frozen=True):
    """A TCP connection from the node."""

    port: IntOrString = 0
    host: str = ""


class GRPCAction(APIStruct, frozen=True):
    """A grpc.health.v1 Check from the node."""

    port: int = 0
    service: str | None = None


class SleepAction(APIStruct, frozen=True):
    """Wait that many seconds."""

    seconds: int = 0


class LifecycleHandler(APIStruct, frozen=True):
    """A hook; exactly one action is set."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    sleep: SleepAction | None = None


class Lifecycle(APIStruct, frozen=True):
    """A container's hooks."""

    post_start: LifecycleHandler | None = None
    pre_stop: LifecycleHandler | None = None
    stop_signal: str | None = None


class Probe(APIStruct, frozen=True):
    """A check repeated on a schedule; durations in seconds."""

    exec: ExecAction | None = None
    http_get: HTTPGetAction | None = None
    tcp_socket: TCPSocketAction | None = None
    grpc: GRPCAction | None = None
    initial_delay_seconds: int = 0
    timeout_seconds: int = 1
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3
    termination_grace_period_seconds: int | None = None


class SELinuxOptions(APIStruct, frozen=True):
    """SELinux context."""

    user: str = ""
    role: str = ""
    type: str = ""
    level: str = ""


class SeccompProfile(APIStruct, frozen=True):
    """RuntimeDefault, Unconfined or Localhost with a profile below the seccomp root."""

    type: str = ""
    localhost_profile: str | None = None


class AppArmorProfile(APIStruct, frozen=True):
    """As SeccompProfile, for AppArmor."""

    type: str = ""
    localhost_profile: str | None = None


class Capabilities(APIStruct, frozen=True):
    """Capabilities added to and dropped from the runtime's default set, without CAP_."""

    add: tuple[str, ...] = ()
    drop: tuple[str, ...] = ()


class SecurityContext(APIStruct, frozen=True):
    """A container's security settings; set fields win over the pod's."""

    capabilities: Capabilities | None = None
    privileged: bool | None = None
    se_linux_options: SELinuxOptions | None = None
    windows_options: Any = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    read_only_root_filesystem: bool | None = None
    allow_privilege_escalation: bool | None = None
    proc_mount: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None


class Sysctl(APIStruct, frozen=True):
    """A kernel parameter of the pod's namespaces."""

    name: str = ""
    value: str = ""


class PodSecurityContext(APIStruct, frozen=True):
    """Security settings of the pod, inherited by its containers."""

    se_linux_options: SELinuxOptions | None = None
    windows_options: Any = None
    run_as_user: int | None = None
    run_as_group: int | None = None
    run_as_non_root: bool | None = None
    supplemental_groups: tuple[int, ...] = ()
    supplemental_groups_policy: str | None = None
    fs_group: int | None = None
    sysctls: tuple[Sysctl, ...] = ()
    fs_group_change_policy: str | None = None
    seccomp_profile: SeccompProfile | None = None
    app_armor_profile: AppArmorProfile | None = None
    se_linux_change_policy: str | None = None


class ContainerRestartRuleOnExitCodes(APIStruct, frozen=True):
    """Matches an exit code: operator In or NotIn."""

    operator: str = ""
    values: tuple[int, ...] = ()


class ContainerRestartRule(APIStruct, frozen=True):
    """What happens on a matching exit: Restart or RestartAllContainers."""

    action: str = ""
    exit_codes: ContainerRestartRuleOnExitCodes | None = None


class ContainerResizePolicy(APIStruct, frozen=True):
    """Whether resizing a resource restarts the container."""

    resource_name: str = ""
    restart_policy: str = ""


class Container(APIStruct, frozen=True):
    """A container; init containers and (with target) ephemeral ones have the same shape."""

    name: str = ""
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    ports: tuple[ContainerPort, ...] = ()
    env_from: tuple[EnvFromSource, ...] = ()
    env: tuple[EnvVar, ...] = ()
    resources: ResourceRequirements = ResourceRequirements()
    resize_policy: tuple[ContainerResizePolicy, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()
    volume_mounts: tuple[VolumeMount, ...] = ()
    volume_devices: tuple[VolumeDevice, ...] = ()
    liveness_probe: Probe | None = None
    readiness_probe: Probe | None = None
    startup_probe: Probe | None = None
    lifecycle: Lifecycle | None = None
    termination_message_path: str = ""
    termination_message_policy: str = ""
    image_pull_policy: str = ""
    security_context: SecurityContext | None = None
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    target_container_name: str = ""

    @property
    def is_sidecar(self) -> bool:
        """True for an init container that keeps running beside the regular ones (KEP-753)."""
        return self.restart_policy == "Always"


class EmptyDirVolumeSource(APIStruct, frozen=True):
    """A folder that lives as long as the pod; medium Memory is a tmpfs."""

    medium: str = ""
    size_limit: Quantity | None = None


class HostPathVolumeSource(APIStruct, frozen=True):
    """A path of the node."""

    path: str = ""
    type: str | None = None


class DownwardAPIVolumeFile(APIStruct, frozen=True):
    """One file of a downwardAPI volume."""

    path: str = ""
    field_ref: ObjectFieldSelector | None = None
    resource_field_ref: ResourceFieldSelector | None = None
    mode: int | None = None


class DownwardAPIVolumeSource(APIStruct, frozen=True):
    """Pod fields as files."""

    items: tuple[DownwardAPIVolumeFile, ...] = ()
    default_mode: int | None = None


class Volume(APIStruct, frozen=True):
    """A volume: exactly one source is set. Sources kept raw aren't mounted by this agent yet."""

    name: str = ""
    empty_dir: EmptyDirVolumeSource | None = None
    host_path: HostPathVolumeSource | None = None
    downward_api: DownwardAPIVolumeSource | None = None
    config_map: Any = None
    secret: Any = None
    projected: Any = None
    persistent_volume_claim: Any = None
    ephemeral: Any = None
    csi: Any = None
    nfs: Any = None
    iscsi: Any = None
    fc: Any = None
    image: Any = None
    git_repo: Any = None
    glusterfs: Any = None
    rbd: Any = None
    flex_volume: Any = None
    cinder: Any = None
    cephfs: Any = None
    flocker: Any = None
    azure_file: Any = None
    azure_disk: Any = None
    vsphere_volume: Any = None
    quobyte: Any = None
    portworx_volume: Any = None
    scale_io: Any = None
    storageos: Any = None
    photon_persistent_disk: Any = None
    aws_elastic_block_store: Any = None
    gce_persistent_disk: Any = None


class HostAlias(APIStruct, frozen=True):
    """Extra lines of the pod's /etc/hosts."""

    ip: str = ""
    hostnames: tuple[str, ...] = ()


class PodDNSConfigOption(APIStruct, frozen=True):
    """A resolver option."""

    name: str = ""
    value: str | None = None


class PodDNSConfig(APIStruct, frozen=True):
    """Merged over what dnsPolicy gives."""

    nameservers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[PodDNSConfigOption, ...] = ()


class LocalObjectReference(APIStruct, frozen=True):
    """An object of the pod's namespace."""

    name: str = ""


class Toleration(APIStruct, frozen=True):
    """A taint the pod tolerates."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class PodReadinessGate(APIStruct, frozen=True):
    """A foreign condition that Ready waits for."""

    condition_type: str = ""


class PodOS(APIStruct, frozen=True):
    """The operating system the pod is made for."""

    name: str = ""


class PodSpec(APIStruct, frozen=True):
    """What the pod should be."""

    volumes: tuple[Volume, ...] = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    restart_policy: str = ""
    termination_grace_period_seconds: int | None = None
    active_deadline_seconds: int | None = None
    dns_policy: str = ""
    node_selector: Mapping[str, str] = {}
    service_account_name: str = ""
    service_account: str = ""
    automount_service_account_token: bool | None = None
    node_name: str = ""
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_process_namespace: bool | None = None
    security_context: PodSecurityContext | None = None
    image_pull_secrets: tuple[LocalObjectReference, ...] = ()
    hostname: str = ""
    subdomain: str = ""
    affinity: Any = None
    scheduler_name: str = ""
    tolerations: tuple[Toleration, ...] = ()
    host_aliases: tuple[HostAlias, ...] = ()
    priority_class_name: str = ""
    priority: int | None = None
    dns_config: PodDNSConfig | None = None
    readiness_gates: tuple[PodReadinessGate, ...] = ()
    runtime_class_name: str | None = None
    enable_service_links: bool | None = None
    preemption_policy: str | None = None
    overhead: Mapping[str, Quantity] = {}
    topology_spread_constraints: tuple[Any, ...] = ()
    set_hostname_as_fqdn: bool | None = msgspec.field(default=None, name="setHostnameAsFQDN")
    os: PodOS | None = None
    host_users: bool | None = None
    scheduling_gates: tuple[Any, ...] = ()
    resource_claims: tuple[Any, ...] = ()
    resources: ResourceRequirements | None = None
    hostname_override: str | None = None
    scheduling_group: Any = None


class Pod(APIStruct, frozen=True):
    """A pod: identity, wish and state."""

    api_version: str = "v1"
    kind: str = "Pod"
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def full_name(self) -> str:
        """`name_namespace`: unique among a node's static pods (kubelet: container/helpers.go)."""
        return f"{self.metadata.name}_{self.metadata.namespace}"

    @property
    def description(self) -> str:
        """`name_namespace(uid)`: how the kubelet's messages name a pod."""
        return f"{self.full_name}({self.metadata.uid})"

    def all_containers(self) -> Iterator[Container]:
        """Yield init, regular and ephemeral containers in spec order."""
        yield from self.spec.init_containers
        yield from self.spec.containers
        yield from self.spec.ephemeral_containers

    def containers_with_paths(self) -> Iterator[tuple[str, Container]]:
        """Yield every container with its field path (`spec.initContainers[0]`), in spec order."""
        groups = (
            ("initContainers", self.spec.init_containers),
            ("containers", self.spec.containers),
            ("ephemeralContainers", self.spec.ephemeral_containers),
        )
        for name, containers in groups:
            for index, container in enumerate(containers):
                yield f"spec.{name}[{index}]", container
