"""A node in memory: registry, cache and monitor on the fake runtime, on simulated time."""

import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import msgspec
import trio
import trio.testing
from anyio.abc import TaskGroup

from minikubelet.api.pod import Container, HTTPGetAction, Pod
from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.cri import messages as m
from minikubelet.cri.execs import Execs
from minikubelet.cri.fake import FakeRuntime
from minikubelet.cri.faults import Faults, parse
from minikubelet.cri.services import ImageService, RuntimeEvents, RuntimeService
from minikubelet.criconfig.context import MountedVolume, NodeContext
from minikubelet.criconfig.dns import ResolvConf
from minikubelet.criconfig.resources import CgroupResources
from minikubelet.host.clock import Clock
from minikubelet.images.manager import ImageManager
from minikubelet.images.policy import ImageSettings
from minikubelet.observe.events import Journal
from minikubelet.observe.timeline import Timeline
from minikubelet.pleg.cache import PodCache
from minikubelet.pleg.monitor import Monitor
from minikubelet.pods.kit import Kit, Limits, Statuses
from minikubelet.pods.placement import NodeView
from minikubelet.pods.registry import Registry
from minikubelet.pods.worker import Worker
from minikubelet.probes.exec import ExecProber
from minikubelet.probes.manager import ProbeManager
from minikubelet.probes.prober import NodeProber
from minikubelet.state.directory import StateDirectory
from minikubelet.state.pods import PodMemories
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.manager import VolumeManager


@dataclass
class PlainVolumes:
    """Volumes that are only names; `problem` makes them fail, `gate` holds them up."""

    pods: Path
    problem: str = ""
    gate: anyio.Event | None = None
    setups: list[float] = field(default_factory=list)
    """When a setup was asked for."""
    torn_down: list[str] = field(default_factory=list)
    stuck: str = ""
    """Why a teardown fails."""

    async def setup(self, pod: Pod) -> Mapping[str, MountedVolume]:
        self.setups.append(anyio.current_time())
        if self.gate is not None:
            await self.gate.wait()
        if self.problem:
            raise VolumeError(self.problem)
        return {v.name: MountedVolume(v.name, f"/volumes/{v.name}") for v in pod.spec.volumes}

    async def subpaths(
        self,
        pod: Pod,
        container: Container,
        paths: Mapping[int, str],
        volumes: Mapping[str, MountedVolume],
    ) -> Mapping[int, str]:
        return {index: f"/subpaths/{path}" for index, path in paths.items()}

    async def teardown(self, uid: str) -> None:
        if self.stuck:
            raise VolumeError(self.stuck)
        self.torn_down.append(uid)

    async def stale_pods(self) -> list[str]:
        return await VolumeManager(str(self.pods.parent)).stale_pods()


@dataclass
class PlainCgroups:
    """Cgroups that are only names."""

    paths: set[str] = field(default_factory=set)

    async def ensure(self, path: str, resources: CgroupResources) -> None:
        self.paths.add(path)

    async def remove(self, path: str) -> None:
        self.paths.discard(path)

    def list_children(self, path: str) -> list[str]:
        return [p.removeprefix(f"{path}/") for p in self.paths if p.startswith(f"{path}/")]


@dataclass(frozen=True)
class SimulatedClock:
    """Time of the event loop; the wall clock is the fake runtime's."""

    fake: FakeRuntime

    def monotonic(self) -> float:
        return anyio.current_time()

    def wall_ns(self) -> int:
        return self.fake.now_ns()


class NoHTTP:
    """A network without anyone."""

    async def http_get(
        self, pod: Pod, container: Container, action: HTTPGetAction, pod_ip: str
    ) -> None:
        raise ConnectionRefusedError("connection refused")


@dataclass
class Node:
    """The parts that tests reach for."""

    fake: FakeRuntime
    kit: Kit
    registry: Registry
    monitor: Monitor

    @property
    def journal(self) -> Journal:
        assert isinstance(self.kit.events, Journal)
        return self.kit.events

    @property
    def volumes(self) -> PlainVolumes:
        assert isinstance(self.kit.volumes, PlainVolumes)
        return self.kit.volumes

    @property
    def cgroups(self) -> PlainCgroups:
        assert isinstance(self.kit.cgroups, PlainCgroups)
        return self.kit.cgroups

    def worker(self, uid: str = "uid-1") -> Worker:
        found = self.registry.worker(uid)
        assert found is not None, f"no worker for {uid}"
        return found

    def status(self, uid: str = "uid-1") -> PodStatus:
        return self.worker(uid).status_now()

    def add(self, pod: Pod, source: str = "file") -> None:
        raw: dict[str, Any] = msgspec.to_builtins(pod)
        self.registry.add(PodRecord(pod, raw, f"/manifests/{pod.metadata.name}.yaml"), source)

    def reasons(self) -> list[str]:
        return [event.reason for event in self.journal.all()]


class Crash(BaseException):
    """The agent dies here and now."""


def _crash() -> None:
    raise Crash


async def _no_message(_status: m.ContainerStatus) -> str:
    return ""


