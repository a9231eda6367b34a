"""Commands as a runtime starts them in a container, with processes of this machine."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from minikubelet.host.processes import Process, argv, kill, read, ticks_now
from minikubelet.probes.leftovers import Leftovers


class Container:
    """A shell that stands for a container's own process, and what is run beside it.

    The processes of its "cgroup" are those with a mark in their environment.
    """

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self._started: list[subprocess.Popen[bytes]] = []
        self.own = self.start("exec sleep 1000")

    def start(self, script: str) -> subprocess.Popen[bytes]:
        made = subprocess.Popen(
            ["/bin/sh", "-c", script],
            start_new_session=True,
            stdout=subprocess.PIPE,
            env={"MARK": self._mark, "PATH": "/usr/bin:/bin"},
        )
        self._started.append(made)
        return made

    def pids(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if f"MARK={self._mark}\0".encode() in (entry / "environ").read_bytes():
                    found.append(int(entry.name))
        return found

    def names(self) -> list[str]:
        processes = [process for pid in self.pids() if (process := read(pid)) is not None]
        return sorted(" ".join(argv(process)) for process in processes)

    def wait_for(self, *names: str) -> None:
        """Wait until exactly these run beside the container's own process."""
        until = time.monotonic() + 10
        expected = sorted([*names, "sleep 1000"])
        while self.names() != expected:
            assert time.monotonic() < until, (self.names(), expected)
            time.sleep(0.01)

    def clean(self) -> None:
        for pid in self.pids():
            process = read(pid)
            if process is not None:
                kill(process)
        for each in self._started:
            each.wait()
            assert each.stdout is not None
            each.stdout.close()


@pytest.fixture
def container(request: pytest.FixtureRequest) -> Iterator[Container]:
    made = Container(f"{request.node.name}-{time.monotonic_ns()}")
    made.wait_for()
    time.sleep(0.03)  # a clock tick: what comes later is younger
    yield made
    made.clean()


def names(found: list[Process]) -> list[str]:
    return sorted(" ".join(argv(process)) for process in found)


CASES = {
    "the command": ("exec sleep 11", ["sleep 11"]),
    "a child": ("sleep 12 & exec sleep 13", ["sleep 12", "sleep 13"]),
    "an own session": ("setsid sleep 14 & exec sleep 15", ["sleep 14", "sleep 15"]),
    "gone away": ("(setsid sleep 16 &) ; exec sleep 17", ["sleep 16", "sleep 17"]),
    "left in the background": ("sleep 18 &", ["sleep 18"]),
}


@pytest.mark.parametrize(("script", "expected"), CASES.values(), ids=CASES)
def test_what_belongs_to_a_command(container: Container, script: str, expected: list[str]) -> None:
    command = ["/bin/sh", "-c", script]
    leftovers = Leftovers(container.pids, command, ticks_now())
    container.start("(setsid sleep 21 > /dev/null 2>&1 &)").wait()
    made = container.start(script)
    if not script.startswith(("exec", "setsid", "(")) and "exec" not in script:
        made.wait()
    container.wait_for("sleep 21", *expected)
    assert names(leftovers.look()) == expected


def test_children_are_found_after_the_leader_s_end(container: Container) -> None:
    leftovers = Leftovers(container.pids, ["x"], ticks_now())
    made = container.start("sleep 31 & setsid sleep 32 & exec sleep 33")
    container.wait_for("sleep 31", "sleep 32", "sleep 33")
    assert len(leftovers.look()) == 3
    made.kill()
    made.wait()
    assert names(leftovers.look()) == ["sleep 31", "sleep 32"]


def test_older_processes_and_other_commands_are_left_alone(container: Container) -> None:
    container.start("exec sleep 41")
    container.wait_for("sleep 41")
    time.sleep(0.05)
    first = Leftovers(container.pids, ["sleep", "42"], ticks_now())
    second = Leftovers(container.pids, ["sleep", "43"], ticks_now())
    container.start("exec sleep 43")
    container.start("exec sleep 42")
    container.wait_for("sleep 41", "sleep 42", "sleep 43")
    assert names(first.look()) == ["sleep 42"]
    assert names(second.look()) == ["sleep 43"]


def test_equal_commands_are_told_apart(container: Container) -> None:
    command = ["sleep", "51"]
    first = Leftovers(container.pids, command, ticks_now())
    second = Leftovers(container.pids, command, ticks_now())
    container.start("exec sleep 51")
    container.start("exec sleep 51")
    container.wait_for("sleep 51", "sleep 51")
    (one,) = first.look()
    (other,) = second.look([one])
    assert one != other


def test_a_command_that_writes_to_the_container_s_log(container: Container) -> None:
    """It has the same output as the container's own processes then."""
    leftovers = Leftovers(container.pids, ["sleep", "61"], ticks_now())
    container.start(f"exec sleep 61 > /proc/{container.own.pid}/fd/1 2> /dev/null")
    container.start(f"setsid sleep 62 > /proc/{container.own.pid}/fd/1 2> /dev/null &").wait()
    container.wait_for("sleep 61", "sleep 62")
    assert names(leftovers.look()) == ["sleep 61"]


def test_a_container_that_is_gone() -> None:
    assert Leftovers(list, [sys.executable], ticks_now()).look() == []
