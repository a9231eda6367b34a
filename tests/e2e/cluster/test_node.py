"""The Node object of a real node: what it says, who changes it, and what its silence means."""

import os
import shutil
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import anyio
import anyio.to_thread
import pytest

from minikubelet.cri.client import connect
from tests.e2e.administrator import Told, Watch, path_of
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.workers import MERGE, Worker
from tests.leftovers import Mark

pytestmark = pytest.mark.anyio

LEASE = path_of("lease", "kube-node-lease", "worker")
NODE = path_of("node", "", "worker")


def prepare(worker: Worker) -> None:
    """Start it as a person does who has wishes about the node."""
    worker.flags += [
        "--node-labels=example.com/zone=a,node.kubernetes.io/instance-type=small",
        "--register-with-taints=example.com/soft=yes:PreferNoSchedule",
        "--provider-id=test://worker",
    ]
    worker.settings |= {
        "maxPods": 77,
        "systemReserved": {"cpu": "100m", "memory": "64Mi"},
        "kubeReserved": {"memory": "64Mi"},
        "evictionHard": {"memory.available": "128Mi", "nodefs.available": "10%"},
        "crashLoopBackOff": {"maxContainerRestartPeriod": "1s"},
    }


def condition_of(node: dict[str, Any], kind: str) -> dict[str, Any]:
    conditions = node.get("status", {}).get("conditions", [])
    return next((c for c in conditions if c["type"] == kind), {})


async def node_reasons(worker: Worker) -> list[str]:
    events = (await worker.admin.get(path_of("event", "default")))["items"]
    return [
        event["reason"]
        for event in events
        if event["involvedObject"]["kind"] == "Node" and event["source"]["component"] == "kubelet"
    ]


def watched(worker: Worker) -> Watch:
    return worker.admin.watch(path_of("node", ""), fieldSelector=f"metadata.name={worker.node}")


def ready_words(watch: Watch) -> list[str]:
    """Return the statuses of Ready as they were told, without repeats."""
    words: list[str] = []
    for told in watch.told:
        word = condition_of(told.object, "Ready").get("status", "none")
        if told.type != "DELETED" and words[-1:] != [word]:
            words.append(word)
    return words


