"""The part of the agent that only a node of a cluster has: built when there is a kubeconfig.

Owns the connection, the apiserver source, the Node object and the status manager, and plugs them to
the rest. Without an apiserver's answer everything else goes on: pods that are remembered are cared
for after a moment of silence.
"""

import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import anyio
import structlog
from anyio.abc import TaskGroup

from minikubelet.agent.identity import Identity
from minikubelet.agent.objects import ClusterObjects
from minikubelet.agent.tended import tended
from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.config.config import Config
from minikubelet.cri.client import Client
from minikubelet.host.clock import Clock
from minikubelet.kube.api import Document
from minikubelet.node.facts import MachineFacts, NodeSettings
from minikubelet.node.manager import NodeManager
from minikubelet.node.pod_cidr import PodCIDR
from minikubelet.node.runtime import RuntimeWatch
from minikubelet.observe.events import Journal
from minikubelet.pods.placement import NodeTaint, NodeView
from minikubelet.sources.apiserver import APISource
from minikubelet.sources.reports import ManifestReport
from minikubelet.sources.updates import API, SourceSet
from minikubelet.status.events import APIEvents
from minikubelet.status.manager import StatusManager
from minikubelet.status.mirror import MirrorPods
from minikubelet.syncloop import SyncLoop

if TYPE_CHECKING:
    from minikubelet.agent.serving_certificate import ServingCertificate

ADOPT_AFTER = 3.0
"""Seconds of silence after which remembered pods are cared for without their source."""
RUNTIME_WAIT = 30.0
"""After so long without a word of the runtime the node is shown as not ready (B61)."""

_log = structlog.get_logger("agent")


