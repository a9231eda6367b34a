import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from minikubelet.host import processes
from minikubelet.host.processes import Process, argv, kill, open_fd, outputs, read, read_all

pytestmark = pytest.mark.anyio

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    started: list[subprocess.Popen[bytes]] = []

    def one(*command: str, **options: object) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(command, start_new_session=True, **options)  # type: ignore[call-overload]  # passed through
        started.append(made)
        return made  # type: ignore[no-any-return]  # as above

    yield one
    for each in started:
        each.kill()
        each.wait()
        if each.stdout is not None:
            each.stdout.close()


def reading(pid: int) -> Process:
    found = read(pid)
    assert found is not None
    return found


def test_what_is_read_of_a_process(start: Start) -> None:
    before = processes.ticks_now()
    process = reading(start("sleep", "100").pid)
    assert process.parent == os.getpid()
    assert process.leads_session
    assert before - 1 <= process.started <= processes.ticks_now() + 1


def test_a_name_may_hold_anything(start: Start) -> None:
    script = (
        "import ctypes, sys; ctypes.CDLL(None).prctl(15, b') R 1 (x');"
        " print(flush=True); sys.stdin.read()"
    )
    made = start(sys.executable, "-c", script, stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    assert made.stdout is not None
    made.stdout.readline()
    assert reading(made.pid).parent == os.getpid()
    assert made.stdin is not None
    made.stdin.close()


def test_who_is_dead_is_not_read(start: Start) -> None:
    made = start("true")
    os.waitid(os.P_PID, made.pid, os.WEXITED | os.WNOWAIT)
    assert read(made.pid) is None
    made.wait()
    assert read(made.pid) is None
    assert read_all([made.pid, os.getpid()]) == [reading(os.getpid())]


def test_arguments_and_outputs(start: Start) -> None:
    made = start("sleep", "100", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process = reading(made.pid)
    assert made.stdout is not None
    pipe = str(Path(f"/proc/self/fd/{made.stdout.fileno()}").readlink())
    assert outputs(process) == {pipe, "/dev/null"}
    assert argv(process) in ([], ["sleep", "100"])  # empty for a moment after the fork


def test_killing(start: Start) -> None:
    made = start("sleep", "100")
    kill(reading(made.pid))
    assert made.wait(5) == -signal.SIGKILL
    kill(Process(made.pid, 0, 0, 0))


def test_another_process_with_the_same_pid_is_spared(start: Start) -> None:
    made = start("sleep", "100")
    process = reading(made.pid)
    earlier = replace(process, started=process.started - 1)
    kill(earlier)
    assert open_fd(earlier) is None
    assert reading(made.pid) == process


async def test_a_pidfd_tells_the_end(start: Start) -> None:
    made = start("sleep", "0.2")
    fd = open_fd(reading(made.pid))
    assert fd is not None
    with anyio.fail_after(5):
        await anyio.wait_readable(fd)
    os.close(fd)
