"""Workers of the session's control plane, on a containerd in the cluster's network."""

import itertools
import re
import subprocess
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from minikubelet.cri.client import connect
from tests.clusters import Cluster
from tests.containerds import HACK, Containerd
from tests.e2e.administrator import path_of
from tests.e2e.outcome import FAILED
from tests.e2e.workers import Worker
from tests.leftovers import Mark

_NUMBERS = itertools.count(1)


@dataclass(frozen=True)
class ClusterContainerd(Containerd):
    """A containerd in a network namespace."""

    netns: Path

    def start(self) -> None:
        """Start it, or start it again."""
        self._hack("start", "--version", self.version)

    def stop(self) -> None:
        """Stop the daemon; its pods run on."""
        self._hack("stop", "--keep-pods")

    def clean(self) -> None:
        """Remove its pods, everything it made on the machine, and its folder."""
        self._hack("clean")

    def _hack(self, action: str, *arguments: str) -> None:
        argv = ["nsenter", f"--net={self.netns}", str(HACK / "containerd"), action]
        argv += ["--dir", str(self.folder), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv} failed:\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="session")
def cluster_containerd(session_mark: Mark, cluster: Cluster) -> Iterator[Containerd]:
    """A containerd whose pods live in the cluster's network."""
    folder = session_mark.containerd_folder("cluster")
    containerd = ClusterContainerd("2", folder, cluster.netns)
    containerd.start()
    yield containerd
    containerd.clean()


@pytest.fixture(scope="module")
async def shared_worker(
    request: pytest.FixtureRequest,
    cluster_containerd: Containerd,
    cluster: Cluster,
    session_mark: Mark,
    anyio_backend: str,
) -> AsyncIterator[Worker]:
    """A worker that has joined, for all tests of a module: `worker` hands it out.

    A function `prepare(worker)` of the module is called before the agent starts.
    """
    number = next(_NUMBERS)
    client = connect(cluster_containerd.endpoint)
    worker = Worker(
        session_mark.folder / f"worker-{number}",
        f"{session_mark.cgroup}/worker-{number}",
        cluster_containerd,
        client,
        cluster,
    )
    getattr(request.module, "prepare", lambda _: None)(worker)
    try:
        await worker.start()
        await worker.wait_until("the node is ready", worker.node_is_ready)
        yield worker
    finally:
        await worker.clean()
        await worker.kubectl("delete", "node", worker.node, "--ignore-not-found")
        await client.runtime.close()


@pytest.fixture
async def worker(request: pytest.FixtureRequest, shared_worker: Worker) -> AsyncIterator[Worker]:
    """A worker that has joined, and a namespace of the test's own."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower())
    name = f"{name[:50].strip('-')}-{next(_NUMBERS)}"
    await shared_worker.create(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    )
    shared_worker.namespace = name

    async def has_account() -> bool:
        return bool(await shared_worker.object("serviceaccount", "default"))

    await shared_worker.wait_until("the namespace has its service account", has_account)
    yield shared_worker
    if request.node.stash.get(FAILED, False):
        print(await shared_worker.dump())  # noqa: T201  pytest shows it with the failure
    for manifest in shared_worker.manifests.iterdir():
        manifest.unlink()
    await shared_worker.admin.ask("DELETE", path_of("pod", name), {"gracePeriodSeconds": 0})
    shared_worker.namespace = "default"
    await shared_worker.delete("namespace", name)
