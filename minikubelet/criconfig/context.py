"""What the pure builders of this room need to know besides the pod.

`NodeContext` is gathered once at start; `ContainerInputs` once for each container that is created,
after its image, volumes and files are there. Everything that needs a file, a clock or the runtime
is found out by the caller and arrives here as a value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from minikubelet.api.pod import Quantity


class ConfigProblem(Exception):
    """The pod's spec can't be turned into a CRI message.

    The text is the kubelet's own: it becomes the message of CreateContainerConfigError. Changing
    the pod (or what it refers to) helps; trying again with the same spec does not.
    """


@dataclass(frozen=True, slots=True)
class NodeContext:
    """The node as its pods see it. Sizes in bytes, periods in microseconds."""

    node_name: str
    node_ips: tuple[str, ...] = ()
    cluster_dns: tuple[str, ...] = ()
    cluster_domain: str = ""
    root_dir: str = "/var/lib/kubelet"
    pod_logs_dir: str = "/var/log/pods"
    log_links_dir: str = "/var/log/containers"
    cgroup_root: str = "/"
    cgroup_driver: str = "cgroupfs"
    """`cgroupfs` or `systemd`."""
    cgroup_version: int = 2
    cgroups_per_qos: bool = True
    memory_capacity: int = 0
    allocatable: Mapping[str, Quantity] = field(default_factory=dict)
    cpu_cfs_quota: bool = True
    cpu_cfs_quota_period_us: int = 100_000
    seccomp_default: bool = False
    pod_pids_limit: int = -1
    single_process_oom_kill: bool = False
    swap_controller: bool = False
    """True when the kernel accounts swap; without it swap fields make runtimes refuse."""
    hugepage_sizes: tuple[int, ...] = ()
    """Sizes the kernel offers, as found below /sys/kernel/mm/hugepages."""
    selinux: bool = False
    """True when SELinux is enabled: files made for a container are labelled for it."""
    recursive_read_only_handlers: frozenset[str] = frozenset()
    """Runtime handlers (`""` is the default one) that can mount read-only recursively."""
    extra_masked_paths: tuple[str, ...] = ()
    """Existing /sys/devices/system/cpu/cpuN/thermal_throttle folders."""


@dataclass(frozen=True, slots=True)
class MountedVolume:
    """A volume ready on the node. `kind` is the plugin's name (`kubernetes.io/host-path`)."""

    name: str
    host_path: str
    read_only: bool = False
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ImageInfo:
    """What the runtime told about an image: its reference and its USER, numeric or by name."""

    ref: str
    uid: int | None = None
    username: str = ""
    user_specified: str = ""
    """The image as the spec names it."""


@dataclass(frozen=True, slots=True)
class ContainerInputs:
    """What one creation of a container needs from the outside world."""

    image: ImageInfo
    restart_count: int = 0
    pod_ips: tuple[str, ...] = ()
    host_ips: tuple[str, ...] = ()
    volumes: Mapping[str, MountedVolume] = field(default_factory=dict)
    subpaths: Mapping[int, str] = field(default_factory=dict)
    """Prepared host paths of the mounts that have a subPath, by their index in volumeMounts."""
    hosts_path: str = ""
    """The pod's hosts file on the node; empty: none is mounted."""
    termination_log_path: str = ""
    """The termination message file on the node; empty: none is mounted."""
    target_container_id: str = ""
    """For an ephemeral container: whose processes it sees."""
    runtime_handler: str = ""
    service_env: Mapping[str, str] = field(default_factory=dict)
    config_maps: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    """The ConfigMaps that variables come from, by name; None for one that doesn't exist."""
    secrets: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    """The same for Secrets, decoded."""
