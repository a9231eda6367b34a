"""Static pods of a kubelet, taken over: which pod a manifest means, and what follows from that."""

from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from minikubelet.api.pod import Pod
from minikubelet.api.record import PodRecord
from minikubelet.api.timestamp import rfc3339
from minikubelet.cri.fake import FakeRuntime
from minikubelet.criconfig.hash import container_hash
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, SandboxRecord, State
from minikubelet.pods.adoption import runtime_uid, under_uid
from minikubelet.sources.updates import FILE, SourceSet
from minikubelet.syncloop import SyncLoop
from tests.builders import a_container, a_pod, decoded_container
from tests.unit.pods.harness import Node, a_node, eventually

pytestmark = pytest.mark.anyio
HASH = "kubernetes.io/config.hash"
CHANGING = ("Run", "Create", "Start", "Stop", "Remove", "ExecSync")


def a_manifest(*containers: dict[str, Any], uid: str = "manifest", **fields: Any) -> Pod:
    return a_pod(*containers, uid=uid, metadata={"annotations": {HASH: uid}}, **fields)


def a_record(pod: Pod) -> PodRecord:
    return PodRecord(pod, msgspec.to_builtins(pod), "/manifests/pod.yaml")


def a_view(uid: str, *names: str, created_at: int = 1, **fields: Any) -> PodRuntimeStatus:
    """A pod of the runtime whose containers are those of `a_container`, unless `fields` say."""
    containers = [
        ContainerRecord(
            f"{uid}-{name}", name, State.RUNNING, hash=container_hash(decoded_container(name=name))
        )
        for name in names
    ]
    sandbox = SandboxRecord(f"{uid}-sandbox", ready=True, created_at=created_at)
    values = {"name": "pod", "namespace": "default", "containers": tuple(containers)} | fields
    return PodRuntimeStatus(uid, sandboxes=(sandbox,), **values)


RECORD = a_record(a_manifest(a_container("a"), a_container("b")))


@pytest.mark.parametrize(
    ("views", "uid"),
    [
        pytest.param([a_view("k", "a", "b")], "k", id="same name and containers"),
        pytest.param([a_view("k", "a")], "k", id="one is still to come"),
        pytest.param([a_view("k", "a", "c")], "", id="a container that the manifest lacks"),
        pytest.param([a_view("k", "a", "b", name="other")], "", id="another name"),
        pytest.param([a_view("k", "a", "b", namespace="other")], "", id="another namespace"),
        pytest.param([a_view("k")], "", id="no container to tell it by"),
        pytest.param([], "", id="nothing runs"),
        pytest.param(
            [a_view("old", "a", "b", created_at=1), a_view("new", "a", "b", created_at=2)],
            "new",
            id="the newest of two",
        ),
    ],
)
def test_which_pod_a_manifest_means(views: list[PodRuntimeStatus], uid: str) -> None:
    assert runtime_uid(RECORD, views) == uid


def test_another_image_is_another_pod() -> None:
    changed = a_record(a_manifest(a_container("a"), a_container("b", image="busybox:2")))
    assert runtime_uid(changed, [a_view("k", "a", "b")]) == ""


def test_only_the_newest_container_of_a_name_counts() -> None:
    old = ContainerRecord("x", "a", State.EXITED, hash="other")
    new = a_view("k", "a").containers[0]
    assert runtime_uid(RECORD, [a_view("k", containers=(new, old))]) == "k"
    assert runtime_uid(RECORD, [a_view("k", containers=(old, new))]) == ""


def test_init_and_ephemeral_containers_count_too() -> None:
    record = a_record(a_manifest(a_container("a"), init=(a_container("init"),)))
    assert runtime_uid(record, [a_view("k", "a", "init")]) == "k"


def test_a_pod_under_another_uid_keeps_its_mirror_pod_s_hash() -> None:
    moved = under_uid(RECORD, "k")
    assert (moved.uid, moved.manifest_uid) == ("k", "manifest")
    assert moved.pod.metadata.annotations == {HASH: "k"}
    assert moved.raw["metadata"]["annotations"] == {HASH: "k"}
    assert moved.raw["metadata"]["uid"] == "k"
    assert moved.pod.spec == RECORD.pod.spec
    assert RECORD.raw["metadata"]["uid"] == "manifest"


# On a node: what a kubelet started is what an agent without our memory started.


@pytest.fixture
async def fake(tmp_path: Path) -> FakeRuntime:
    """A runtime on which a kubelet runs the pod as uid `k`, one container restarted once."""
    fake = FakeRuntime()
    fake.images.add("busybox:1")
    fake.images.add("busybox:2")
    pod = a_manifest(a_container("a"), a_container("b"), uid="k")
    async with a_node(tmp_path / "kubelet", fake, desired=(pod,)) as node:
        await eventually(lambda: fake.running() == ["a", "b"])
        fake.exit(fake.named("a")[0].id, 1)
        await eventually(lambda: fake.running() == ["b", "a"])
        await eventually(lambda: node.status("k").phase == "Running")
    fake.script.calls.clear()
    return fake


