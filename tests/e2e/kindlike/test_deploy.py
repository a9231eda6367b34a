"""What deploy/ holds, on a node of its own: the unit, its drop-in, the files for a cluster.

deploy/kind/kubelet runs on both nodes of test_kindlike.py; its image can't be built without kind's.
"""

import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests import leftovers
from tests.clusters import Cluster
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.kindlike.conftest import KINDNET, Nodes, end
from tests.e2e.kindlike.node import REPO, Node
from tests.leftovers import Mark

pytestmark = pytest.mark.timeout(120)  # a cluster and a node may have to be started

DEPLOY = REPO / "deploy"
UNIT = DEPLOY / "systemd" / "minikubelet.service"
DROP_IN = "etc/systemd/system/minikubelet.service.d/standalone.conf"
BINDINGS = (
    "kubeadm:kubelet-bootstrap",
    "kubeadm:node-autoapprove-bootstrap",
    "kubeadm:node-autoapprove-certificate-rotation",
    "kubeadm:get-nodes",
    "minikubelet:kubelet-api-admin",
)


class Machine(Node):
    """A machine that a person sets up by deploy/: no kind, no kubeadm."""

    def lay_out(self) -> None:
        super().lay_out()
        for name in (
            "kubelet.service",
            "kubelet.service.d",
            "multi-user.target.wants/kubelet.service",
        ):
            path = self.path("etc/systemd/system") / name
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        self.path("usr/bin/kubelet").unlink()
        shutil.rmtree(self.path("opt/minikubelet"))
        self.link("opt/minikubelet", Path(sys.prefix))
        self.enable("minikubelet", UNIT.read_text())
        self.put(DROP_IN, (DEPLOY / "systemd" / "standalone.conf").read_text())

    def follow_cluster_files(self) -> None:
        """Use deploy/cluster with this cluster's address and token in place of the examples."""
        self.path(DROP_IN).unlink()
        self.put("etc/kubernetes/pki/ca.crt", self.cluster.ca.read_text())
        token = (self.cluster.folder / "pki" / "bootstrap-token").read_text().strip()
        text = (DEPLOY / "cluster" / "bootstrap-kubelet.conf").read_text()
        text = text.replace("https://control-plane.example:6443", self.cluster.server)
        text = text.replace("abcdef.0123456789abcdef", token)
        self.put("etc/kubernetes/bootstrap-kubelet.conf", text, 0o600)
        config = (DEPLOY / "cluster" / "config.yaml").read_text()
        self.put("var/lib/kubelet/config.yaml", config)
        extra = f"--node-ip={self.address} --fail-cgroupv1=false"
        self.put("etc/default/kubelet", f"KUBELET_EXTRA_ARGS={extra}\n")

    def reload(self) -> None:
        """Do what `systemctl daemon-reload && systemctl restart minikubelet` does."""
        self.exec("kill", "-HUP", "1")
        self.end_agent(signal.SIGTERM)


@pytest.fixture
def machine(session_mark: Mark, cluster: Cluster) -> Iterator[Machine]:
    """A machine whose agent runs without a cluster."""
    machine = Machine(session_mark, cluster, 3)
    try:
        machine.lay_out()
        machine.boot()
        yield machine
    finally:
        end(Nodes(cluster, (machine,)))
        cluster.kubectl("delete", "--ignore-not-found", "-f", str(DEPLOY / "cluster" / "rbac.yaml"))
        cluster.start(minimal=False)  # makes the bindings anew that a test took away


