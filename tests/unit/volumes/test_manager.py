import os
import threading
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.api.pod import Pod, Volume
from minikubelet.criconfig.context import MountedVolume, NodeContext
from minikubelet.host import mounts
from minikubelet.kube.api import Document
from minikubelet.kube.errors import NotFound, Unavailable
from minikubelet.objects.cache import Ref
from minikubelet.volumes.contents import Contents
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.manager import VolumeManager
from minikubelet.volumes.plugin import PodFolders
from tests.builders import a_container, a_pod

pytestmark = pytest.mark.anyio

MIB = 2**20


def pod_with(*volumes: dict[str, Any], uid: str = "uid-1", **spec: Any) -> Pod:
    used = [{"name": volume["name"], "mountPath": f"/{volume['name']}"} for volume in volumes]
    return a_pod(a_container(volumeMounts=used), volumes=list(volumes), uid=uid, **spec)


def empty_dir(name: str = "v", **fields: Any) -> dict[str, Any]:
    return {"name": name, "emptyDir": fields}


async def test_the_layout_is_the_kubelets(root_dir: Path) -> None:
    host = root_dir.parent / "host"
    host.mkdir()
    pod = pod_with(empty_dir("e"), {"name": "h", "hostPath": {"path": str(host)}})
    ready = await VolumeManager(str(root_dir)).setup(pod)
    path = root_dir / "pods" / "uid-1" / "volumes" / "kubernetes.io~empty-dir" / "e"
    assert ready == {
        "e": MountedVolume("e", str(path), kind="kubernetes.io/empty-dir"),
        "h": MountedVolume("h", str(host), kind="kubernetes.io/host-path"),
    }
    assert path.stat().st_mode & 0o7777 == 0o777
    assert (root_dir / "pods" / "uid-1").stat().st_mode & 0o777 == 0o750


async def test_setup_again_changes_nothing(root_dir: Path) -> None:
    pod = pod_with(empty_dir())
    path = Path((await VolumeManager(str(root_dir)).setup(pod))["v"].host_path)
    (path / "data").write_text("kept")
    path.chmod(0o700)
    await VolumeManager(str(root_dir)).setup(pod)
    assert (path / "data").read_text() == "kept"
    assert path.stat().st_mode & 0o777 == 0o700


async def test_the_pods_group_owns_an_empty_dir(root_dir: Path) -> None:
    group = os.getgid()
    pod = pod_with(empty_dir(), securityContext={"fsGroup": group})
    info = Path((await VolumeManager(str(root_dir)).setup(pod))["v"].host_path).stat()
    assert (info.st_gid, info.st_mode & 0o7777) == (group, 0o2777)


async def test_every_problem_is_named(root_dir: Path) -> None:
    pod = pod_with(
        {"name": "a", "hostPath": {"path": "/none/a", "type": "Directory"}},
        empty_dir("b"),
        {"name": "c", "configMap": {"name": "cm"}},
        empty_dir("d", medium="HugePages"),
    )
    with pytest.raises(VolumeError) as caught:
        await VolumeManager(str(root_dir)).setup(pod)
    assert str(caught.value) == (
        'MountVolume.SetUp failed for volume "a" : hostPath type check failed: /none/a is not a'
        ' directory; MountVolume.SetUp failed for volume "c" : cannot read configmaps'
        ' default/cm: this node has no apiserver; MountVolume.SetUp failed for volume "d" : unknown'
        " storage medium 'HugePages'"
    )


async def test_a_volume_that_nobody_mounts_is_left_alone(root_dir: Path) -> None:
    pod = a_pod(volumes=[{"name": "a", "hostPath": {"path": "/none", "type": "Directory"}}])
    assert await VolumeManager(str(root_dir)).setup(pod) == {}


@pytest.mark.root
@pytest.mark.parametrize(
    ("fields", "allocatable", "pod_limit", "size"),
    [
        ({"sizeLimit": "64Mi"}, None, None, 64 * MIB),
        ({"sizeLimit": "64Mi"}, "32Mi", None, 32 * MIB),
        ({"sizeLimit": "64Mi"}, "1Gi", "16Mi", 16 * MIB),
        ({}, "48Mi", None, 48 * MIB),
    ],
)
async def test_B48_a_memory_volume_is_as_large_as_its_limit(
    as_root: None,
    root_dir: Path,
    fields: dict[str, str],
    allocatable: str | None,
    pod_limit: str | None,
    size: int,
) -> None:
    node = NodeContext("n", allocatable={"memory": allocatable}) if allocatable else None
    pod = pod_with(empty_dir(medium="Memory", **fields))
    if pod_limit:
        container = a_container(
            resources={"limits": {"memory": pod_limit}},
            volumeMounts=[{"name": "v", "mountPath": "/v"}],
        )
        pod = a_pod(container, volumes=[empty_dir(medium="Memory", **fields)])
    manager = VolumeManager(str(root_dir), node)
    path = (await manager.setup(pod))["v"].host_path
    info = os.statvfs(path)
    assert info.f_blocks * info.f_frsize == size
    assert Path(path).stat().st_mode & 0o7777 == 0o777
    await manager.setup(pod)
    assert list(mounts.mounts_below(path)) == [path]
    await manager.teardown("uid-1")
    assert not mounts.is_mount_point(path)


