"""The search for leftovers finds each kind, and none on a clean machine; a killed session's go."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from minikubelet.host import mounts
from minikubelet.host.cgroups import detect
from tests.leftovers import Mark, clear, find


@pytest.fixture
def mark(tmp_path: Path) -> Iterator[Mark]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    yield Mark(tmp_path, f"minikubelet-leftover-{os.getpid()}")
    for point in mounts.mounts_below(str(tmp_path)):
        mounts.unmount(point)


def a_mount(mark: Mark) -> Callable[[], None]:
    target = mark.folder / "mounted"
    target.mkdir()
    mounts.tmpfs(str(target), 4096)
    return lambda: mounts.unmount(str(target))


def a_link(mark: Mark) -> Callable[[], None]:
    name = f"mk{mark.tags[0]}"
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    return lambda: void(subprocess.run(["ip", "link", "del", name], check=True))


def a_cluster_link(mark: Mark) -> Callable[[], None]:
    name = mark.cluster_link
    subprocess.run(["ip", "link", "add", name, "type", "bridge"], check=True)
    return lambda: void(subprocess.run(["ip", "link", "del", name], check=True))


def a_rule(mark: Mark) -> Callable[[], None]:
    comment = ["-m", "comment", "--comment", f'dnat name: "minikubelet-{mark.tags[1]}" id: "x"']
    rule = ["OUTPUT", "-d", "192.0.2.254", *comment]
    command = ["iptables", "-w", "10", "-t", "nat"]
    subprocess.run([*command, "-A", *rule], check=True)
    return lambda: void(subprocess.run([*command, "-D", *rule], check=True))


def a_cgroup(mark: Mark) -> Callable[[], None]:
    folder = detect().mounts[0] / mark.cgroup
    folder.mkdir()
    return folder.rmdir


def a_log_link(mark: Mark) -> Callable[[], None]:
    link = Path(f"/var/log/containers/{mark.cgroup}.log")
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(mark.folder / "logs" / "0.log")
    return link.unlink


def a_process(mark: Mark) -> Callable[[], None]:
    (mark.folder / "file").touch()
    process = subprocess.Popen(["tail", "-f", str(mark.folder / "file")])

    def end() -> None:
        process.kill()
        process.wait()

    return end


def void(_: object) -> None:
    pass


@pytest.mark.root
def test_a_clean_machine_has_none(mark: Mark) -> None:
    assert find(mark) == []


@pytest.mark.root
@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (a_mount, "mount "),
        (a_link, "link "),
        (a_cluster_link, "link "),
        (a_rule, "iptables rule "),
        (a_cgroup, "cgroup "),
        (a_process, "process "),
        (a_log_link, "log link "),
    ],
)
def test_each_kind_is_found(
    mark: Mark, make: Callable[[Mark], Callable[[], None]], kind: str
) -> None:
    undo = make(mark)
    try:
        found = find(mark)
    finally:
        undo()
    assert [line.startswith(kind) for line in found] == [True]
    assert find(mark) == []


@pytest.mark.root
def test_what_a_killed_session_left_is_cleared(mark: Mark) -> None:
    below = mark.folder / "mounted" / "again"
    a_mount(mark)
    below.mkdir()
    mounts.tmpfs(str(below), 4096)
    a_cgroup(mark)
    a_log_link(mark)
    (mark.folder / "file").touch()
    with subprocess.Popen(["tail", "-f", str(mark.folder / "file")]) as process:
        assert {line.split()[0] for line in find(mark)} == {"mount", "cgroup", "log", "process"}
        clear(mark)
        assert process.wait(5) == -signal.SIGKILL
    assert find(mark) == []
