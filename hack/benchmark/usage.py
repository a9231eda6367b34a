"""CPU and memory of all processes of a contestant, found by a cgroup of its own.

A cgroup counts the CPU time of processes that have ended and of those that found another parent,
too. Container processes aren't in it: the runtime moves each into its container's cgroup.
"""

import re
from pathlib import Path

from benchmark.room import MARK

_ROOT = Path("/sys/fs/cgroup")
_RSS = re.compile(r"^VmRSS:\s+(\d+) kB$", re.MULTILINE)
_NANOSECONDS = 1e9
_MICROSECONDS = 1e6


class Meter:
    """One cgroup that only counts: of cgroup v1's cpuacct hierarchy, else of the unified one."""

    def __init__(self, name: str) -> None:
        base = next((path for path in _accounting() if path.is_dir()), _ROOT)
        self._folder = base / f"{MARK}-{name}"
        self._folder.mkdir(exist_ok=True)

    @property
    def procs(self) -> Path:
        """The file that a process enters by."""
        return self._folder / "cgroup.procs"

    def pids(self) -> list[int]:
        """Return the processes inside."""
        return [int(line) for line in self.procs.read_text().split()]

    def cpu_seconds(self) -> float:
        """Return the CPU time used so far by all that ever were inside."""
        accounted = self._folder / "cpuacct.usage"
        if accounted.exists():
            return int(accounted.read_text()) / _NANOSECONDS
        lines = (self._folder / "cpu.stat").read_text().split("\n")
        fields = dict(line.split() for line in lines if line)
        return int(fields["usage_usec"]) / _MICROSECONDS

    def rss_bytes(self) -> int:
        """Return the sum of VmRSS; pages that two processes share count twice."""
        return sum(_rss(pid) for pid in self.pids())


def _accounting() -> tuple[Path, ...]:
    return (_ROOT / "cpuacct", _ROOT / "cpu,cpuacct")


def _rss(pid: int) -> int:
    try:
        text = Path("/proc", str(pid), "status").read_text()
    except OSError:
        return 0
    match = _RSS.search(text)
    return int(match[1]) * 1024 if match else 0
