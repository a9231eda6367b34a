"""The workers' kit, put together from the configuration and the parts that run already."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minikubelet.agent.logins import docker_configs, logins
from minikubelet.agent.node import default_view, node_context
from minikubelet.agent.parts import (
    image_settings,
    image_verification,
    network_problem,
    pod_limits,
    resolv_conf,
)
from minikubelet.config.config import Config
from minikubelet.cri.client import Client
from minikubelet.cri.execs import Execs
from minikubelet.criconfig.context import NodeContext
from minikubelet.host.cgroups import Cgroups, Hierarchies
from minikubelet.host.clock import Clock
from minikubelet.images.access import ImageAccess
from minikubelet.images.manager import ImageManager
from minikubelet.node.facts import MachineFacts, NodeSettings
from minikubelet.observe.events import Journal
from minikubelet.observe.timeline import Timeline
from minikubelet.pleg.cache import PodCache
from minikubelet.pods.kit import Kit, NobodyListens, NoObjects
from minikubelet.pods.placement import NodeView
from minikubelet.probes.hooks import HTTPHooks
from minikubelet.probes.manager import ProbeManager
from minikubelet.state.directory import StateDirectory
from minikubelet.state.pods import PodMemories
from minikubelet.volumes.contents import Contents
from minikubelet.volumes.manager import VolumeManager

if TYPE_CHECKING:
    from minikubelet.agent.cluster import Cluster


@dataclass(frozen=True, slots=True)
class Parts:
    """What runs already when the kit is put together."""

    config: Config
    settings: NodeSettings
    machine: MachineFacts
    hierarchies: Hierarchies
    client: Client
    execs: Execs
    cache: PodCache
    journal: Journal
    clock: Clock
    directory: StateDirectory
    memories: PodMemories
    cluster: "Cluster | None"

    async def node(self) -> NodeContext:
        """Return the node as its pods see it."""
        return await node_context(
            self.config, self.settings, self.machine, self.hierarchies, self.client.runtime
        )


async def build_kit(
    parts: Parts, node: NodeContext, runtime_name: str, probes: ProbeManager
) -> Kit:
    """Return the kit of all workers."""
    config, cluster, runtime = parts.config, parts.cluster, parts.client.runtime
    return Kit(
        runtime=runtime,
        execs=parts.execs,
        cache=parts.cache,
        images=await _images(parts),
        volumes=VolumeManager(config.root_dir, node, contents=_contents(node, cluster)),
        objects=cluster.objects if cluster is not None else NoObjects(),
        cgroups=Cgroups(parts.hierarchies),
        hooks=HTTPHooks(parts.journal),
        events=parts.journal,
        timeline=Timeline(parts.clock.wall_ns),
        clock=parts.clock,
        memories=parts.memories,
        node=node,
        limits=pod_limits(config),
        runtime_name=runtime_name,
        resolv_conf=resolv_conf(config.resolv_conf),
        host_ips=node.node_ips,
        random=random.random,
        network_problem=network_problem(runtime),
        probes=probes,
        statuses=cluster or NobodyListens(),
        node_view=_node_view(default_view(parts.settings, parts.machine), cluster),
    )


async def _images(parts: Parts) -> ImageManager:
    config, cluster = parts.config, parts.cluster
    of_secrets = cluster.objects.pull_credentials if cluster is not None else None
    find = logins(docker_configs(config.root_dir), of_secrets)
    access = ImageAccess(find, image_verification(config), parts.directory)
    await access.load()
    settings = image_settings(config)
    return ImageManager(parts.client.images, parts.journal, parts.clock, settings, access)


def _contents(node: NodeContext, cluster: "Cluster | None") -> Contents:
    if cluster is None:
        return Contents(node)
    return Contents(node, cluster.objects.cache, cluster.objects.tokens)


def _node_view(default: NodeView, cluster: "Cluster | None") -> Callable[[], NodeView]:
    return lambda: default if cluster is None else cluster.view(default)
