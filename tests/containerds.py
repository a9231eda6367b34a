"""Private containerds for contract and e2e tests, and the check that nothing is left behind.

Loaded as a pytest plugin. A session takes a free slot (a folder held by a lock), first cleans what
a killed session left in it, and starts each version of containerd once, when first asked for.
"""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests import clusters, leftovers

HACK = Path(__file__).parent.parent / "hack"
SLOTS = Path("/var/tmp/minikubelet-tests")  # noqa: S108  the same for all sessions, made by root
VERSIONS = ("1.6", "2")
BUSYBOX = "localhost/minikubelet/busybox:1"


@dataclass(frozen=True)
class Containerd:
    """One private containerd."""

    version: str
    folder: Path

    @property
    def socket(self) -> Path:
        return self.folder / "containerd.sock"

    @property
    def endpoint(self) -> str:
        return f"unix://{self.socket}"

    def start(self) -> None:
        """Start it, or start it again; loads the images if they are missing."""
        hack_containerd("start", "--version", self.version, "--dir", str(self.folder))

    def stop(self) -> None:
        """Stop the daemon; its pods run on."""
        hack_containerd("stop", "--keep-pods", "--dir", str(self.folder))

    def clean(self) -> None:
        """Remove its pods, everything it made on the machine, and its folder."""
        hack_containerd("clean", "--dir", str(self.folder))


def hack_containerd(*arguments: str) -> None:
    """Run hack/containerd; its output is shown when it fails."""
    argv = [str(HACK / "containerd"), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(argv)} failed:\n{done.stdout}{done.stderr}"


class Pool:
    """The session's containerds, by version."""

    def __init__(self, mark: leftovers.Mark) -> None:
        self._mark = mark
        self._running: dict[str, Containerd] = {}

    def get(self, version: str) -> Containerd:
        """Return a running containerd."""
        if version not in self._running:
            containerd = Containerd(version, self._mark.containerd_folder(version))
            self._running[version] = containerd
            containerd.start()
        return self._running[version]

    def clean(self) -> None:
        for containerd in self._running.values():
            containerd.clean()


def _take_slot() -> tuple[int, leftovers.Mark]:
    SLOTS.mkdir(exist_ok=True)
    for number in range(16):
        lock = os.open(SLOTS / f"{number}.lock", os.O_CREAT | os.O_RDWR)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        return lock, leftovers.Mark(SLOTS / str(number), f"minikubelet-test-{number}")
    raise AssertionError(f"all test slots in {SLOTS} are taken")


@pytest.fixture(scope="session")
def session_mark() -> Iterator[leftovers.Mark]:
    """The session's folder and cgroup name. After the session nothing of it may be left."""
    if os.geteuid() != 0:
        pytest.skip("needs root")
    lock, mark = _take_slot()
    for version in (*VERSIONS, "cluster"):
        Containerd(version, mark.containerd_folder(version)).clean()
    clusters.Cluster(mark.cluster_folder).clean()
    leftovers.clear(mark)
    if mark.folder.exists():
        shutil.rmtree(mark.folder)
    mark.folder.mkdir()
    yield mark
    leftovers.remove_cgroup_root(mark)
    found = leftovers.find(mark)
    shutil.rmtree(mark.folder, ignore_errors=True)
    os.close(lock)
    assert not found, "the tests left behind:\n" + "\n".join(found)


@pytest.fixture(scope="session")
def containerds(session_mark: leftovers.Mark) -> Iterator[Pool]:
    pool = Pool(session_mark)
    yield pool
    pool.clean()


@pytest.fixture(scope="session", params=VERSIONS, ids=lambda version: f"containerd-{version}")
def containerd(request: pytest.FixtureRequest, containerds: Pool) -> Containerd:
    """A running private containerd: the test runs once with each version."""
    return containerds.get(request.param)