class Cluster:
    """The apiserver's side of a node."""

    def __init__(
        self,
        identity: Identity,
        settings: NodeSettings,
        machine: MachineFacts,
        client: Client,
        clock: Clock,
        journal: Journal,
        events: APIEvents,
    ) -> None:
        connection = identity.api
        self.api = connection
        self.serving: ServingCertificate | None = None
        """The port's certificate, where the apiserver gives it."""
        self._identity = identity
        self._clock = clock
        self.mirrors = MirrorPods(connection, settings.name, lambda: self.node.uid, journal)
        self.statuses = StatusManager(connection, clock, random.random, self.mirrors.of)
        self.source = APISource(
            connection, settings.name, on_mirrors=self._take_mirrors, on_problem=_tell
        )
        self.runtime = RuntimeWatch(client.runtime, client.images, clock, self._runtime_changed)
        self.node = NodeManager(
            connection,
            settings,
            machine,
            lambda: self.runtime.facts,
            clock,
            random.random,
            journal,
        )
        self.objects = ClusterObjects(connection, clock, random.random, self._object_changed)
        self.on_object: Callable[[str], None] = lambda _uid: None
        """Told the uid of each pod that uses an object that changed."""
        self._pod_cidr = PodCIDR(client.runtime.update_pod_cidr)
        self.node.on_node = self._node_changed
        self.on_mirror: Callable[[str, Document], None] = lambda _name, _mirror: None
        """Told each mirror pod (by full name) that was made or changed."""
        self._events = events
        journal.plug(events)

    async def start(
        self, group: TaskGroup, deliver: Callable[[SourceSet], Awaitable[None]]
    ) -> None:
        """Begin to hear the apiserver and to tell it statuses; returns at once.

        While the node has no certificate yet the apiserver is as good as away for all of this.
        """
        await self._identity.start(group)
        if self.serving is not None:
            await self.serving.start(group)
        parts: dict[str, Callable[[], Awaitable[object]]] = {
            "pod source": partial(self.source.run, deliver),
            "statuses": self.statuses.run,
            "objects": self.objects.cache.run,
            "services": self.objects.services.run,
            "events": self._events.run,
            "mirror pods": self.mirrors.run,
            "runtime": self.runtime.run,
            "pod addresses": self._pod_cidr.run,
            "node": self._join,
        }
        for name, run in parts.items():
            group.start_soon(tended, name, run)

    async def adopt_when_silent(self, syncloop: SyncLoop) -> None:
        """Care for remembered pods when the apiserver hasn't spoken after a moment."""
        with anyio.move_on_after(ADOPT_AFTER):
            await syncloop.all_seen.wait()
        syncloop.adopt(API)
        await syncloop.all_seen.wait()
        self.mirrors.look(sources_ready=True)

    async def _join(self) -> None:
        with anyio.move_on_after(RUNTIME_WAIT):
            await self.runtime.answered.wait()
        await self.node.run()

    def view(self, default: NodeView) -> NodeView:
        """Return the Node object as admission sees it; `default` while it hasn't been seen."""
        policy = self.runtime.facts.supplemental_groups_policy
        node = self.node.node
        if node is None:
            return replace(default, supplemental_groups_policy=policy, known=False)
        taints = tuple(
            NodeTaint(taint["key"], taint.get("value") or "", taint["effect"])
            for taint in node.get("spec", {}).get("taints") or ()
        )
        labels = node["metadata"].get("labels") or {}
        return NodeView(default.name, labels, taints, policy)

    def _object_changed(self, uid: str) -> None:
        self.on_object(uid)

    def _node_changed(self, node: Document | None) -> None:
        self.mirrors.look()
        self._pod_cidr.seen(node)
        if self.serving is not None:
            self.serving.addresses_changed()

    def addresses(self) -> list[Document]:
        """Return the addresses that the Node object shows; none while there is none."""
        shown = (self.node.node or {}).get("status") or {}
        return list(shown.get("addresses") or ())

    def _runtime_changed(self) -> None:
        self.node.changed()

    def _take_mirrors(self, mirrors: Mapping[str, Document]) -> None:
        changed = {
            name: mirror for name, mirror in mirrors.items() if self.mirrors.of(name) != mirror
        }
        self.mirrors.seen(mirrors)
        if changed:
            self.statuses.mirrors_changed(changed)
            for name, mirror in changed.items():
                self.on_mirror(name, mirror)

    # What workers tell: statuses, and of static pods that there should be a mirror pod.

    def known(self, record: PodRecord, *, static: bool) -> None:
        """Take a pod that has a worker from now on."""
        if static:
            self.mirrors.want(record)

    def tell(self, record: PodRecord, status: PodStatus, *, static: bool) -> None:
        """Take a pod's newest status."""
        self.statuses.tell(record, status, static=static)

    def finished(self, record: PodRecord) -> None:
        """Take that a pod has ended."""
        self.statuses.finished(record)

    def forget(self, uid: str) -> None:
        """Take that a pod is gone."""
        self.mirrors.forget(uid)
        self.statuses.forget(uid)


async def join_cluster(
    config: Config,
    settings: NodeSettings,
    machine: MachineFacts,
    client: Client,
    clock: Clock,
    journal: Journal,
) -> Cluster:
    """Return the apiserver's side of the node. Raises KubeconfigError."""
    identity = await node_identity(config, clock)
    events = APIEvents(
        identity.api,
        settings.name,
        clock,
        random.random,
        qps=config.event_record_qps,
        burst=config.event_burst,
    )
    cluster = Cluster(identity, settings, machine, client, clock, journal, events)
    if config.server_tls_bootstrap:
        # As in `node_identity`: only who needs certificates pays for them.
        from minikubelet.agent.serving_certificate import ServingCertificate  # noqa: PLC0415

        cluster.serving = ServingCertificate(config, identity.api, cluster.addresses, clock)
    return cluster


async def node_identity(config: Config, clock: Clock) -> Identity:
    """Return the node's identity, connected if that is possible. Raises KubeconfigError."""
    identity = Identity(config, clock)
    if config.bootstrap_kubeconfig or config.rotate_certificates:
        # Reading and making certificates costs 9 MiB.
        from minikubelet.agent.rotation import RotatingIdentity  # noqa: PLC0415

        identity = RotatingIdentity(config, clock)
    await identity.open()
    return identity


def _tell(report: ManifestReport) -> None:
    for text in report.errors:
        _log.error("pod of the apiserver refused", error=text, last_good_runs=report.last_good)