class Source:
    """The file source of a node that is run on the fake."""

    def __init__(self, node: Node) -> None:
        self._loop = SyncLoop(node.registry, [FILE], node.kit.clock.wall_ns)

    async def says(self, *pods: Pod) -> None:
        await self._loop.deliver(SourceSet(FILE, tuple(a_record(pod) for pod in pods)))


def changes(fake: FakeRuntime) -> list[str]:
    return [c.method for c in fake.script.calls if c.method.startswith(CHANGING)]


MANIFEST = a_manifest(a_container("a"), a_container("b"))


async def test_nothing_restarts_and_the_counts_go_on(tmp_path: Path, fake: FakeRuntime) -> None:
    (sandbox,) = fake.sandboxes.values()
    async with a_node(tmp_path / "ours", fake) as node:
        source = Source(node)
        await source.says(MANIFEST)
        await anyio.sleep(60)
        await source.says(MANIFEST)
        await anyio.sleep(60)
        assert changes(fake) == []
        assert [worker.uid for worker in node.registry.workers] == ["k"]
        status = node.status("k")
        assert status.phase == "Running"
        assert {c.name: c.restart_count for c in status.container_statuses} == {"a": 1, "b": 0}
        assert status.start_time == rfc3339(sandbox.created_at)


async def test_a_restart_of_the_agent_remembers(tmp_path: Path, fake: FakeRuntime) -> None:
    for _ in range(2):
        async with a_node(tmp_path / "ours", fake) as node:
            await Source(node).says(MANIFEST)
            await anyio.sleep(60)
            assert [worker.uid for worker in node.registry.workers] == ["k"]
    assert changes(fake) == []


@pytest.mark.parametrize("running", [True, False], ids=["while it runs", "while it is away"])
async def test_an_edit_afterwards_replaces_the_pod(
    tmp_path: Path, fake: FakeRuntime, running: bool
) -> None:
    # Neither name nor image changes: what is remembered tells, not the hash.
    edited = a_manifest(a_container("a", args=["x"]), a_container("b"), uid="edited")
    async with a_node(tmp_path / "ours", fake) as node:
        source = Source(node)
        await source.says(MANIFEST)
        await anyio.sleep(10)
        if running:
            await source.says(edited)
            await eventually(lambda: node.registry.worker("k") is None)
            await eventually(lambda: node.status("edited").phase == "Running")
    if not running:
        async with a_node(tmp_path / "ours", fake) as node:
            await Source(node).says(edited)
            await eventually(lambda: node.registry.worker("k") is None)
            await eventually(lambda: node.status("edited").phase == "Running")
    assert {s.config.metadata.uid for s in fake.sandboxes.values()} == {"edited"}
    assert sorted(fake.running()) == ["a", "b"]


async def test_an_image_edited_before_the_take_over_replaces_the_pod(
    tmp_path: Path, fake: FakeRuntime
) -> None:
    edited = a_manifest(a_container("a"), a_container("b", image="busybox:2"))
    async with a_node(tmp_path / "ours", fake) as node:
        await Source(node).says(edited)
        await eventually(lambda: node.status("manifest").phase == "Running")
        assert node.registry.worker("k") is None
    assert {s.config.metadata.uid for s in fake.sandboxes.values()} == {"manifest"}


async def test_removed_it_ends_and_put_back_it_starts_anew(
    tmp_path: Path, fake: FakeRuntime
) -> None:
    async with a_node(tmp_path / "ours", fake) as node:
        source = Source(node)
        await source.says(MANIFEST)
        await anyio.sleep(10)
        await source.says()
        await eventually(lambda: not node.registry.workers and not fake.sandboxes)
        await source.says(MANIFEST)
        await eventually(lambda: sorted(fake.running()) == ["a", "b"])


async def test_of_two_manifests_of_one_name_only_one_gets_the_pod(
    tmp_path: Path, fake: FakeRuntime
) -> None:
    twin = a_manifest(a_container("a"), a_container("b"), uid="twin")
    async with a_node(tmp_path / "ours", fake) as node:
        source = Source(node)
        await source.says(MANIFEST, twin)
        await anyio.sleep(60)
        assert [worker.uid for worker in node.registry.workers] == ["k"]
        assert changes(fake) == []
        await source.says(twin)
        await eventually(lambda: node.registry.worker("k") is None)
        await eventually(lambda: node.status("twin").phase == "Running")
