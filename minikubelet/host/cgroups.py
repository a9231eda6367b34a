"""The one door to cgroups: the agent's own ones, above those that a runtime makes for containers.

`detect` finds out how the kernel's controllers are mounted; on a hybrid machine the v1 hierarchies
count and the v2 mount is only kept tidy. Paths are as CRI's cgroup_parent: absolute, below the
mount ("/kubepods/burstable/pod1"). Nothing here knows pods. Writing a control file is quick,
removing may wait for processes to go: both run in a thread.
Source: cgroups(7), kernel Documentation/admin-guide cgroup-v1 and cgroup-v2.
"""

import errno
import os
import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import anyio
import anyio.to_thread

from minikubelet.host.mounts import Mount, list_mounts

_MIN_SHARES, _MAX_SHARES = 2, 262144
_WANTED_V2 = ("cpuset", "cpu", "io", "memory", "pids", "hugetlb")
_REMOVE_ROUNDS = 8
_FIRST_PAUSE = 0.01


class CgroupResources(Protocol):
    """What a cgroup is set to. None leaves what is there; a quota of -1 is no limit."""

    @property
    def cpu_shares(self) -> int:
        """Relative weight as cgroup v1 counts it, 2..262144."""

    @property
    def cpu_quota_us(self) -> int | None:
        """CPU time in a period, in microseconds."""

    @property
    def cpu_period_us(self) -> int | None:
        """The period, in microseconds."""

    @property
    def memory_limit(self) -> int | None:
        """Bytes."""

    @property
    def pids_limit(self) -> int | None:
        """Processes and threads."""


class Hierarchies:
    """How cgroups are mounted. `v1` maps a controller to its mount; `unified` is the v2 mount."""

    def __init__(self, v1: Mapping[str, Path], unified: Path | None) -> None:
        self.v1 = dict(v1)
        self.unified = unified

    @property
    def version(self) -> int:
        """1 when any controller is on a v1 hierarchy, also beside a v2 mount."""
        return 1 if self.v1 else 2

    @property
    def mounts(self) -> list[Path]:
        """Every hierarchy, each once."""
        return list(dict.fromkeys([*self.v1.values(), *([self.unified] if self.unified else [])]))


def detect(mounts: Iterable[Mount] | None = None) -> Hierarchies:
    """Return the hierarchies of this machine. Raises OSError when no cgroups are mounted."""
    v1: dict[str, Path] = {}
    unified: Path | None = None
    for mount in list_mounts() if mounts is None else mounts:
        path = Path(mount.mount_point)
        if mount.fs_type == "cgroup2":
            unified = unified or path
        elif mount.fs_type == "cgroup":
            named = [each for each in mount.super_options.split(",") if each not in {"rw", "ro"}]
            v1.update({name: path for name in named if name not in v1})
    if not v1 and unified is None:
        raise OSError(errno.ENOENT, "cannot use cgroups: no cgroup file system is mounted")
    return Hierarchies(v1, unified)


class Cgroups:
    """Makes, sets and removes cgroups."""

    def __init__(self, hierarchies: Hierarchies) -> None:
        self.hierarchies = hierarchies
        self._applied: dict[str, CgroupResources] = {}

    async def ensure(self, path: str, resources: CgroupResources | None = None) -> None:
        """Make a cgroup with its parents and set it. Idempotent; raises OSError."""
        if self._applied.get(path) == resources and self.exists(path):
            return
        await anyio.to_thread.run_sync(self._ensure, path, resources)
        if resources is not None:
            self._applied[path] = resources

    async def remove(self, path: str) -> None:
        """Remove a cgroup with all below; processes still in it are killed. Raises OSError.

        A cgroup stays busy until its last process is reaped, hence a few rounds with growing
        pauses, about 2.5 s in all.
        """
        self._applied.pop(path, None)
        pause = _FIRST_PAUSE
        for round_ in range(_REMOVE_ROUNDS):
            problem = await anyio.to_thread.run_sync(self._remove, path, round_ > 1)
            if problem is None:
                return
            if round_ == _REMOVE_ROUNDS - 1:
                text = f"cannot remove the cgroup {path}: {problem.strerror}"
                raise OSError(problem.errno, text) from problem
            await anyio.sleep(pause)
            pause *= 2

    def exists(self, path: str) -> bool:
        """Return whether the cgroup is there in every hierarchy that counts."""
        return all((root / path.lstrip("/")).is_dir() for root in self._counting())

    def list_children(self, path: str) -> list[str]:
        """Return the names of the cgroups directly below, in any hierarchy."""
        names: set[str] = set()
        for root in self.hierarchies.mounts:
            with suppress(OSError):
                names.update(
                    each.name for each in (root / path.lstrip("/")).iterdir() if each.is_dir()
                )
        return sorted(names)

    def processes_below(self, path: str, part: str) -> set[int]:
        """Return the pids in the cgroups below `path` whose name contains `part`."""
        for root in self._counting():
            found: set[int] = set()
            for folder, _, _ in os.walk(root / path.lstrip("/")):
                if part in folder:
                    with suppress(OSError):
                        text = Path(folder, "cgroup.procs").read_text()
                        found.update(int(pid) for pid in text.split() if pid != "0")
            if found:
                return found
        return set()

    def _counting(self) -> list[Path]:
        v1 = list(dict.fromkeys(self.hierarchies.v1.values()))
        return v1 or self.hierarchies.mounts

    def _ensure(self, path: str, resources: CgroupResources | None) -> None:
        parts = [part for part in path.split("/") if part]
        if ".." in parts:
            raise OSError(errno.EINVAL, f"cannot make the cgroup {path}: it names its parent")
        if self.hierarchies.version == 1:
            _ensure_v1(self.hierarchies.v1, parts, resources)
        elif self.hierarchies.unified is not None:
            _ensure_v2(self.hierarchies.unified, parts, resources)

    def _remove(self, path: str, kill: bool) -> OSError | None:  # noqa: FBT001  run_sync passes no names
        problem: OSError | None = None
        for root in self.hierarchies.mounts:
            top = root / path.lstrip("/")
            if top == root:
                raise OSError(errno.EINVAL, "cannot remove the root cgroup")
            for folder in _bottom_up(top):
                if kill:
                    _kill_all(folder)
                try:
                    folder.rmdir()
                except FileNotFoundError:
                    continue
                except OSError as error:
                    problem = error
        return problem


