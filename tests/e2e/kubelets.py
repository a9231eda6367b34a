"""Workers whose certificate comes by bootstrap, and the real kubelet in such a worker's place."""

import os
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from minikubelet.cri.client import connect
from minikubelet.host.cgroups import detect
from tests.clusters import Cluster
from tests.containerds import HACK, Containerd
from tests.e2e.workers import Worker
from tests.leftovers import Mark

_SETTINGS = (
    "vm/overcommit_memory",
    "vm/panic_on_oom",
    "kernel/panic",
    "kernel/panic_on_oops",
    "kernel/keys/root_maxkeys",
    "kernel/keys/root_maxbytes",
)
"""The kubelet sets these for itself and leaves them so."""


@asynccontextmanager
async def joining_worker(
    node: str, containerd: Containerd, cluster: Cluster, mark: Mark
) -> AsyncIterator[Worker]:
    """A worker that isn't started yet and has no certificate, as kubeadm leaves it."""
    client = connect(containerd.endpoint)
    folder, cgroup = mark.folder / node, f"{mark.cgroup}/{node}"
    worker = Worker(folder, cgroup, containerd, client, cluster, node)
    worker.flags = [
        f"--kubeconfig={folder}/kubelet.conf",
        f"--bootstrap-kubeconfig={cluster.bootstrap_kubeconfig}",
        f"--cert-dir={folder}/pki",
        f"--node-ip={cluster.address}",
        "--node-labels=",
        "--rotate-certificates",
    ]
    try:
        yield worker
    finally:
        forced = ("--grace-period=0", "--force", "--wait=false")
        await worker.kubectl("delete", "pods", "--all", *forced)
        await worker.clean()
        await worker.kubectl("delete", "node", node, "--ignore-not-found")
        await client.runtime.close()


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
