"""Workers of the session's control plane, on a containerd in the cluster's network."""

import itertools
import subprocess
from collections.abc import AsyncIterator, Iterator

import pytest

from minikubelet.cri.client import connect
from tests.clusters import Cluster
from tests.containerds import HACK, Containerd
from tests.e2e.outcome import FAILED
from tests.e2e.workers import Worker
from tests.leftovers import Mark

_NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def cluster_containerd(session_mark: Mark, cluster: Cluster) -> Iterator[Containerd]:
    """A containerd whose pods live in the cluster's network."""
    containerd = Containerd("2", session_mark.containerd_folder("cluster"))

    def hack(*arguments: str) -> None:
        argv = ["nsenter", f"--net={cluster.netns}", str(HACK / "containerd"), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv} failed:\n{done.stdout}{done.stderr}"

    hack("start", "--version", "2", "--dir", str(containerd.folder))
    yield containerd
    hack("clean", "--dir", str(containerd.folder))


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
    name = request.node.name.lower().replace("_", "-").replace("[", "-").replace("]", "")
    name = f"{name[:50].strip('-')}-{next(_NUMBERS)}"
    shared_worker.namespace = "default"
    await shared_worker.kubectl("create", "namespace", name)
    shared_worker.namespace = name

    async def has_account() -> bool:
        return bool(await shared_worker.object("serviceaccount", "default"))

    await shared_worker.wait_until("the namespace has its service account", has_account)
    yield shared_worker
    if request.node.stash.get(FAILED, False):
        print(await shared_worker.dump())  # noqa: T201  pytest shows it with the failure
    await shared_worker.kubectl(
        "delete", "pods", "--all", "--grace-period=0", "--force", "--wait=false"
    )
    shared_worker.namespace = "default"
    await shared_worker.kubectl("delete", "namespace", name, "--wait=false")