def _ensure_v1(
    hierarchies: Mapping[str, Path], parts: list[str], resources: CgroupResources | None
) -> None:
    for controller, root in hierarchies.items():
        folder = root.joinpath(*parts)
        folder.mkdir(parents=True, exist_ok=True)
        if controller == "cpuset":
            _inherit(folder, root, "cpuset.cpus")
            _inherit(folder, root, "cpuset.mems")
    if resources is None:
        return

    def put(controller: str, name: str, value: int | None) -> None:
        if value is not None and controller in hierarchies:
            _write(hierarchies[controller].joinpath(*parts, name), str(value))

    put("cpu", "cpu.shares", _shares(resources))
    put("cpu", "cpu.cfs_period_us", resources.cpu_period_us)
    put("cpu", "cpu.cfs_quota_us", resources.cpu_quota_us)
    put("memory", "memory.limit_in_bytes", resources.memory_limit)
    put("pids", "pids.max", resources.pids_limit)


def _inherit(folder: Path, root: Path, name: str) -> str:
    """Fill a new v1 cpuset, whose files are empty: no process may enter it so. Return the value."""
    file = folder / name
    value = file.read_text().strip() if file.exists() else ""
    if not value and folder != root:
        value = _inherit(folder.parent, root, name)
        if value:
            _write(file, value)
    return value


def _ensure_v2(root: Path, parts: list[str], resources: CgroupResources | None) -> None:
    folder = root
    _delegate(folder)
    for part in parts:
        folder /= part
        folder.mkdir(exist_ok=True)
        _delegate(folder)  # what runtimes make below needs its controllers, too
    if resources is None:
        return
    weight = 1 + (_shares(resources) - _MIN_SHARES) * 9999 // (_MAX_SHARES - _MIN_SHARES)
    _write(folder / "cpu.weight", str(weight))
    if resources.cpu_quota_us is not None:
        quota = str(resources.cpu_quota_us) if resources.cpu_quota_us > 0 else "max"
        period = f" {resources.cpu_period_us}" if resources.cpu_period_us else ""
        _write(folder / "cpu.max", quota + period)
    if resources.memory_limit is not None:
        _write(folder / "memory.max", str(resources.memory_limit))
    if resources.pids_limit is not None:
        _write(folder / "pids.max", str(resources.pids_limit))


def _delegate(folder: Path) -> None:
    available = set((folder / "cgroup.controllers").read_text().split())
    enabled = set((folder / "cgroup.subtree_control").read_text().split())
    missing = [name for name in _WANTED_V2 if name in available - enabled]
    if missing:
        _write(folder / "cgroup.subtree_control", " ".join(f"+{name}" for name in missing))


def _shares(resources: CgroupResources) -> int:
    return min(max(resources.cpu_shares, _MIN_SHARES), _MAX_SHARES)


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text)
    except OSError as error:
        raise OSError(error.errno, f"cannot write {text!r} to {path}: {error.strerror}") from error


def _bottom_up(top: Path) -> Iterator[Path]:
    for folder, _, _ in os.walk(top, topdown=False):
        yield Path(folder)


def _kill_all(folder: Path) -> None:
    with suppress(OSError):
        for pid in (folder / "cgroup.procs").read_text().split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
