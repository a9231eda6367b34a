"""A node in memory whose pods come from an apiserver in memory, statuses and all."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import msgspec

from minikubelet.api.codec import without_nulls
from minikubelet.api.pod import Pod
from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.cri.fake import FakeRuntime
from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.status.manager import StatusManager
from tests.apiserver import MemoryAPI
from tests.unit.pods.harness import Node, SimulatedClock, a_node

STARTED = "2026-01-01T00:00:00Z"


@dataclass
class Cluster:
    """An apiserver with one node; each change reaches the node at once."""

    api: MemoryAPI
    node: Node
    known: dict[str, str]

    def create(self, pod: Pod) -> None:
        """Create a pod that is bound to the node."""
        self.api.put(path_of(pod), msgspec.to_builtins(pod))

    def delete(self, pod: Pod, grace: int = 30) -> None:
        """Ask for a pod's end, as `kubectl delete --grace-period` does."""
        metadata = self.api.objects[path_of(pod)]["metadata"]
        ending = {"deletionTimestamp": STARTED, "deletionGracePeriodSeconds": grace}
        self.api.put(path_of(pod), self.api.objects[path_of(pod)] | {"metadata": metadata | ending})

    def has(self, pod: Pod) -> bool:
        """Tell whether the pod's object is there."""
        return path_of(pod) in self.api.objects

    def status(self, pod: Pod) -> PodStatus:
        """Return the status that the apiserver holds."""
        return msgspec.convert(
            without_nulls(self.api.objects[path_of(pod)].get("status", {})), PodStatus
        )

    def changed(self, path: str, document: Document | None) -> None:
        """Do what the source and the sync loop do."""
        if document is None:
            self.node.registry.remove(self.known.pop(path))
            return
        record = PodRecord(msgspec.convert(without_nulls(document), Pod), document)
        if self.known.get(path) == record.uid:
            self.node.registry.update(record)
        else:
            if path in self.known:
                self.node.registry.remove(self.known[path])
            self.known[path] = record.uid
            self.node.registry.add(record, "api")


def path_of(pod: Pod) -> str:
    """Return where the apiserver keeps a pod."""
    return kube.pods_path(pod.metadata.namespace, pod.metadata.name)


@asynccontextmanager
async def a_cluster(
    tmp_path: Path,
    fake: FakeRuntime,
    api: MemoryAPI | None = None,
    *,
    sweep: bool = True,
    **fields: Any,
) -> AsyncIterator[Cluster]:
    """A running node of a cluster; leaving it is a crash of the agent, `api` and runtime stay."""
    api = api or MemoryAPI()
    api.on_change = lambda _path, _document: None
    manager = StatusManager(api, SimulatedClock(fake), lambda: 0.0)
    async with a_node(tmp_path, fake, statuses=manager, **fields) as node:
        cluster = Cluster(api, node, {})
        async with anyio.create_task_group() as group:
            await group.start(manager.run)
            api.on_change = cluster.changed
            for path, document in list(api.objects.items()):
                cluster.changed(path, document)
            if sweep:
                node.registry.end_unwanted()
            yield cluster
            group.cancel_scope.cancel()
