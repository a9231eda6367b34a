"""A real control plane for integration and e2e tests, in the session's folder.

Loaded as a pytest plugin. It is started once, when first asked for, and cleaned at the session's
end; `apiserver` (etcd and kube-apiserver) becomes `cluster` (all four programs) by starting what is
missing. Tests reach it over the veth of hack/cluster, nodes run in its network.
"""

import os
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

from tests import leftovers

HACK = Path(__file__).parent.parent / "hack" / "cluster"


@dataclass(frozen=True)
class Keys:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


@dataclass
class Cluster:
    """One control plane of hack/cluster."""

    folder: Path

    def start(self, *, minimal: bool) -> None:
        """Start what isn't running."""
        self.hack("start", *(["--minimal"] if minimal else []))

    def clean(self) -> None:
        """Remove all of it."""
        self.hack("clean")

    def kill(self, program: str) -> None:
        """End one program without notice; `start` brings it back."""
        self.signal(program, signal.SIGKILL)

    def signal(self, program: str, number: int) -> None:
        """Send one program a signal, such as SIGSTOP to hold it for a moment."""
        (line,) = [x for x in self.hack("status").splitlines() if x.startswith(f"{program} ")]
        os.kill(int(line.split()[-1]), number)

    def hack(self, action: str, *arguments: str) -> str:
        """Run hack/cluster and return what it prints; its messages are shown when it fails."""
        argv = [str(HACK), action, "--dir", str(self.folder), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(argv)} failed:\n{done.stdout}{done.stderr}"
        return done.stdout.strip()

    @cached_property
    def address(self) -> str:
        """The control plane's address."""
        return (self.folder / "address").read_text().strip()

    @property
    def machine_address(self) -> str:
        """The machine's own address in the cluster's network: what tests serve nodes on."""
        return self.address.rpartition(".")[0] + ".254"

    @property
    def server(self) -> str:
        return f"https://{self.address}:6443"

    @property
    def ca(self) -> Path:
        return self.folder / "pki" / "ca.crt"

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def admin_kubectl(self) -> Path:
        """A kubectl that is the administrator's."""
        return self.folder / "kubectl"

    @property
    def bootstrap_kubeconfig(self) -> Path:
        return self.folder / "bootstrap.kubeconfig"

    @property
    def admin(self) -> Keys:
        return self._keys("admin")

    @property
    def netns(self) -> Path:
        """The file to enter the cluster's network by."""
        return self.folder / "netns"

    def kubelet_kubeconfig(self, node: str) -> Path:
        """Return a kubeconfig with a client certificate of the node."""
        return Path(self.hack("kubeconfig", node))

    def keys(self, name: str, subject: str, purpose: str, san: str = "") -> Keys:
        """Sign a certificate; `purpose` is clientAuth or serverAuth, `subject` as /O=a/CN=b."""
        self.hack("certificate", name, subject, purpose, *([san] if san else []))
        return self._keys(name)

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl as the administrator and return what it prints."""
        argv = [str(self.admin_kubectl), *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{' '.join(argv)} failed:\n{done.stdout}{done.stderr}"
        return done.stdout

    def _keys(self, name: str) -> Keys:
        return Keys(self.folder / "pki" / f"{name}.crt", self.folder / "pki" / f"{name}.key")


@pytest.fixture(scope="session")
def stopped_cluster(session_mark: leftovers.Mark) -> Iterator[Cluster]:
    """The session's cluster, whether it runs or not."""
    cluster = Cluster(session_mark.cluster_folder)
    yield cluster
    cluster.clean()


@pytest.fixture(scope="session")
def apiserver(stopped_cluster: Cluster) -> Cluster:
    """An etcd and a kube-apiserver."""
    stopped_cluster.start(minimal=True)
    return stopped_cluster


@pytest.fixture(scope="session")
def cluster(stopped_cluster: Cluster) -> Cluster:
    """A whole control plane."""
    stopped_cluster.start(minimal=False)
    return stopped_cluster
