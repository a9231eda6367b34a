"""A node built as kind builds one, seen from outside: boot it, let it join, look into it, end it.

`boot` makes the machine (own network, mounts, processes, cgroups), init.py is its process 1. Here
is what lies on its disk: kind's image in `lay_out` (units, containerd's configuration, the wrapper
of deploy/kind as /usr/bin/kubelet, the agent in /opt/minikubelet/venv), and in `join` what
`kubeadm join` leaves. All of a node lives in one cgroup below the session's: `clean` ends it by
that, also a node whose session was killed.
"""

import os
import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import yaml

from minikubelet.host.cgroups import Cgroups, detect
from tests import leftovers
from tests.clusters import HACK, Cluster
from tests.leftovers import Mark

HERE = Path(__file__).parent
REPO = HERE.parent.parent.parent
KIND = REPO / "deploy" / "kind"
CNI_PLUGINS = Path("/usr/lib/cni")
FIRST_OCTET = 10
"""The cluster's bridge has the addresses .1 to .9 itself."""

CONTAINERD_UNIT = """\
[Service]
ExecStart=/usr/local/bin/containerd
Restart=always
RestartSec=1
"""
CONTAINERD_CONFIG = """\
version = 3
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "localhost/minikubelet/pause:1"
[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  disable_apparmor = true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      SystemdCgroup = false # there is no systemd here; in kind it is true
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.test-handler]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.test-handler.options]
      SystemdCgroup = false
"""
KUBELET_UNIT = """\
[Unit]
ConditionPathExists=/var/lib/kubelet/config.yaml
[Service]
ExecStart=/usr/bin/kubelet
Restart=always
RestartSec=1s
Slice=kubelet.slice
"""
_BOOTSTRAP = "--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf"
_KUBECONFIG = "--kubeconfig=/etc/kubernetes/kubelet.conf"
_WORDS = "$KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS"
KUBEADM_DROP_IN = f"""\
[Service]
Environment="KUBELET_KUBECONFIG_ARGS={_BOOTSTRAP} {_KUBECONFIG}"
Environment="KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet {_WORDS}
"""
KUBELET_EXTRA_ARGS = "--runtime-cgroups=/system.slice/containerd.service"
KUBELET_CONFIG = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1",
    "kind": "KubeletConfiguration",
    "authentication": {
        "anonymous": {"enabled": False},
        "webhook": {"cacheTTL": "0s", "enabled": True},
        "x509": {"clientCAFile": "/etc/kubernetes/pki/ca.crt"},
    },
    "authorization": {
        "mode": "Webhook",
        "webhook": {"cacheAuthorizedTTL": "0s", "cacheUnauthorizedTTL": "0s"},
    },
    "cgroupDriver": "systemd",
    "clusterDNS": ["10.96.0.10"],
    "clusterDomain": "cluster.local",
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "cpuManagerReconcilePeriod": "0s",
    "crashLoopBackOff": {},
    "evictionPressureTransitionPeriod": "0s",
    "fileCheckFrequency": "0s",
    "healthzBindAddress": "127.0.0.1",
    "healthzPort": 10248,
    "httpCheckFrequency": "0s",
    "imageMaximumGCAge": "0s",
    "imageMinimumGCAge": "0s",
    "logging": {
        "flushFrequency": 0,
        "options": {"json": {"infoBufferSize": "0"}, "text": {"infoBufferSize": "0"}},
        "verbosity": 0,
    },
    "memorySwap": {},
    "nodeStatusReportFrequency": "0s",
    "nodeStatusUpdateFrequency": "0s",
    "rotateCertificates": True,
    "runtimeRequestTimeout": "0s",
    "shutdownGracePeriod": "0s",
    "shutdownGracePeriodCriticalPods": "0s",
    "staticPodPath": "/etc/kubernetes/manifests",
    "streamingConnectionIdleTimeout": "0s",
    "syncFrequency": "0s",
    "volumeStatsAggPeriod": "0s",
}
"""As kubeadm 1.36 writes it: zero durations mean the default."""
KIND_CONFIG = {
    "cgroupRoot": "/kubelet",
    "evictionHard": {
        "imagefs.available": "0%",
        "nodefs.available": "0%",
        "nodefs.inodesFree": "0%",
    },
    "failSwapOn": False,
    "imageGCHighThresholdPercent": 100,
}
MACHINE_CONFIG = {"failCgroupV1": detect().version != 1}
"""What a person adds where the machine still has cgroup v1."""


class Node:
    """One node; `number` gives its name and address."""

    def __init__(self, mark: Mark, cluster: Cluster, number: int) -> None:
        self.name = f"kindlike-{number}"
        self.folder = mark.folder / self.name
        self.cluster = cluster
        self.cgroup = f"{mark.cgroup}/{self.name}"
        self.address = f"{cluster.address.rpartition('.')[0]}.{FIRST_OCTET + number}"
        self._shown: list[Path] = []
        self._machine: subprocess.Popen[bytes] | None = None

    # the disk

    def lay_out(self) -> None:
        """Make the node's disk, as the image has it."""
        containerd = Path(_hack("containerd", "prepare", "--version", "2"))
        self.put("usr/bin/kubelet", (KIND / "kubelet").read_text(), 0o755)
        self.put("usr/local/sbin/init", (HERE / "init.py").read_text(), 0o755)
        self.put("usr/local/sbin/kindnet", (HERE / "kindnet.py").read_text(), 0o755)
        for name in ("containerd", "containerd-shim-runc-v2", "ctr"):
            self.link(f"usr/local/bin/{name}", containerd / name)
        self.link("usr/local/bin/python3", Path(sys.prefix) / "bin" / "python")
        self.link("opt/cni/bin", CNI_PLUGINS)
        self.link("opt/minikubelet/venv", Path(sys.prefix))
        self._shown = [REPO, containerd, Path(sys.prefix), Path(sys.base_prefix)]
        self.put("etc/machine-id", f"{uuid.uuid4().hex}\n")
        self.put("etc/hostname", f"{self.name}\n")
        self.put("etc/containerd/config.toml", CONTAINERD_CONFIG)
        self.put("etc/default/kubelet", f"KUBELET_EXTRA_ARGS={KUBELET_EXTRA_ARGS}\n")
        self.enable("containerd", CONTAINERD_UNIT)
        self.enable("kubelet", KUBELET_UNIT)
        self.put("etc/systemd/system/kubelet.service.d/10-kubeadm.conf", KUBEADM_DROP_IN)
        for name in ("lib", "log", "tmp"):
            self.path(f"var/{name}").mkdir(parents=True)
        self.path("etc/kubernetes/manifests").mkdir(parents=True)

    def path(self, name: str) -> Path:
        """Return where a file of the node lies here; in etc and usr it is written before `boot`."""
        return self.folder / name

    def put(self, name: str, text: str, mode: int = 0o644) -> None:
        """Write a file of the node."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def enable(self, name: str, unit: str) -> None:
        """Write a unit and enable it, as `systemctl enable` does."""
        self.put(f"etc/systemd/system/{name}.service", unit)
        wants = f"etc/systemd/system/multi-user.target.wants/{name}.service"
        self.link(wants, Path(f"/etc/systemd/system/{name}.service"))

    def link(self, name: str, target: Path) -> None:
        """Make a symbolic link of the node."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(target)

    # the machine

    def boot(self) -> None:
        """Start it; its containerd answers and has the images."""
        anyio.run(Cgroups(detect()).ensure, f"/{self.cgroup}")
        argv: list[str | Path] = [HERE / "boot", self.folder, self.name, f"{self.address}/24"]
        argv += [self.cluster.address, self.cluster.netns, self.cgroup, *self._shown]
        with self.path("boot.log").open("wb") as log:
            self._machine = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_until("containerd answers", self._answers)
        _hack("images", "load", str(self.socket))

    @property
    def socket(self) -> Path:
        """The runtime's, as seen from outside; ctr lies beside it for hack/images."""
        return self.path("run/containerd/containerd.sock")

    def _answers(self) -> bool:
        assert self._machine is not None
        assert self._machine.poll() is None, self.log()
        return (
            self.socket.exists()
            and not self.run("ctr", "--connect-timeout=1s", "version").returncode
        )

    @property
    def init(self) -> int:
        """The pid of the node's process 1; 0 before there is one."""
        if self._machine is None:
            return 0
        pid = self._machine.pid
        children = Path(f"/proc/{pid}/task/{pid}/children")
        return int(children.read_text().split()[0]) if children.exists() else 0

    def run(self, *argv: str, stdin: str = "") -> "subprocess.CompletedProcess[str]":
        """Run a command in the node, as `docker exec` does in a kind node."""
        inside = ["nsenter", f"--target={self.init}", "--all", "--", *argv]
        return subprocess.run(inside, input=stdin, capture_output=True, text=True, check=False)

    def exec(self, *argv: str, stdin: str = "") -> str:
        """Run a command that must succeed; return what it printed."""
        done = self.run(*argv, stdin=stdin)
        assert done.returncode == 0, f"{argv} in {self.name}: {done.stdout}{done.stderr}"
        return done.stdout

    # the cluster

    def join(self) -> None:
        """Leave what `kubeadm join` leaves; init starts the kubelet when config.yaml is there."""
        self.put("etc/kubernetes/pki/ca.crt", self.cluster.ca.read_text())
        bootstrap = self.cluster.bootstrap_kubeconfig.read_text()
        self.put("etc/kubernetes/bootstrap-kubelet.conf", bootstrap, 0o600)
        flags = f"--node-ip={self.address} --node-labels= --provider-id=kind://docker/kindlike/{self.name}"
        self.put("var/lib/kubelet/kubeadm-flags.env", f'KUBELET_KUBEADM_ARGS="{flags}"\n')
        config = KUBELET_CONFIG | KIND_CONFIG | MACHINE_CONFIG
        self.put("var/lib/kubelet/config.part", yaml.safe_dump(config))
        self.path("var/lib/kubelet/config.part").rename(self.path("var/lib/kubelet/config.yaml"))

    def finish_join(self) -> None:
        """Take the bootstrap kubeconfig away, as kubeadm does once the node has its own."""
        self.wait_until(
            "the node has its kubeconfig", self.path("etc/kubernetes/kubelet.conf").exists
        )
        self.path("etc/kubernetes/bootstrap-kubelet.conf").unlink()

    @property
    def agent(self) -> int:
        """The agent's pid; 0 while it doesn't run."""
        for pid in self.processes():
            with suppress(OSError):  # it may have ended meanwhile
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"run" in words and any(word.endswith(b"/minikubelet") for word in words):
                    return pid
        return 0

    def end_agent(self, number: int) -> None:
        """Send the agent a signal and wait for its end; init starts the next one."""
        pid = self.agent
        os.kill(pid, number)
        self.wait_until("the agent has ended", lambda: not Path(f"/proc/{pid}/ns/net").exists())

    def processes(self) -> list[int]:
        """Return the pids of all that runs in the node."""
        found = []
        for procs in (detect().mounts[0] / self.cgroup).rglob("cgroup.procs"):
            with suppress(OSError):  # a pod may have gone meanwhile
                found += [int(pid) for pid in procs.read_text().split()]
        return found

    def healthy(self) -> bool:
        """Tell whether the agent says that it is well."""
        return self.run("curl", "-sf", "http://127.0.0.1:10248/healthz").stdout == "ok"

    def log(self, lines: int = 60) -> str:
        """Return the ends of the node's logs."""
        text = ""
        folder = self.path("var/log")
        kindnet = folder.glob("pods/kube-system_kindnet*/*/*.log")
        for path in (self.path("boot.log"), *sorted(folder.glob("*.log")), *kindnet):
            if path.exists():
                found = path.read_text(errors="replace").splitlines()
                end = [line for line in found if "level=info" not in line][-lines:]
                text += "\n".join([f"--- {self.name}: {path.relative_to(self.folder)}", *end, ""])
        return text

    def wait_until(self, text: str, condition: Callable[[], object], seconds: float = 30.0) -> None:
        """Wait for a condition; when it doesn't come, fail with the node's logs."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (
                f"waited {seconds:g} s in vain until {text}\n{self.log()}"
            )
            time.sleep(0.05)

    # the end

    def power_off(self) -> None:
        """End it with all that runs in it: its mounts, network and links go with its processes."""
        if self._machine is not None:
            self._machine.kill()
            self._machine.wait()
        leftovers.end_cgroup(self.cgroup)
        # What is in /run doesn't outlive a boot.
        shutil.rmtree(self.path("run"), ignore_errors=True)

    def clean(self) -> None:
        """End it and remove its disk."""
        self.power_off()
        shutil.rmtree(self.folder)


def _hack(script: str, *arguments: str) -> str:
    argv = [str(HACK.parent / script), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv} failed:\n{done.stdout}{done.stderr}"
    return done.stdout.strip()
