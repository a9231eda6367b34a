"""The composition root: each part is built from `Config` here and plugged to the others.

Owns the one root task group and the order of start and stop: the local API first (so that a person
can ask why nothing runs yet), then the runtime's first answer, then recovery, then the sources.
Stopping the agent stops no pod. Decides nothing about pods.
"""

import random
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from minikubelet.agent.health import HealthChecks
from minikubelet.agent.kit import Parts, build_kit
from minikubelet.agent.logs import LogReader
from minikubelet.agent.node import machine_facts, node_addresses, node_settings
from minikubelet.agent.parts import configured, node_prober, static_sources
from minikubelet.agent.runtime import first_answer, with_faults
from minikubelet.agent.streams import StreamFinder
from minikubelet.agent.views import find_pod, manifest_list, pod_list
from minikubelet.api.pod import Pod
from minikubelet.config.config import Config
from minikubelet.config.effective import configz
from minikubelet.cri.client import Timeouts, connect
from minikubelet.cri.execs import Execs
from minikubelet.criconfig.context import NodeContext
from minikubelet.host import cgroups
from minikubelet.host.clock import SystemClock
from minikubelet.logs.termination import termination_message
from minikubelet.node.facts import MachineFacts, NodeSettings
from minikubelet.observe import log
from minikubelet.observe.events import Journal
from minikubelet.pleg.cache import PodCache
from minikubelet.pleg.monitor import Monitor
from minikubelet.pods import housekeeping
from minikubelet.pods.kit import Kit
from minikubelet.pods.registry import Registry
from minikubelet.probes.manager import ProbeManager
from minikubelet.server.callables import Callables, LogRequest, NotReady
from minikubelet.server.http import health_api, local_api, serve_port, serve_socket
from minikubelet.sources.updates import SourceSet
from minikubelet.state.directory import StateDirectory
from minikubelet.state.manifests import ManifestStore
from minikubelet.state.pods import PodMemories
from minikubelet.state.services import ServiceMemory
from minikubelet.syncloop import SyncLoop

STATE_FOLDER = "minikubelet"
SOCKET_NAME = "minikubelet.sock"
SWEEP_SECONDS = 300.0
FIRST_SETS_SECONDS = 2.0
SILENT_SECONDS = 5.0
"""A look at a pod takes milliseconds: after so long something is wrong."""

if TYPE_CHECKING:
    from minikubelet.agent.cluster import Cluster

_log = structlog.get_logger("agent")


async def run_agent(config: Config) -> None:
    """Run until SIGTERM or SIGINT."""
    log.set_up(
        verbosity=config.log_verbosity, json_format=True if config.log_format == "json" else None
    )
    async with anyio.create_task_group() as group:
        await group.start(partial(_until_signal, group))
        agent = Agent(config, group)
        await agent.start()


async def _until_signal(group: TaskGroup, *, task_status: Any) -> None:
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        task_status.started()
        async for number in signals:
            _log.info("stopping, the pods keep running", signal=signal.Signals(number).name)
            group.cancel_scope.cancel()
            return