async def test_what_it_registers_with(worker: Worker) -> None:
    node = await worker.object("node", worker.node)
    labels = node["metadata"]["labels"]
    assert labels == {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": "worker",
        "kubernetes.io/os": "linux",
        "example.com/zone": "a",
        "node.kubernetes.io/instance-type": "small",
    }
    notes = node["metadata"]["annotations"]
    assert notes["volumes.kubernetes.io/controller-managed-attach-detach"] == "true"
    soft = {"key": "example.com/soft", "value": "yes", "effect": "PreferNoSchedule"}
    assert soft in node["spec"]["taints"]
    assert node["spec"]["providerID"] == "test://worker"
    status = node["status"]
    assert status["addresses"] == [
        {"type": "InternalIP", "address": worker.cluster.address},
        {"type": "Hostname", "address": "worker"},
    ]
    assert status["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250
    info = status["nodeInfo"]
    release = os.uname().release
    assert (info["kernelVersion"], info["architecture"]) == (release, "amd64")
    assert info["kubeletVersion"].startswith("v1.36.")
    assert info["containerRuntimeVersion"].startswith("containerd://2.")
    assert info["bootID"]
    capacity, left = status["capacity"], status["allocatable"]
    assert capacity["cpu"] == str(os.cpu_count())
    assert left["cpu"] == f"{(os.cpu_count() or 1) * 1000 - 100}m"
    assert capacity["pods"] == left["pods"] == "77"
    assert kibi(capacity["memory"]) - kibi(left["memory"]) == (64 + 64 + 128) * 1024
    assert "ephemeral-storage" in capacity
    assert status["declaredFeatures"] == ["RestartAllContainersOnContainerExits"]
    assert "" in [handler["name"] for handler in status["runtimeHandlers"]]
    names = [name for image in status["images"] for name in image["names"]]
    assert "localhost/minikubelet/busybox:1" in names
    told = {c["type"]: (c["status"], c["reason"], c["message"]) for c in status["conditions"]}
    assert told["Ready"] == ("True", "KubeletReady", "kubelet is posting ready status")
    assert told["MemoryPressure"] == (
        "False",
        "KubeletHasSufficientMemory",
        "kubelet has sufficient memory available",
    )
    assert {"DiskPressure", "PIDPressure"} <= set(told)
    assert list(told)[-1] == "Ready"
    assert (await worker.admin.get(path_of("csinode", "", worker.node)))["spec"]["drivers"] in (
        None,
        [],
    )

    async def all_told() -> bool:
        return {"Starting", "NodeReady", "NodeHasSufficientMemory"} <= set(
            await node_reasons(worker)
        )

    await worker.wait_until("its events are there", all_told)


def kibi(amount: str) -> int:
    assert amount.endswith("Ki"), amount
    return int(amount[:-2])


async def test_an_existing_node_is_brought_in_line(worker: Worker) -> None:
    """Default labels come back; taints, custom labels and what others wrote stay."""
    node = await worker.object("node", worker.node)
    uid = node["metadata"]["uid"]
    taints = [{"key": "other", "effect": "PreferNoSchedule"}]
    labels = {"kubernetes.io/os": "plan9", "example.com/zone": "b", "mine": "x"}
    change = {"metadata": {"labels": labels}, "spec": {"taints": taints}}
    await worker.admin.ask("PATCH", NODE, change, MERGE)
    worker.kill()
    await worker.start()

    async def corrected() -> bool:
        found = (await worker.object("node", worker.node))["metadata"]["labels"]
        return bool(found["kubernetes.io/os"] == "linux")

    await worker.wait_until("the label is right again", corrected)
    node = await worker.object("node", worker.node)
    assert node["metadata"]["uid"] == uid
    assert node["metadata"]["labels"]["example.com/zone"] == "b"
    assert node["metadata"]["labels"]["mine"] == "x"
    assert [taint["key"] for taint in node["spec"]["taints"]] == ["other"]
    await worker.admin.ask("PATCH", NODE, {"spec": {"taints": None}}, MERGE)


async def test_cordoning_is_noticed(worker: Worker) -> None:
    for verb, reason in (("cordon", "NodeNotSchedulable"), ("uncordon", "NodeSchedulable")):
        await worker.kubectl(verb, worker.node)

        async def told(reason: str = reason) -> bool:
            return reason in await node_reasons(worker)

        await worker.wait_until(f"an event says {reason}", told)


async def test_the_lease_is_the_node_s(worker: Worker) -> None:
    """What renews it, and when, is counted where the node is idle (test_pods_api)."""
    node = await worker.object("node", worker.node)
    lease = await worker.admin.get(LEASE)
    assert lease["spec"]["holderIdentity"] == "worker"
    assert lease["spec"]["leaseDurationSeconds"] == 40
    owner = lease["metadata"]["ownerReferences"]
    assert [(each["kind"], each["uid"]) for each in owner] == [("Node", node["metadata"]["uid"])]
    renewed = datetime.fromisoformat(lease["spec"]["renewTime"])
    assert abs((datetime.now(tz=UTC) - renewed).total_seconds()) < 15


async def test_B60_a_deleted_node_registers_again(worker: Worker) -> None:
    """Ready from the first moment, with all its fields, and its lease is the new one's."""
    await worker.run_pod(a_manifest("stays", a_shell("main", FOREVER), nodeName=worker.node))
    uid = (await worker.object("node", worker.node))["metadata"]["uid"]
    with watched(worker) as watch:
        await worker.admin.ask("DELETE", NODE)

        def made_again() -> bool:
            return any(
                told.type == "ADDED" and told.object["metadata"]["uid"] != uid
                for told in watch.told
            )

        await worker.wait_until("there is a Node again", made_again, 15)
    new = next(t.object for t in watch.told if t.object["metadata"]["uid"] != uid)
    assert condition_of(new, "Ready")["status"] == "True"
    assert new["metadata"]["labels"]["example.com/zone"] == "a"

    async def lease_follows() -> bool:
        # With the old Node the lease goes, too.
        lease = await worker.admin.get(LEASE)
        owners = lease.get("metadata", {}).get("ownerReferences", [])
        return [owner["uid"] for owner in owners] == [new["metadata"]["uid"]]

    await worker.wait_until("the lease is the new node's", lease_follows)
    assert "the Node object is gone" in worker.log_file.read_text()
    # Its pods weren't touched by the node's absence of a moment.
    (container,) = await worker.containers("stays", "main")
    assert container.metadata.attempt == 0
    assert await worker.pod_is_ready("stays")


async def test_B61_a_restart_of_the_agent_is_no_news(worker: Worker) -> None:
    """Ready never flips, nor does a pod's; the transition time is the old one."""
    pod = await worker.run_pod(a_manifest("steady", a_shell("main", FOREVER)))
    before = await worker.node_condition()
    with watched(worker) as watch:
        for stop in (worker.kill, worker.stop):
            stop()
            await worker.start()

            async def is_back() -> bool:
                # The port answers: everything has started.
                return await worker.kubectl("logs", "steady", check=False) == ""

            await worker.wait_until("the agent is back", is_back)
        begin = time.monotonic()
        # The runtime is looked at every five seconds, and the node whenever something is new.
        await worker.wait_until("it was looked at", lambda: time.monotonic() - begin > 6, 15)
    assert set(ready_words(watch)) == {"True"}
    after = await worker.node_condition()
    assert after["lastTransitionTime"] == before["lastTransitionTime"]
    assert (await worker.told("steady")) == pod["status"]


async def test_a_runtime_that_is_gone_makes_the_node_unready(worker: Worker) -> None:
    """Within ten seconds, and ready again by itself; what runs, runs on."""
    await worker.run_pod(a_manifest("survivor", a_shell("main", FOREVER)))
    with watched(worker) as watch:
        began = time.monotonic()
        await anyio.to_thread.run_sync(worker.containerd.stop)
        try:
            await worker.wait_until(
                "the node isn't ready", lambda: ready_words(watch)[-1:] == ["False"], 15
            )
            assert last_change(watch) - began < 10
            condition = await worker.node_condition()
            assert condition["reason"] == "KubeletNotReady"
            assert "container runtime is down" in condition["message"]
        finally:
            await anyio.to_thread.run_sync(worker.containerd.start)
        await worker.wait_until(
            "the node is ready again", lambda: ready_words(watch)[-1:] == ["True"], 15
        )
    assert await worker.pod_is_ready("survivor")
    await worker.kubectl("exec", "survivor", "--", "true")
    assert (await worker.told("survivor"))["containerStatuses"][0]["restartCount"] == 0

    async def told() -> bool:
        return {"NodeNotReady", "NodeReady"} <= set(await node_reasons(worker))

    await worker.wait_until("events tell of both", told)


def last_change(watch: Watch) -> float:
    """Return the second when the newest status of Ready was first told."""

    def word(told: Told) -> str:
        return str(condition_of(told.object, "Ready").get("status"))

    newest = word(watch.told[-1])
    second = watch.told[-1].second
    for told in reversed(watch.told):
        if word(told) != newest:
            break
        second = told.second
    return second


async def test_a_missing_network_makes_the_node_unready(worker: Worker) -> None:
    """Pods of the host's network run all the same; the others wait and say for what."""
    folder = worker.containerd.folder / "net.d"
    aside = worker.folder / "net.d"
    with watched(worker) as watch:
        shutil.copytree(folder, aside)
        for file in folder.iterdir():
            file.unlink()
        try:
            await worker.wait_until(
                "the node isn't ready", lambda: ready_words(watch)[-1:] == ["False"], 15
            )
            message = (await worker.node_condition())["message"]
            assert message == (
                "container runtime network not ready: NetworkReady=false "
                "reason:NetworkPluginNotReady "
                "message:Network plugin returns error: cni plugin not initialized"
            )
            tolerations = [{"operator": "Exists"}]
            spec = {"nodeName": worker.node, "tolerations": tolerations}
            main = a_shell("main", FOREVER)
            await worker.create(a_manifest("waits", main, **spec))
            await worker.run_pod(a_manifest("host", main, hostNetwork=True, **spec))

            async def told() -> bool:
                events = await worker.events("waits")
                found = [e["message"] for e in events if e["reason"] == "NetworkNotReady"]
                return any(text.startswith("network is not ready: ") for text in found)

            await worker.wait_until("the pod says what it waits for", told)
            assert (await worker.told("waits"))["phase"] == "Pending"
        finally:
            for file in aside.iterdir():
                shutil.copy(file, folder / file.name)
        await worker.wait_until(
            "the node is ready again", lambda: ready_words(watch)[-1:] == ["True"], 15
        )
    await worker.wait_until("the pod runs", lambda: worker.pod_is_ready("waits"))


@asynccontextmanager
async def another_worker(
    worker: Worker, mark: Mark, name: str, *flags: str
) -> AsyncIterator[Worker]:
    """Run an agent of another name in place of the module's."""
    worker.kill()
    client = connect(worker.containerd.endpoint)
    other = Worker(
        mark.folder / f"worker-{name}",
        f"{mark.cgroup}/worker-{name}",
        worker.containerd,
        client,
        worker.cluster,
        name,
    )
    other.namespace = worker.namespace
    other.flags += flags
    try:
        await other.start()
        yield other
    finally:
        await other.clean()
        await client.runtime.close()
        await worker.start()


async def test_B16_without_a_node_object_there_are_no_pictures(
    worker: Worker, session_mark: Mark
) -> None:
    """--register-node=false: static pods run unseen and the log says why; until there is one."""
    async with another_worker(worker, session_mark, "guest", "--register-node=false") as guest:
        manifest = a_manifest("web", a_shell("main", FOREVER))
        manifest["metadata"]["namespace"] = guest.namespace
        guest.write("web.yaml", manifest)
        await guest.wait_until("it runs", lambda: guest.is_ready("web-guest"))
        await guest.wait_until(
            "the log says why it isn't seen",
            lambda: "there is no Node object and registerNode is false" in log(guest),
        )
        assert not await guest.object("node", "guest")
        assert not await guest.pod("web-guest")
        assert not await guest.admin.get(path_of("lease", "kube-node-lease", "guest"))
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "guest"}}
        await guest.create(node)
        await guest.wait_until("its picture comes", lambda: guest.pod_is_ready("web-guest"))
        await guest.wait_until("the node is ready", guest.node_is_ready)
        # The Node goes, and nobody makes another: the agent doesn't, and its lease isn't renewed.
        await guest.admin.ask("DELETE", path_of("node", "", "guest"))
        await guest.wait_until("it is noticed", lambda: "the Node object is gone" in log(guest))
        assert await guest.is_ready("web-guest")
        assert not await guest.object("node", "guest")


def log(worker: Worker) -> str:
    return worker.log_file.read_text()
