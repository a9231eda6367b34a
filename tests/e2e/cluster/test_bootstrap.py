"""A node without a certificate: what runs meanwhile, how it joins, what its port shows."""

import json
from collections.abc import AsyncIterator

import pytest
import yaml

from minikubelet.node.certificates_keys import read
from tests.clusters import Cluster
from tests.containerds import Containerd
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.kubelets import joining_worker
from tests.e2e.workers import Worker
from tests.integration.proxy import Wire
from tests.leftovers import Mark

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(180)]
NODE = "joining"


@pytest.fixture
async def worker(
    cluster_containerd: Containerd, cluster: Cluster, session_mark: Mark, anyio_backend: str
) -> AsyncIterator[Worker]:
    async with joining_worker(NODE, cluster_containerd, cluster, session_mark) as worker:
        yield worker


async def test_static_pods_run_while_the_node_waits_and_then_it_joins(worker: Worker) -> None:
    wire = Wire((worker.cluster.address, 6443), worker.cluster.machine_address)
    worker.stack.enter_context(wire)
    document = yaml.safe_load(worker.cluster.bootstrap_kubeconfig.read_text())
    document["clusters"][0]["cluster"] |= {
        "server": wire.url,
        "tls-server-name": "kubernetes",
    }
    bootstrap = worker.folder / "bootstrap-kubelet.conf"
    bootstrap.write_text(yaml.safe_dump(document))
    worker.flags[1] = f"--bootstrap-kubeconfig={bootstrap}"
    wire.refuse()
    worker.write("web.yaml", a_manifest("web", a_shell("main", FOREVER)))
    await worker.start()
    await worker.wait_until("the static pod is ready", lambda: worker.is_ready(f"web-{NODE}"))
    (before,) = await worker.containers(f"web-{NODE}")
    assert not (worker.folder / "kubelet.conf").exists()

    wire.accept()
    await worker.wait_until("the node is ready", worker.node_is_ready)
    await worker.wait_until("its mirror pod, too", lambda: worker.pod_is_ready(f"web-{NODE}"))
    await worker.run_pod(a_manifest("late", a_shell("main", FOREVER), nodeName=NODE))
    (after,) = await worker.containers(f"web-{NODE}")
    assert after.id == before.id
    (file,) = (worker.folder / "pki").glob("kubelet-client-2*.pem")
    assert read(file.read_bytes()).common_name == f"system:node:{NODE}"

    # The next start needs no bootstrap any more.
    worker.stop()
    bootstrap.unlink()
    await worker.start()
    await worker.run_pod(a_manifest("later", a_shell("main", FOREVER), nodeName=NODE))


async def test_the_port_opens_with_the_certificate_that_somebody_approves(worker: Worker) -> None:
    worker.flags.append("--rotate-server-certificates")
    await worker.start()
    await worker.wait_until("the node is ready", worker.node_is_ready)
    await worker.run_pod(
        a_manifest("web", a_shell("main", f"echo hello; {FOREVER}"), nodeName=NODE)
    )
    done = await worker.kubectl_done("logs", "web")
    assert done.returncode != 0

    async def pending() -> list[str]:
        items = json.loads(await worker.kubectl("get", "csr", "-o", "json"))["items"]
        return [
            item["metadata"]["name"]
            for item in items
            if item["spec"]["signerName"] == "kubernetes.io/kubelet-serving"
            and item["spec"]["username"] == f"system:node:{NODE}"
            and not item["status"]
        ]

    async def is_asked_for() -> bool:
        return bool(await pending())

    await worker.wait_until("a serving certificate is asked for", is_asked_for)
    await worker.kubectl("certificate", "approve", *await pending())

    async def answers() -> bool:
        return (await worker.kubectl_done("logs", "web")).stdout == b"hello\n"

    await worker.wait_until("kubectl logs works", answers)
    current = worker.folder / "pki" / "kubelet-server-current.pem"
    held = read(current.read_bytes())
    assert held.addresses == (worker.cluster.address,)
    assert held.dns_names == (NODE,)
