"""The thin line: a node joins, a pod of the apiserver runs, is told of, looked into, and goes."""

import pytest

from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.workers import Worker

pytestmark = pytest.mark.anyio


async def test_the_node_is_ready_and_renews_its_lease(worker: Worker) -> None:
    node = await worker.object("node", worker.node)
    assert node["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.36.")
    assert node["status"]["addresses"][0]["address"] == worker.cluster.address
    worker.namespace, own = "kube-node-lease", worker.namespace
    lease = await worker.object("lease", worker.node)
    worker.namespace = own
    assert lease["metadata"]["ownerReferences"][0]["uid"] == node["metadata"]["uid"]


async def test_a_pod_runs_and_is_deleted_to_the_end(worker: Worker) -> None:
    await worker.run_pod(a_manifest("web", a_shell("main", f"echo hello; {FOREVER}")))
    assert await worker.kubectl("logs", "web") == "hello\n"
    done = await worker.kubectl_done(
        "exec", "-i", "web", "--", "sh", "-c", "cat; exit 3", stdin=b"x"
    )
    assert (done.stdout, done.returncode) == (b"x", 3)
    await worker.wait_for_events("web", "Pulled", "Created", "Started")
    await worker.kubectl("delete", "pod", "web")
    await worker.wait_until("nothing of it is left", lambda: _no_sandbox(worker, "web"))


async def _no_sandbox(worker: Worker, name: str) -> bool:
    sandboxes = await worker.client.runtime.list_pod_sandbox()
    return all(sandbox.metadata.name != name for sandbox in sandboxes)
