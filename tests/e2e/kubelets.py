"""The real kubelet in a worker's place: same folders, flags and runtime."""

import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from minikubelet.host.cgroups import detect
from tests.containerds import HACK
from tests.e2e.workers import Worker

_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""The kubelet sets these for itself and leaves them so."""


class Kubelet:
    """A kubelet 1.36 that is started with the worker's own command line."""

    def __init__(self, worker: Worker) -> None:
        argv = [str(HACK / "kubernetes"), "build", "kubelet"]
        folder = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()
        self._program = f"{folder}/kubelet"
        self._worker = worker
        self._process: subprocess.Popen[bytes] | None = None
        self._log = worker.folder / "kubelet.log"
        # What keeps its traces off the machine's folders and rules; both agents get it.
        worker.settings |= {
            "volumePluginDir": str(worker.folder / "plugins"),
            "makeIPTablesUtilChains": False,
        }

    def start(self) -> None:
        """Start it."""
        worker = self._worker
        for mount in detect().mounts:
            (mount / worker.cgroup).mkdir(parents=True, exist_ok=True)
        argv = [*worker.prefix, self._program, *worker.arguments()]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        """End it as a service manager does; its pods run on."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def said(self) -> str:
        """Return the end of what it said."""
        lines = self._log.read_text(errors="replace").splitlines() if self._log.exists() else []
        return "\n".join(lines[-40:])


@contextmanager
def kernel_settings_kept() -> Iterator[None]:
    """Put back what a kubelet changes of the machine's."""
    paths = [Path("/proc/sys") / name for name in _SETTINGS]
    before = [(path, path.read_text()) for path in paths if os.access(path, os.W_OK)]
    try:
        yield
    finally:
        for path, text in before:
            path.write_text(text)