def test_a_machine_alone_then_in_a_cluster(machine: Machine, cluster: Cluster) -> None:
    """The unit with its drop-in runs manifests; without it the machine joins by deploy/cluster."""
    pod = a_manifest("alone", a_shell("main", FOREVER), hostNetwork=True)
    machine.put("etc/kubernetes/manifests/alone.yaml", yaml.safe_dump(pod))
    machine.wait_until("the pod runs", lambda: "Running" in told(machine))

    for name in BINDINGS:
        cluster.kubectl("delete", "clusterrolebinding", name)
    machine.follow_cluster_files()
    machine.reload()
    refused = "certificatesigningrequests.certificates.k8s.io is forbidden"
    machine.wait_until("the token alone lets nobody in", lambda: refused in machine.log())

    cluster.kubectl("apply", "-f", str(DEPLOY / "cluster" / "rbac.yaml"))
    cluster.kubectl("apply", "-f", str(KINDNET))
    nodes = Nodes(cluster, (machine,))
    nodes.wait_ready(machine)
    # Its static pod runs on and has a mirror; the apiserver may look into it.
    mirror = f"alone-{machine.name}"
    nodes.kubectl("wait", f"pod/{mirror}", "--for=condition=Ready", "--timeout=30s")
    assert nodes.get("pod", mirror)["status"]["containerStatuses"][0]["restartCount"] == 0
    assert nodes.kubectl("exec", mirror, "--", "hostname") == f"{machine.name}\n"


def told(machine: Machine) -> str:
    return machine.run("/opt/minikubelet/bin/minikubelet", "get", "pods").stdout


def test_the_unit_is_one_that_systemd_takes(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze")
    unit = tmp_path / UNIT.name
    program = Path(sys.prefix) / "bin" / "minikubelet"
    unit.write_text(UNIT.read_text().replace("/opt/minikubelet/bin/minikubelet", str(program)))
    drop_ins = tmp_path / f"{UNIT.name}.d"
    drop_ins.mkdir()
    shutil.copy(DEPLOY / "systemd" / "standalone.conf", drop_ins)
    argv = ["systemd-analyze", "verify", "--man=no", str(unit)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    # It complains of the machine's other units, too.
    said = [line for line in (done.stdout + done.stderr).splitlines() if UNIT.stem in line]
    assert said == []


def test_kinds_files_agree() -> None:
    """The image that is built is the one that is used, from files that are there."""
    kind = DEPLOY / "kind"
    tag = re.search(r"-t (\S+)", (kind / "build").read_text())
    workers = yaml.safe_load((kind / "cluster.yaml").read_text())["nodes"]
    assert tag is not None
    dockerfile = (kind / "Dockerfile").read_text()
    base = re.search(r"NODE_IMAGE=(\S+)", dockerfile)
    assert base is not None
    assert f"${{1:-{base[1]}}}" in (kind / "build").read_text()
    assert [each["image"] for each in workers] == [base[1], base[1], tag[1]]
    sources = [line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY ")]
    missing = [name for names in sources for name in names if not (REPO / name).exists()]
    assert (len(sources), missing) == (4, [])
    # The wrapper calls what the image installs.
    program = (kind / "kubelet").read_text().split("exec ")[1].split()[0]
    assert f"{program.rpartition('/')[0]}/pip install" in dockerfile


def test_a_killed_sessions_node_is_found_and_ended(session_mark: Mark, cluster: Cluster) -> None:
    mark = Mark(session_mark.folder / "killed", f"{session_mark.cgroup}/killed")
    mark.folder.mkdir()
    node = Node(mark, cluster, 4)
    try:
        node.lay_out()
        node.boot()
        found = {line.split()[0] for line in leftovers.find(mark)}
        assert found == {"process", "cgroup"}
        pids = node.processes()
        leftovers.end_cgroup(mark.cgroup)
        assert leftovers.find(mark) == []
        assert not [pid for pid in pids if Path(f"/proc/{pid}/ns/net").exists()]
        # Its network has gone with them: nothing had kept it.
        node.wait_until("its link is gone", lambda: node.name not in links(cluster))
    finally:
        node.clean()
    shutil.rmtree(mark.folder)


def links(cluster: Cluster) -> str:
    """Return the links in the cluster's network."""
    argv = ["nsenter", f"--net={cluster.netns}", "ip", "-br", "link"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout
