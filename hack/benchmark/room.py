"""Where a run lives: folders, the containerd's socket, the cgroups that tell who used what."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

NODE = "bench"
MARK = "minikubelet-bench"
"""All cgroups of a run begin so; `hack/bench` removes them by it."""


class BenchError(Exception):
    """The run can't go on; the text is for people."""


@dataclass(frozen=True, slots=True)
class Room:
    """The folder of a run and the programs it uses."""

    folder: Path
    hack: Path
    kubelet: Path

    @property
    def socket(self) -> Path:
        """The socket of the containerd that all contestants use."""
        return self.folder / "containerd" / "containerd.sock"

    @property
    def endpoint(self) -> str:
        """The same, as kubelets are told."""
        return f"unix://{self.socket}"


def say(text: str) -> None:
    """Tell the person who waits what goes on."""
    sys.stderr.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stderr.flush()


def in_cgroup(procs: Path, argv: list[str]) -> list[str]:
    """Return a command that enters a cgroup and then becomes `argv`."""
    return ["/bin/sh", "-c", 'echo $$ >"$0" && exec "$@"', str(procs), *argv]


def start_containerd(room: Room, procs: Path, inside: Sequence[str] = ()) -> None:
    """Start the private containerd inside a cgroup; its shims and their helpers stay there.

    `inside` is what it is called through, into a cluster's network.
    """
    argv = [*inside, str(room.hack / "containerd"), "start", "--version", "2"]
    argv += ["--dir", str(room.socket.parent)]
    subprocess.run(in_cgroup(procs, argv), check=True, stdout=subprocess.DEVNULL)
