"""What every worker works with: the runtime and the rooms beside it, plugged in by `agent`."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from minikubelet.api.pod import Container, HTTPGetAction, Pod
from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.cri.execs import Execs
from minikubelet.cri.services import RuntimeService
from minikubelet.criconfig.context import ConfigProblem, MountedVolume, NodeContext
from minikubelet.criconfig.dns import ResolvConf
from minikubelet.criconfig.resources import CgroupResources
from minikubelet.host.clock import Clock
from minikubelet.images.manager import ImageManager
from minikubelet.lifecycle.probes import NO_PROBES, ProbeResults
from minikubelet.observe.events import EventSink
from minikubelet.observe.timeline import Timeline
from minikubelet.pleg.cache import PodCache
from minikubelet.pods.placement import NodeView
from minikubelet.state.pods import PodMemories


class Volumes(Protocol):
    """Mounts and unmounts."""

    async def setup(self, pod: Pod) -> Mapping[str, MountedVolume]:
        """Make all volumes of a pod complete; idempotent. Raises volumes.VolumeError."""

    async def subpaths(
        self,
        pod: Pod,
        container: Container,
        paths: Mapping[int, str],
        volumes: Mapping[str, MountedVolume],
    ) -> Mapping[int, str]:
        """Prepare the subPath mounts of a container, by mount index. Raises volumes.VolumeError."""

    async def teardown(self, uid: str) -> None:
        """Unmount and remove all of a pod's volumes. Raises volumes.VolumeError."""

    async def stale_pods(self) -> list[str]:
        """Return the uids that have a folder on disk."""


class PodCgroups(Protocol):
    """The cgroups that the agent itself makes."""

    async def ensure(self, path: str, resources: CgroupResources) -> None:
        """Make the pod's cgroup, its parents included. Raises OSError."""

    async def remove(self, path: str) -> None:
        """Remove it with whatever is left below. Raises OSError."""

    def list_children(self, path: str) -> list[str]:
        """Return the names of the cgroups directly below."""


class Hooks(Protocol):
    """Runs lifecycle hooks."""

    async def http_get(
        self, pod: Pod, container: Container, action: HTTPGetAction, pod_ip: str
    ) -> None:
        """Make a hook's request. Raises OSError with the transport error's text."""


class Probes(Protocol):
    """Probes containers; it reports, others act. No call blocks."""

    def add(self, pod: Pod, remembered: PodStatus) -> ProbeResults:
        """Take a pod on; return its results, which are kept up to date from now on.

        `remembered` is what was last told of it before the agent's start.
        """

    def observe(self, uid: str, status: PodStatus, held: Collection[str]) -> None:
        """Take a pod's newest status; `held` are ids of containers whose postStart hook runs."""

    def ending(self, uid: str) -> None:
        """Stop what could restart containers of a pod that is to end."""

    def remove(self, uid: str) -> None:
        """Drop a pod. Idempotent."""


class NobodyProbes:
    """A node without probers: probes gate nothing."""

    def add(self, pod: Pod, remembered: PodStatus) -> ProbeResults:  # noqa: ARG002  Probes' own
        """Return no results, for ever."""
        return NO_PROBES

    def observe(self, uid: str, status: PodStatus, held: Collection[str]) -> None:
        """Do nothing."""

    def ending(self, uid: str) -> None:
        """Do nothing."""

    def remove(self, uid: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class EnvObjects:
    """What a container's variables come from, as `ContainerInputs` takes it."""

    config_maps: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    secrets: Mapping[str, Mapping[str, str] | None] = field(default_factory=dict)
    services: Mapping[str, str] = field(default_factory=dict)


class PodObjects(Protocol):
    """The API objects that pods use."""

    def use(self, pod: Pod) -> None:
        """Keep what a pod refers to at hand from now on."""

    def forget(self, uid: str) -> None:
        """Drop what only a pod that is gone used."""

    async def env(self, pod: Pod, container: Container) -> EnvObjects:
        """Return what the variables come from. Raises criconfig.context.ConfigProblem."""

    async def runtime_handler(self, pod: Pod) -> str:
        """Return the handler of the pod's RuntimeClass, empty for the default one.

        Raises criconfig.context.ConfigProblem.
        """

    def renewal_in(self, uid: str) -> float | None:
        """Return the seconds until a token of the pod is due; None when it has none."""


class NoObjects:
    """A node without an apiserver: what a pod refers to is refused by name where it is needed."""

    def use(self, pod: Pod) -> None:
        """Do nothing."""

    def forget(self, uid: str) -> None:
        """Do nothing."""

    async def env(self, pod: Pod, container: Container) -> EnvObjects:  # noqa: ARG002  as the Protocol
        """Return nothing: a variable that needs an object says so."""
        return EnvObjects()

    async def runtime_handler(self, pod: Pod) -> str:
        """Return the default handler; a RuntimeClass can't be looked up."""
        name = pod.spec.runtime_class_name
        if name:
            raise ConfigProblem(
                f'failed to get sandbox runtime: RuntimeClass "{name}" not found: this node has no '
                "apiserver; remove spec.runtimeClassName"
            )
        return ""

    def renewal_in(self, uid: str) -> float | None:  # noqa: ARG002  as the Protocol
        """Return None: there are no tokens."""
        return None


class Statuses(Protocol):
    """Tells the apiserver; on a node without one nobody listens. No call blocks."""

    def known(self, record: PodRecord, *, static: bool) -> None:
        """Take a pod that has a worker from now on."""

    def tell(self, record: PodRecord, status: PodStatus, *, static: bool) -> None:
        """Take a pod's newest status, or news of its object."""

    def finished(self, record: PodRecord) -> None:
        """Say that of a pod nothing is left on the node but what is remembered."""

    def forget(self, uid: str) -> None:
        """Drop a pod that has no object any more."""


class NobodyListens:
    """The statuses of a node without an apiserver: each is computed when somebody asks."""

    def known(self, record: PodRecord, *, static: bool) -> None:
        """Do nothing."""

    def tell(self, record: PodRecord, status: PodStatus, *, static: bool) -> None:
        """Do nothing."""

    def finished(self, record: PodRecord) -> None:
        """Do nothing."""

    def forget(self, uid: str) -> None:
        """Do nothing."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What admission and restarts go by."""

    max_pods: int = 110
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    kernel_version: tuple[int, int] = (6, 0)
    app_armor: bool = False
    """True when the kernel enforces AppArmor profiles."""
    max_restart_delay: float = 300.0
    sync_frequency: float = 60.0


@dataclass(frozen=True, slots=True)
class Kit:
    """The tools of all workers."""

    runtime: RuntimeService
    execs: Execs
    cache: PodCache
    images: ImageManager
    volumes: Volumes
    cgroups: PodCgroups
    hooks: Hooks
    events: EventSink
    timeline: Timeline
    clock: Clock
    memories: PodMemories
    node: NodeContext
    limits: Limits
    runtime_name: str
    resolv_conf: Callable[[], Awaitable[ResolvConf | None]]
    host_ips: tuple[str, ...]
    node_view: Callable[[], NodeView]
    """The Node object's labels and taints at this moment."""
    random: Callable[[], float]
    """A number in [0, 1): spreads retries."""
    network_problem: Callable[[], Awaitable[str]]
    """Says why the runtime's network isn't ready; empty when it is."""
    probes: Probes = field(default_factory=NobodyProbes)
    objects: PodObjects = field(default_factory=NoObjects)
    statuses: Statuses = field(default_factory=NobodyListens)
    ready_cgroups: set[str] = field(default_factory=set)
    """QoS cgroups that were set up since the start."""
