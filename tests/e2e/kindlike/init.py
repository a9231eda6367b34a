"""Process 1 of a kindlike node: what systemd does in a kind node, and no more.

Starts the enabled units of /etc/systemd/system with their drop-ins, each in the cgroup that systemd
would give it and with its output in /var/log/NAME.log, starts what has ended again after its
RestartSec, and reaps every orphan. A unit whose condition doesn't hold waits for it: `kubeadm join`
would start the kubelet once its files are there. HUP is `systemctl daemon-reload`. It imports
nothing but Python's own library. The node ends with it.
"""

import os
import re
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path

UNITS = Path("/etc/systemd/system")
ENABLED = UNITS / "multi-user.target.wants"
LOOK_SECONDS = 0.1
_SECONDS = re.compile(r"([0-9.]+)s?$")


class Unit:
    """A service: what its file and drop-ins say, later lines over earlier ones."""

    def __init__(self, name: str, folder: Path = UNITS) -> None:
        self.name = name
        self.folder = folder
        self.pid = 0
        self.due = 0.0
        self.read()

    def read(self) -> None:
        """Read the file and its drop-ins anew; a process that runs stays."""
        self.environment: dict[str, str] = {}
        self.files: list[str] = []
        self.command = ""
        self.slice = "system.slice"
        self.condition = ""
        self.restart_seconds = 0.1
        path = self.folder / f"{self.name}.service"
        for part in [path, *sorted(Path(f"{path}.d").glob("*.conf"))]:
            for line in part.read_text().splitlines():
                key, is_setting, value = line.partition("=")
                if is_setting and not line.startswith(("#", ";")):
                    self._take(key.strip(), value.strip())

    def _take(self, key: str, value: str) -> None:
        if key == "Environment":
            pairs = [word.partition("=") for word in shlex.split(value)]
            self.environment.update({name: text for name, _, text in pairs})
        elif key == "EnvironmentFile":
            self.files.append(value)
        elif key == "ExecStart":
            self.command = value
        elif key == "Slice":
            self.slice = value
        elif key == "ConditionPathExists":
            self.condition = value
        elif key == "RestartSec" and (seconds := _SECONDS.match(value)):
            self.restart_seconds = float(seconds[1])

    def variables(self) -> dict[str, str]:
        """Return the environment with the files' lines; one named with `-` may be missing."""
        found = dict(self.environment)
        for name in self.files:
            path = Path(name.removeprefix("-"))
            if name.startswith("-") and not path.exists():
                continue
            for line in path.read_text().splitlines():
                key, is_setting, value = line.partition("=")
                if is_setting and not line.startswith("#"):
                    found[key.strip()] = unquoted(value.strip())
        return found

    def argv(self) -> list[str]:
        """Return the command line."""
        return expand(self.command, self.variables())


def unquoted(value: str) -> str:
    """Return a value of an environment file: quotes around all of it are no part of it."""
    quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "\"'"
    return value[1:-1] if quoted else value


def expand(command: str, variables: Mapping[str, str]) -> list[str]:
    """Return a command's words: `$NAME` becomes any number of words, `${NAME}` a part of one."""
    words: list[str] = []
    for word in shlex.split(command):
        if re.fullmatch(r"\$[A-Za-z_]\w*", word):
            words += shlex.split(variables.get(word[1:], ""))
        else:
            words.append(re.sub(r"\$\{(\w+)\}", lambda name: variables.get(name[1], ""), word))
    return words


def enter_cgroup(path: str) -> None:
    """Make a cgroup in each hierarchy and go into it."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields = line.split()
        if fields[fields.index("-") + 1] not in ("cgroup", "cgroup2"):
            continue
        folder = Path(fields[4])
        for part in path.strip("/").split("/"):
            folder /= part
            folder.mkdir(exist_ok=True)
            for name in ("cpuset.cpus", "cpuset.mems"):
                own, above = folder / name, folder.parent / name
                # A new cpuset of cgroup v1 is empty and lets nobody in.
                if own.exists() and above.exists() and not own.read_text().strip():
                    own.write_text(above.read_text())
        (folder / "cgroup.procs").write_text("0")


def start(unit: Unit) -> None:
    """Start a unit's process."""
    unit.pid = os.fork()
    if unit.pid:
        return
    try:
        os.setsid()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        enter_cgroup(f"/{unit.slice}/{unit.name}.service")
        log = os.open(f"/var/log/{unit.name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        argv = unit.argv()
        os.execvpe(argv[0], argv, {**os.environ, **unit.variables()})  # noqa: S606  the unit's own
    finally:
        os._exit(203)  # systemd's EXIT_EXEC


def main() -> None:
    """Run for ever."""
    signals = {signal.SIGCHLD, signal.SIGHUP}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    enter_cgroup("/init.scope")
    units = [Unit(path.stem) for path in sorted(ENABLED.iterdir())]
    while True:
        for unit in units:
            holds = not unit.condition or Path(unit.condition).exists()
            if not unit.pid and holds and time.monotonic() >= unit.due:
                start(unit)
        got = signal.sigtimedwait(signals, LOOK_SECONDS)
        reap(units)
        if got is not None and got.si_signo == signal.SIGHUP:
            for unit in units:
                unit.read()


def reap(units: list[Unit]) -> None:
    """Bury the dead; a unit among them is started again later."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        for unit in units:
            if unit.pid == pid:
                unit.pid = 0
                unit.due = time.monotonic() + unit.restart_seconds


if __name__ == "__main__":
    main()