class Agent:
    """All parts of one node agent."""

    def __init__(self, config: Config, group: TaskGroup) -> None:
        self._config = config
        self._group = group
        self._clock = SystemClock()
        root = Path(config.root_dir)
        self._socket = root / SOCKET_NAME
        self._directory = StateDirectory(root / STATE_FOLDER)
        self._memories = PodMemories(self._directory)
        self._client = with_faults(
            connect(
                config.container_runtime_endpoint,
                config.image_service_endpoint,
                Timeouts(request=config.runtime_request_timeout),
            )
        )
        self._journal = Journal(self._clock.wall_ns)
        self._cache = PodCache(self._client.runtime, self._clock, termination_message)
        self._execs = Execs(self._client.runtime)
        self._monitor = Monitor(
            self._cache,
            self._client.events,
            self._clock,
            on_change=self._runtime_changed,
            on_health=self._health_changed,
            on_exec_exit=self._execs.exited,
        )
        self._hierarchies = cgroups.detect()
        self._registry: Registry | None = None
        self._syncloop: SyncLoop | None = None
        self._sources = static_sources(config, ManifestStore(self._directory.root))
        self._cluster: Cluster | None = None
        self._recovered = anyio.Event()
        self._starting = "starting: the pod sources have not been read yet"
        self._logs = LogReader(self._cache.get, self._clock.wall_ns)
        self._streams = StreamFinder(self._client.runtime, self._execs, self._find_pod)
        self._checks = HealthChecks(self._clock)

    async def start(self) -> None:
        """Start all parts in order; they run in the group given at creation."""
        self._check_cgroups()
        await self._start_server()
        # Manifests are read before the runtime answers: what is wrong with them can be seen.
        for source in self._sources:
            await self._group.start(source.run, self._deliver)
        config = self._config
        settings = node_settings(config, await node_addresses(config))
        machine = await anyio.to_thread.run_sync(machine_facts, config.root_dir)
        if config.kubeconfig:
            # A node on its own doesn't pay for what it never uses.
            from minikubelet.agent.cluster import join_cluster  # noqa: PLC0415

            self._cluster = await join_cluster(
                config, settings, machine, self._client, self._clock, self._journal
            )
            self._cluster.objects.services.memory = ServiceMemory(self._directory)
            await self._cluster.start(self._group, self._deliver)
        await self._start_port(settings.node_ips)
        endpoint = config.container_runtime_endpoint
        runtime_name = await first_answer(self._client, endpoint, self._monitor)
        kit = await self._kit(settings, machine, runtime_name)
        registry = Registry(kit, self._group, await self._memories.load())
        self._registry = registry
        self._syncloop = SyncLoop(registry, configured(self._config), self._clock.wall_ns)
        await self._group.start(self._monitor.run)
        registry.resume_terminations()
        self._recovered.set()
        self._group.start_soon(self._sweep, kit, registry, self._syncloop)
        if self._cluster is not None:
            self._cluster.on_mirror = registry.debug_static
            self._cluster.on_object = registry.objects_changed
            self._group.start_soon(self._cluster.adopt_when_silent, self._syncloop)
        if self._sources or self._cluster is not None:
            with anyio.move_on_after(FIRST_SETS_SECONDS):
                # Whoever waits for healthz then sees the pods, too.
                await self._syncloop.all_seen.wait()
        else:
            _log.warning("no pod source is configured: nothing will run")
        self._starting = ""
        _log.info("agent started", node=self._config.node_name, socket=str(self._socket))

    async def _start_server(self) -> None:
        callables = self._callables()
        await self._group.start(serve_socket, local_api(callables), self._socket)
        address, port = self._config.healthz_bind_address, self._config.healthz_port
        if port:
            await self._group.start(serve_port, health_api(callables), address, port)

    async def _start_port(self, addresses: Sequence[str]) -> None:
        """Open the node's own port, where there is somebody to let in."""
        if self._config.server is None:
            return
        # Certificates and reviews cost 10 MiB: a node on its own doesn't pay for them.
        from minikubelet.agent.serving import serve_node_api  # noqa: PLC0415

        cluster = self._cluster
        api = cluster.api if cluster is not None else None
        serving = cluster.serving if cluster is not None else None
        key_pair = serving.key_pair if serving is not None else None
        serve = partial(serve_node_api, self._config, self._config.server, self._callables())
        await self._group.start(serve, api, addresses, key_pair)

    async def _deliver(self, delivered: SourceSet) -> None:
        """Pass a source's set on, once it is known what runs from before."""
        await self._recovered.wait()
        if self._syncloop is not None:
            await self._syncloop.deliver(delivered)

    def _check_cgroups(self) -> None:
        if self._hierarchies.version == 1:
            if self._config.fail_cgroup_v1:
                raise SystemExit(
                    "cannot start: this machine has cgroup v1 and failCgroupV1 is set; set it to "
                    "false in the configuration file to run here"
                )
            _log.warning("cgroup v1 is deprecated, newer kernels and runtimes drop it")

    async def _kit(self, settings: NodeSettings, machine: MachineFacts, runtime_name: str) -> Kit:
        parts = Parts(
            config=self._config,
            settings=settings,
            machine=machine,
            hierarchies=self._hierarchies,
            client=self._client,
            execs=self._execs,
            cache=self._cache,
            journal=self._journal,
            clock=self._clock,
            directory=self._directory,
            memories=self._memories,
            cluster=self._cluster,
        )
        node = await parts.node()
        return await build_kit(parts, node, runtime_name, await self._start_probes(node))

    async def _start_probes(self, node: NodeContext) -> ProbeManager:
        prober = node_prober(self._execs, self._hierarchies, node)
        probes = ProbeManager(
            prober, self._journal, self._clock, random.random, on_result=self._runtime_changed
        )
        await self._group.start(probes.run)
        return probes

    async def _sweep(self, kit: Kit, registry: Registry, syncloop: SyncLoop) -> None:
        await syncloop.all_seen.wait()
        while True:
            await housekeeping.sweep(kit, {worker.uid for worker in registry.workers})
            await anyio.sleep(SWEEP_SECONDS)

    def _runtime_changed(self, uid: str) -> None:
        if self._syncloop is not None:
            self._syncloop.runtime_changed(uid)

    def _health_changed(self) -> None:
        problem = self._monitor.problem
        self._checks.runtime_changed(problem)
        if problem:
            _log.warning("the container runtime is not available", error=problem)
            return
        _log.info("the container runtime is available")
        if self._registry is not None:
            self._registry.wake_all()

    def _problems(self) -> Sequence[str]:
        return [problem for problem in (self._runtime_problem(), self._starting) if problem]

    def _runtime_problem(self) -> str:
        silent = self._cache.unanswered()
        if not self._monitor.problem and silent > SILENT_SECONDS:
            return f"container runtime has not answered for {silent:.0f} s"
        return self._monitor.problem

    def _callables(self) -> Callables:
        return Callables(
            problems=self._problems,
            checks=self._checks.results,
            pods=lambda: pod_list(self._registry),
            running_pods=self._streams.running_pods,
            configz=lambda: configz(self._config),
            run=self._streams.run,
            exec=self._streams.exec,
            attach=self._streams.attach,
            port_forward=self._streams.port_forward,
            manifests=lambda: manifest_list(
                self._sources,
                self._syncloop.conflicts if self._syncloop is not None else (),
                self._runtime_problem(),
                self._cluster.mirrors.problems if self._cluster is not None else {},
            ),
            container_logs=self._container_logs,
        )

    def _find_pod(self, namespace: str, name: str) -> Pod | None:
        return find_pod(self._registry, namespace, name)

    def _container_logs(
        self, request: LogRequest
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        if self._registry is None:
            raise NotReady(f"cannot read logs yet: {'; '.join(self._problems())}")
        return self._logs.read(request, self._registry)