async def test_teardown_removes_all_and_may_be_repeated(root_dir: Path) -> None:
    manager = VolumeManager(str(root_dir))
    host = root_dir.parent / "host"
    host.mkdir()
    (host / "data").write_text("kept")
    pod = pod_with(empty_dir("e"), {"name": "h", "hostPath": {"path": str(host)}})
    ready = await manager.setup(pod)
    Path(ready["e"].host_path, "link").symlink_to(host)
    await manager.teardown("uid-1")
    await manager.teardown("uid-1")
    assert list((root_dir / "pods" / "uid-1").iterdir()) == []
    assert (host / "data").read_text() == "kept"


@pytest.mark.root
async def test_teardown_never_removes_what_is_mounted_inside(as_root: None, root_dir: Path) -> None:
    manager = VolumeManager(str(root_dir))
    path = Path((await manager.setup(pod_with(empty_dir())))["v"].host_path)
    precious = root_dir.parent / "precious"
    precious.mkdir()
    (precious / "data").write_text("kept")
    (path / "inside").mkdir()
    mounts.bind(str(precious), str(path / "inside"))
    await manager.teardown("uid-1")
    assert (precious / "data").read_text() == "kept"
    assert not path.exists()


@pytest.mark.root
async def test_teardown_of_a_busy_tmpfs(as_root: None, root_dir: Path) -> None:
    manager = VolumeManager(str(root_dir))
    path = Path(
        (await manager.setup(pod_with(empty_dir(medium="Memory", sizeLimit="1Mi"))))["v"].host_path
    )
    with (path / "open").open("w"):
        await manager.teardown("uid-1")
    assert not path.exists()


async def test_stale_pods_are_found_on_disk(root_dir: Path) -> None:
    manager = VolumeManager(str(root_dir))
    assert await manager.stale_pods() == []
    for uid in ("b", "a"):
        await manager.setup(pod_with(empty_dir(), uid=uid))
    assert await manager.stale_pods() == ["a", "b"]


class Away:
    """ConfigMaps of an apiserver that may be away."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    async def get(self, ref: Ref) -> Document:
        if self.error is not None:
            raise self.error
        return {"data": {"k": ref.name}}


async def test_files_that_are_there_serve_while_the_apiserver_is_away(root_dir: Path) -> None:
    """Not when it says no, and not for a pod that never had them."""
    away = Away()
    manager = VolumeManager(str(root_dir), contents=Contents(NodeContext("n1"), away))
    pod = pod_with({"name": "v", "configMap": {"name": "cm"}})
    first = await manager.setup(pod)
    away.error = Unavailable("away")
    assert await manager.setup(pod) == first
    assert (Path(first["v"].host_path) / "k").read_text() == "cm"
    with pytest.raises(VolumeError, match='failed for volume "v" : away'):
        await manager.setup(pod_with({"name": "v", "configMap": {"name": "cm"}}, uid="other"))
    away.error = NotFound('configmap "cm" not found', code=404)
    with pytest.raises(VolumeError, match='configmap "cm" not found'):
        await manager.setup(pod)


@pytest.mark.parametrize("uid", ["", ".", "..", "a/b", "/etc"])
async def test_only_a_uid_names_a_folder(root_dir: Path, uid: str) -> None:
    with pytest.raises(VolumeError, match="not a uid"):
        await VolumeManager(str(root_dir)).teardown(uid)


class Hanging:
    """A plugin that hangs as a dead file server does, until it is let go."""

    kind = "test/hanging"

    def __init__(self) -> None:
        self.began = threading.Event()
        self.go = threading.Event()

    def supports(self, volume: Volume) -> bool:
        return True

    def setup(
        self, pod: Pod, volume: Volume, folders: PodFolders, node: NodeContext | None
    ) -> MountedVolume:
        self.began.set()
        assert self.go.wait(10)
        made = folders.volume(self.kind, volume.name)
        made.mkdir(parents=True)
        return MountedVolume(volume.name, str(made))


async def test_an_abandoned_setup_leaves_nothing_behind_a_teardown(root_dir: Path) -> None:
    plugin = Hanging()
    manager = VolumeManager(str(root_dir), plugins=(plugin,))
    async with anyio.create_task_group() as group:
        group.start_soon(manager.setup, pod_with(empty_dir()))
        await anyio.to_thread.run_sync(plugin.began.wait)
        group.cancel_scope.cancel()
    async with anyio.create_task_group() as group:
        group.start_soon(manager.teardown, "uid-1")
        await anyio.lowlevel.checkpoint()
        plugin.go.set()
    assert list((root_dir / "pods" / "uid-1").iterdir()) == []
