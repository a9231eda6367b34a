"""Cgroups: v2 on a tree of plain files, v1 on the kernel's own hierarchies where there are any."""

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from minikubelet.host.cgroups import Cgroups, Hierarchies, detect
from minikubelet.host.mounts import Mount, parse_mountinfo

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Resources:
    cpu_shares: int = 2
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit: int | None = None
    pids_limit: int | None = None


ALL = Resources(512, 50_000, 100_000, 64 << 20, 100)


def mounted(*lines: str) -> list[Mount]:
    return parse_mountinfo("\n".join(lines))


V2 = "30 1 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw"
V1_CPU = "31 1 0:2 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct"
V1_NAMED = "32 1 0:3 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd"
UNIFIED = "33 1 0:4 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw"


def test_a_machine_with_v2_alone() -> None:
    found = detect(mounted(V2))
    assert (found.version, found.mounts) == (2, [Path("/sys/fs/cgroup")])


def test_on_a_hybrid_machine_v1_counts() -> None:
    found = detect(mounted(V1_CPU, V1_NAMED, UNIFIED))
    assert found.version == 1
    assert found.v1["cpu"] == found.v1["cpuacct"] == Path("/sys/fs/cgroup/cpu,cpuacct")
    assert [path.name for path in found.mounts] == ["cpu,cpuacct", "systemd", "unified"]


def test_without_any_cgroups_there_is_an_error() -> None:
    with pytest.raises(OSError, match="no cgroup file system"):
        detect(mounted())


class PlainTree:
    """A v2 mount made of files: whatever the kernel would make appears when a folder does."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.cgroups = Cgroups(Hierarchies({}, root))

    def add(self, *paths: str) -> None:
        for path in paths:
            folder = self.root / path
            folder.mkdir(exist_ok=True)
            (folder / "cgroup.controllers").write_text("cpuset cpu memory pids rdma\n")
            (folder / "cgroup.subtree_control").write_text("cpu\n")

    def read(self, name: str) -> str:
        return (self.root / name).read_text()


@pytest.fixture
def v2(tmp_path: Path) -> PlainTree:
    tree = PlainTree(tmp_path)
    tree.add("", "pods", "pods/pod1")
    return tree


async def test_v2_is_set_and_passes_its_controllers_down(v2: PlainTree) -> None:
    await v2.cgroups.ensure("/pods/pod1", ALL)
    assert v2.read("pods/pod1/cpu.weight") == str(1 + 510 * 9999 // 262142)
    assert v2.read("pods/pod1/cpu.max") == "50000 100000"
    assert v2.read("pods/pod1/memory.max") == str(64 << 20)
    assert v2.read("pods/pod1/pids.max") == "100"
    for folder in ("", "pods/", "pods/pod1/"):
        assert v2.read(f"{folder}cgroup.subtree_control") == "+cpuset +memory +pids"


async def test_v2_leaves_alone_what_is_not_given(v2: PlainTree) -> None:
    await v2.cgroups.ensure("/pods/pod1", Resources())
    names = {path.name for path in (v2.root / "pods/pod1").iterdir()}
    assert names == {"cgroup.controllers", "cgroup.subtree_control", "cpu.weight"}
    assert v2.read("pods/pod1/cpu.weight") == "1"


async def test_v2_writes_no_limit_as_max(v2: PlainTree) -> None:
    await v2.cgroups.ensure("/pods/pod1", Resources(cpu_quota_us=-1, cpu_period_us=100_000))
    assert v2.read("pods/pod1/cpu.max") == "max 100000"


async def test_the_same_again_writes_nothing(v2: PlainTree) -> None:
    await v2.cgroups.ensure("/pods/pod1", ALL)
    (v2.root / "pods/pod1/memory.max").write_text("changed by hand")
    await v2.cgroups.ensure("/pods/pod1", ALL)
    assert v2.read("pods/pod1/memory.max") == "changed by hand"
    await v2.cgroups.ensure("/pods/pod1", Resources(memory_limit=1))
    assert v2.read("pods/pod1/memory.max") == "1"


async def test_a_path_with_its_parent_in_it_is_refused(v2: PlainTree) -> None:
    with pytest.raises(OSError, match="names its parent"):
        await v2.cgroups.ensure("/pods/../../x", ALL)


async def test_the_root_is_never_removed(v2: PlainTree) -> None:
    with pytest.raises(OSError, match="cannot remove the root cgroup"):
        await v2.cgroups.remove("/")


@pytest.fixture
def kernel_v1() -> Iterator[tuple[Cgroups, str]]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    found = detect()
    if found.version != 1:
        pytest.skip("needs cgroup v1")
    name = f"/minikubelet-unit-{os.getpid()}"
    yield Cgroups(found), name
    for root in found.mounts:
        for folder, _, _ in os.walk(root / name.strip("/"), topdown=False):
            Path(folder).rmdir()


@pytest.mark.root
async def test_v1_is_set_in_the_kernel(kernel_v1: tuple[Cgroups, str]) -> None:
    cgroups, name = kernel_v1
    path = f"{name}/burstable/pod1"
    await cgroups.ensure(path, ALL)
    v1 = cgroups.hierarchies.v1

    def read(controller: str, file: str) -> str:
        return v1[controller].joinpath(path.strip("/"), file).read_text().strip()

    assert read("cpu", "cpu.shares") == "512"
    assert read("cpu", "cpu.cfs_quota_us") == "50000"
    assert read("memory", "memory.limit_in_bytes") == str(64 << 20)
    assert read("pids", "pids.max") == "100"
    assert read("cpuset", "cpuset.cpus") != ""
    assert cgroups.exists(path)
    assert cgroups.list_children(f"{name}/burstable") == ["pod1"]
    await cgroups.remove(name)
    assert not cgroups.exists(path)
    assert cgroups.list_children(name) == []
    await cgroups.remove(name)  # what is gone is gone


@pytest.mark.root
async def test_a_cgroup_is_removed_with_the_process_that_is_left_in_it(
    kernel_v1: tuple[Cgroups, str],
) -> None:
    cgroups, name = kernel_v1
    await cgroups.ensure(f"{name}/pod1/container")
    process = subprocess.Popen(["sleep", "1000"])  # noqa: ASYNC220  reaped below
    try:
        procs = cgroups.hierarchies.v1["memory"] / name.strip("/") / "pod1/container/cgroup.procs"
        procs.write_text(str(process.pid))
        assert cgroups.processes_below(name, "ontain") == {process.pid}
        assert cgroups.processes_below(f"{name}/pod1", "other") == set()
        assert cgroups.processes_below(f"{name}/pod2", "container") == set()
        await cgroups.remove(f"{name}/pod1")
        assert cgroups.list_children(name) == []
    finally:
        process.kill()
        process.wait()