async def _resolv_conf() -> ResolvConf:
    return ResolvConf(("10.0.0.10",))


async def _network_fine() -> str:
    return ""


def a_kit(  # noqa: PLR0913  each by name
    tmp_path: Path,
    runtime: RuntimeService,
    images: ImageService,
    clock: Clock,
    *,
    limits: Limits,
    allocatable: Mapping[str, str],
    cgroup_root: str = "/",
    cgroup_version: int = 2,
) -> Kit:
    """What workers need, with plain stand-ins for the node's own parts."""
    journal = Journal(clock.wall_ns)
    return Kit(
        runtime=runtime,
        execs=Execs(runtime),
        cache=PodCache(runtime, clock, _no_message),
        images=ImageManager(images, journal, clock, ImageSettings()),
        volumes=PlainVolumes(tmp_path / "pods"),
        cgroups=PlainCgroups(),
        hooks=NoHTTP(),
        events=journal,
        timeline=Timeline(clock.wall_ns),
        clock=clock,
        memories=PodMemories(StateDirectory(tmp_path / "minikubelet")),
        node=NodeContext(
            "node1",
            node_ips=("192.0.2.1",),
            root_dir=str(tmp_path),
            pod_logs_dir=str(tmp_path / "logs"),
            log_links_dir=str(tmp_path / "links"),
            cgroup_root=cgroup_root,
            cgroup_version=cgroup_version,
            memory_capacity=1 << 30,
            allocatable=allocatable,
        ),
        limits=limits,
        runtime_name="fake",
        resolv_conf=_resolv_conf,
        host_ips=("192.0.2.1",),
        node_view=lambda: NodeView("node1", {"kubernetes.io/os": "linux"}),
        random=lambda: 0.0,
        network_problem=_network_fine,
    )


@asynccontextmanager
async def a_node(
    tmp_path: Path,
    fake: FakeRuntime,
    *,
    limits: Limits | None = None,
    allocatable: Mapping[str, str] | None = None,
    desired: tuple[Pod, ...] | None = None,
    faults: str = "",
    statuses: Statuses | None = None,
) -> AsyncIterator[Node]:
    """A running node; leaving it is a crash of the agent: the fake runtime stays.

    `desired` is what the sources say at start (None: nothing yet); `faults` are fault points, at
    which `Crash` ends everything.
    """
    runtime = Faults(parse(faults)[0], kill=_crash).wrap(fake) if faults else fake
    kit = a_kit(
        tmp_path,
        runtime,
        fake.images,
        SimulatedClock(fake),
        limits=limits or Limits(),
        allocatable=allocatable or {"cpu": "4", "memory": "1Gi", "pods": "110"},
    )
    if statuses is not None:
        kit = replace(kit, statuses=statuses)
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        node = await assemble(group, fake, kit, (fake,))
        node.registry.resume_terminations()
        for pod in desired or ():
            node.add(pod)
        if desired is not None:
            node.registry.end_unwanted()
        yield node
        group.cancel_scope.cancel()


async def jump() -> None:
    """Move the simulated clock on whenever nothing can happen before the next deadline.

    Trio's own autojump doesn't know of threads: it would let minutes pass during a file's write.
    """
    clock = trio.lowlevel.current_clock()
    assert isinstance(clock, trio.testing.MockClock)
    default = trio.to_thread.current_default_thread_limiter()
    own = trio.CapacityLimiter(1)
    while True:
        await trio.testing.wait_all_tasks_blocked()
        if default.borrowed_tokens:
            await trio.to_thread.run_sync(time.sleep, 0.0005, limiter=own)
            continue
        pause = trio.lowlevel.current_statistics().seconds_to_next_deadline
        assert pause < float("inf"), "nothing will ever happen again"
        clock.jump(max(0.0, pause))


async def assemble(
    group: TaskGroup, fake: FakeRuntime, kit: Kit, streams: Sequence[RuntimeEvents]
) -> Node:
    """Plug registry, monitor and probes to a kit and start them."""
    probes = ProbeManager(
        NodeProber(ExecProber(kit.execs, lambda _pod, _id: ())),
        kit.events,
        kit.clock,
        kit.random,
        on_result=lambda uid: registry.runtime_changed(uid),  # noqa: PLW0108  made below
    )
    kit = replace(kit, probes=probes)
    registry = Registry(kit, group, await kit.memories.load())
    monitor = Monitor(
        kit.cache,
        streams,
        kit.clock,
        on_change=registry.runtime_changed,
        on_health=registry.wake_all,
        on_exec_exit=kit.execs.exited,
    )
    await group.start(monitor.run)
    await group.start(probes.run)
    return Node(fake, kit, registry, monitor)


async def eventually(condition: Any, seconds: float = 60.0) -> None:
    """Wait (in simulated time) until a condition holds; says which one did not."""
    pause = 0.01
    with anyio.move_on_after(seconds):
        while not condition():
            await anyio.sleep(pause)
            pause = min(pause * 1.1, 0.25)
        return
    assert condition(), "the condition never came true"
