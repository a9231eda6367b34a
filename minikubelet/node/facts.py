"""What the Node object is made from: values of the configuration, the machine and the runtime."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint to register with."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What the configuration says of the node. Periods in seconds."""

    name: str
    hostname: str
    node_ips: tuple[str, ...]
    """Addresses of the node, the primary one first; empty: not known yet."""
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    provider_id: str = ""
    external_cloud: bool = False
    register: bool = True
    attach_detach: bool = True
    max_pods: int = 110
    reserved: Sequence[Mapping[str, str]] = ()
    """kubeReserved, systemReserved: what pods can't have."""
    eviction_hard: Mapping[str, str] = field(default_factory=dict)
    """Thresholds by signal (`memory.available`: `100Mi` or `10%`): kept free, too."""
    max_images: int = 50
    port: int = 10250
    version: str = ""
    """The Kubernetes version that the node behaves as (`v1.36.0`)."""
    status_update_frequency: float = 10.0
    status_report_frequency: float = 300.0
    lease_duration: int = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineFacts:
    """What the machine is. Sizes in bytes."""

    architecture: str
    """By Go's name: amd64, arm64."""
    cpus: int
    memory: int
    disk: int
    hugepages: Mapping[int, int] = field(default_factory=dict)
    """Reserved bytes by page size."""
    swap: int = 0
    machine_id: str = ""
    system_uuid: str = ""
    boot_id: str = ""
    kernel_version: str = ""
    os_image: str = ""


@dataclass(frozen=True, slots=True)
class Handler:
    """A runtime handler (the name of the default one is empty) and what it can do."""

    name: str
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class NodeImage:
    """An image on the node: its names, and its size in bytes."""

    names: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class RuntimeFacts:
    """What the container runtime told last. `problems` are the reasons why the node isn't ready."""

    version: str = ""
    """As in `containerd://2.1.4`."""
    handlers: tuple[Handler, ...] = ()
    supplemental_groups_policy: bool | None = None
    problems: tuple[str, ...] = ()
    images: tuple[NodeImage, ...] = ()
