"""What a test session left on the machine.

Everything that a session makes carries its mark: a folder, the cgroup root, or the names of links
and networks that hack/containerd and hack/cluster derive from the folder. A cluster's network
namespace shows as a mount in the folder. So leftovers are found among other users'
things, and a second session at the same time doesn't matter.
"""

import hashlib
import os
import shutil
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import anyio

from minikubelet.host.cgroups import Cgroups, detect
from minikubelet.host.mounts import mounts_below, unmount

SHARED = Path("/run/minikubelet-hack/instances")


@dataclass(frozen=True)
class Mark:
    """What belongs to a session: a folder with all its files, and the name of its cgroup root."""

    folder: Path
    cgroup: str

    def containerd_folder(self, version: str) -> Path:
        return self.folder / f"containerd-{version}"

    @property
    def cluster_folder(self) -> Path:
        return self.folder / "cluster"

    @property
    def tags(self) -> list[str]:
        """The tags of hack/containerd's instances in the folder: a hash of their own folders."""
        return [_tag(self.containerd_folder(version)) for version in ("1.6", "2", "cluster")]

    @property
    def cluster_link(self) -> str:
        """The veth between the machine and hack/cluster's network."""
        return f"mkc{_tag(self.cluster_folder)}"


def _tag(folder: Path) -> str:
    return hashlib.sha256(str(folder).encode()).hexdigest()[:8]


def find(mark: Mark) -> list[str]:
    """Return a line for each thing that is still there."""
    return [
        *_mounts(mark),
        *_links(mark),
        *_rules(mark),
        *_cgroups(mark),
        *_processes(mark),
        *_log_links(mark),
    ]


def remove_cgroup_root(mark: Mark) -> None:
    """Remove the cgroup that the session's agents had their own ones in, if they left none."""
    for mount in detect().mounts:
        with suppress(OSError):
            (mount / mark.cgroup).rmdir()


def clear(mark: Mark) -> None:
    """Remove the agents, cgroups, mounts and log links that a killed session left in its folder.

    Containerds and the cluster go before it, with their own clean; the folder goes after it.
    """
    for pid, _ in _processes_of(mark):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    end_cgroup(mark.cgroup)
    detach(mark.folder)


def detach(folder: Path) -> None:
    """Take away what ties a folder to the machine: mounts below it, log links into it."""
    for point in mounts_below(str(folder)):
        unmount(point, detach=True)
    for link in _log_links_into(folder):
        link.unlink(missing_ok=True)


def end_cgroup(cgroup: str) -> None:
    """Kill all that runs in a cgroup or below, and remove it.

    A node with namespaces of its own (tests/e2e/kindlike) has all of them only by its processes,
    and these are all in its cgroup.
    """
    # In a thread: whoever asks for the session's mark may have an event loop already.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(anyio.run, Cgroups(detect()).remove, f"/{cgroup}").result()


def _mounts(mark: Mark) -> list[str]:
    return [f"mount {point}" for point in mounts_below(str(mark.folder))]


def _log_links(mark: Mark) -> list[str]:
    return [f"log link {link}" for link in _log_links_into(mark.folder)]


def _log_links_into(folder: Path) -> list[Path]:
    found = []
    for link in sorted(Path("/var/log/containers").glob("*.log")):
        # Other agents of the machine remove theirs at the same time.
        with suppress(FileNotFoundError):
            if str(link.readlink()).startswith(f"{folder}/"):
                found.append(link)
    return found


def _links(mark: Mark) -> list[str]:
    bridges = {f"mk{tag}" for tag in mark.tags}
    found = []
    for link in sorted(Path("/sys/class/net").iterdir()):
        master = link / "master"
        above = master.resolve().name if master.exists() else ""
        if link.name in {*bridges, mark.cluster_link} or above in bridges:
            found.append(f"link {link.name}")
    return found


def _rules(mark: Mark) -> list[str]:
    found = []
    alone = not SHARED.is_dir() or not any(SHARED.iterdir())
    for command in ("iptables", "ip6tables"):
        path = shutil.which(command, path="/usr/sbin:/sbin:/usr/bin:/bin")
        if path is None:
            continue
        argv = [path, "-w", "10", "-t", "nat", "-S"]
        rules = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        for rule in rules.splitlines():
            ours = any(f"minikubelet-{tag}" in rule for tag in mark.tags)
            # Chains that all networks of portmap share go with the last instance.
            if ours or (alone and rule.startswith("-N CNI-DN-")):
                found.append(f"{command} rule {rule}")
    return found


def _cgroups(mark: Mark) -> list[str]:
    mounts = detect().mounts
    return [f"cgroup {root / mark.cgroup}" for root in mounts if (root / mark.cgroup).exists()]


def _processes(mark: Mark) -> list[str]:
    return [f"process {pid} {command}" for pid, command in _processes_of(mark)]


def _processes_of(mark: Mark) -> list[tuple[int, str]]:
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal() or int(folder.name) == os.getpid():
            continue
        try:
            command = (
                (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            )
            cgroups = (folder / "cgroup").read_text()
        except OSError:  # it ended meanwhile
            continue
        # A zombie has no command line: it is PID 1's to reap and uses nothing.
        if command and (f"{mark.folder}/" in command or f"/{mark.cgroup}/" in cgroups):
            found.append((int(folder.name), command.strip()))
    return found
