"""Who is measured: two agents that read manifests, and a process that only makes the CRI calls.

One of them runs at a time, as each agent ends pods that it doesn't know. All of them prepare what
they need before the clock starts: an agent's manifests lie complete beside its folder, the bare
calls' messages are built.
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Protocol

import yaml

from benchmark.room import MARK, NODE, BenchError, Room, in_cgroup
from benchmark.usage import Meter

_START_SECONDS = 60.0
_STOP_SECONDS = 15.0
_PAUSE_SECONDS = 0.05
_ROOT = Path("/sys/fs/cgroup")


class Contestant(Protocol):
    """What a session needs of each. Times are monotonic, in seconds."""

    name: str
    is_agent: bool
    meter: Meter

    def start(self) -> None:
        """Start it; return when it is ready for pods."""

    def stop(self) -> None:
        """End its processes; its pods stay."""

    def prepare(self, pods: Sequence[dict[str, Any]]) -> None:
        """Take the pods in, so that only their names are needed later."""

    def add(self, names: Sequence[str]) -> float:
        """Start prepared pods; return when that was asked for."""

    def remove(self, name: str) -> float:
        """End a pod; return when that was asked for."""


class Agent:
    """A process that reads manifests; subclasses say by which command and configuration."""

    is_agent = True

    def __init__(self, name: str, room: Room) -> None:
        self.name = name
        self.meter = Meter(name)
        self._room = room
        self._folder = room.folder
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0
        self._starts = 0
        self.host = "127.0.0.1"
        """Where its healthz answers."""

    def start(self) -> None:
        """Start it on empty folders and wait for its healthz."""
        self._starts += 1
        self._folder = self._room.folder / f"{self.name}-{self._starts}"
        for name in ("manifests", "prepared", "logs"):
            (self._folder / name).mkdir(parents=True)
        self._make_cgroups()
        self._port = _free_port()
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._config()))
        argv = in_cgroup(self.meter.procs, self._command(config))
        with (self._folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
        wait(f"{self.name} to be healthy", self._healthy, _START_SECONDS)

    def _make_cgroups(self) -> None:
        # The kubelet wants its cgroup root to be there; hack/bench removes them.
        for hierarchy in (_ROOT, *_ROOT.iterdir()):
            if (hierarchy / "cgroup.procs").exists():
                (hierarchy / f"{MARK}-pods").mkdir(exist_ok=True)

    def _command(self, config: Path) -> list[str]:
        raise NotImplementedError

    def _config(self) -> dict[str, Any]:
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": str(self._folder / "manifests"),
            "podLogsDir": str(self._folder / "logs"),
            "containerRuntimeEndpoint": self._room.endpoint,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": f"/{MARK}-pods",
            "failCgroupV1": False,
            "oomScoreAdj": 0,
            "healthzPort": self._port,
        }

    def _healthy(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise BenchError(f"{self.name} ended by itself; its log: {self._folder}/agent.log")
        connection = http.client.HTTPConnection(self.host, self._port, timeout=5)
        try:
            connection.request("GET", "/healthz")
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
        finally:
            connection.close()

    def stop(self) -> None:
        """End all its processes, also those that found another parent."""
        for pid in self.meter.pids():
            _kill(pid, signal.SIGTERM)
        if self._process is not None:
            try:
                self._process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        for pid in self.meter.pids():
            _kill(pid, signal.SIGKILL)
        self._process = None

    def prepare(self, pods: Sequence[dict[str, Any]]) -> None:
        """Write the manifests beside the folder."""
        for pod in pods:
            path = self._folder / "prepared" / f"{pod['metadata']['name']}.yaml"
            path.write_text(yaml.safe_dump(pod))

    def add(self, names: Sequence[str]) -> float:
        """Rename the manifests into the folder."""
        prepared = self._folder / "prepared"
        moves = [(prepared / f"{name}.yaml", self._place(name)) for name in names]
        asked = time.monotonic()
        for source, target in moves:
            source.rename(target)
        return asked

    def remove(self, name: str) -> float:
        """Remove the manifest."""
        place = self._place(name)
        asked = time.monotonic()
        place.unlink()
        return asked

    def _place(self, name: str) -> Path:
        return self._folder / "manifests" / f"{name}.yaml"


class Minikubelet(Agent):
    """Ours, with its default settings."""

    def _command(self, config: Path) -> list[str]:
        program = Path(sys.executable).with_name("minikubelet")
        argv = [str(program), "run", f"--config={config}", f"--hostname-override={NODE}"]
        return [*argv, f"--root-dir={self._folder}/root"]


class Kubelet(Agent):
    """The real one, standalone, with its default settings."""

    def _command(self, config: Path) -> list[str]:
        argv = [str(self._room.kubelet), f"--config={config}", f"--hostname-override={NODE}"]
        return [*argv, f"--root-dir={self._folder}/root", f"--cert-dir={self._folder}/pki"]

    def _config(self) -> dict[str, Any]:
        return super()._config() | {
            # Its server on loopback, and no traces in the machine's folders and rules.
            "address": "127.0.0.1",
            "port": _free_port(),
            "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"},
            "makeIPTablesUtilChains": False,
            "volumePluginDir": str(self._folder / "plugins"),
        }


class BareCalls:
    """The fewest calls that start and end a pod, from a process of their own (`bare.py`)."""

    is_agent = False

    def __init__(self, name: str, room: Room) -> None:
        self.name = name
        self.meter = Meter(name)
        self._folder = room.folder / name
        self._room = room
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process and wait until it is connected."""
        self._folder.mkdir(exist_ok=True)
        argv = [sys.executable, "-m", "benchmark.bare", self._room.endpoint, str(self._folder)]
        self._process = subprocess.Popen(
            in_cgroup(self.meter.procs, argv),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(self._room.hack)},
        )
        self._ask("ready", [])

    def stop(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
        self._process = None

    def prepare(self, pods: Sequence[dict[str, Any]]) -> None:
        """Have the messages built."""
        self._ask("prepare", list(pods))

    def add(self, names: Sequence[str]) -> float:
        """Have the pods started, all at once."""
        return self._tell("add", list(names))

    def remove(self, name: str) -> float:
        """Have a pod stopped and removed."""
        return self._tell("remove", [name])

    def _tell(self, verb: str, values: list[Any]) -> float:
        line = json.dumps({"verb": verb, "values": values}).encode() + b"\n"
        pipe = _open(self._process.stdin if self._process is not None else None)
        asked = time.monotonic()
        pipe.write(line)
        pipe.flush()
        return asked

    def _ask(self, verb: str, values: list[Any]) -> None:
        self._tell(verb, values)
        pipe = _open(self._process.stdout if self._process is not None else None)
        if not pipe.readline():
            raise BenchError("the process of the bare calls ended by itself")


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    if pipe is None:
        raise BenchError("the process of the bare calls isn't started")
    return pipe


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def _kill(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def wait(text: str, reached: Callable[[], bool], seconds: float) -> None:
    """Wait for something outside. Raises BenchError after `seconds`."""
    deadline = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > deadline:
            raise BenchError(f"waited {seconds:.0f} s in vain for {text}")
        time.sleep(_PAUSE_SECONDS)
