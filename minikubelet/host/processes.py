"""Processes of the machine as /proc shows them, and how to kill one without hitting another.

A pid may be given away again: a process is its pid together with its start time, and a signal goes
through a pidfd that was checked after it was opened. Source: proc_pid_stat(5), pidfd_open(2).
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Process:
    """One process; `started` counts clock ticks since the machine's boot."""

    pid: int
    parent: int
    session: int
    started: int

    @property
    def leads_session(self) -> bool:
        """True for the first process of its session."""
        return self.pid == self.session


def ticks_now() -> int:
    """Return the time that a process started now would show."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


def read(pid: int) -> Process | None:
    """Return a living process; None when it is gone or only waits to be reaped."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The name in brackets may hold anything, brackets included.
    fields = text.rpartition(")")[2].split()
    if fields[0] in "ZX":
        return None
    return Process(pid, int(fields[1]), int(fields[3]), int(fields[19]))


def read_all(pids: Iterable[int]) -> list[Process]:
    """Return those that live, the one started first first."""
    found = [process for pid in pids if (process := read(pid)) is not None]
    return sorted(found, key=lambda process: (process.started, process.pid))


def argv(process: Process) -> list[str]:
    """Return a process' arguments; none when it is gone."""
    with suppress(OSError):
        raw = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        return [part.decode(errors="replace") for part in raw.split(b"\0")[:-1]]
    return []


def outputs(process: Process) -> set[str]:
    """Return what stdout and stderr are (`pipe:[123]`)."""
    found = set()
    for number in (1, 2):
        with suppress(OSError):
            found.add(str(Path(f"/proc/{process.pid}/fd/{number}").readlink()))
    return found


def open_fd(process: Process) -> int | None:
    """Return a pidfd, readable once the process has ended; None when it has already."""
    try:
        fd = os.pidfd_open(process.pid)
    except OSError:
        return None
    now = read(process.pid)
    if now is not None and now.started == process.started:
        return fd
    os.close(fd)
    return None


def kill(process: Process) -> None:
    """End a process by SIGKILL; one that is gone is fine."""
    fd = open_fd(process)
    if fd is None:
        return
    try:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(fd, signal.SIGKILL)
    finally:
        os.close(fd)
