"""A real agent as a worker of a real control plane, in the cluster's network."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from minikubelet.cri import messages as m
from minikubelet.cri.client import Client
from tests.clusters import Cluster
from tests.containerds import Containerd
from tests.e2e.agent import Agent


class Worker(Agent):
    """One node of a cluster; pods and everything else are asked for through kubectl."""

    def __init__(
        self,
        folder: Path,
        cgroup: str,
        containerd: Containerd,
        client: Client,
        cluster: Cluster,
        node: str = "worker",
    ) -> None:
        super().__init__(folder, cgroup, containerd, client, node)
        self.cluster = cluster
        self.namespace = "default"
        self.prefix = ["nsenter", f"--net={cluster.netns}"]
        self.flags = [
            f"--kubeconfig={cluster.kubelet_kubeconfig(node)}",
            f"--node-ip={cluster.address}",
        ]
        self.settings = {
            "authentication": {"x509": {"clientCAFile": str(cluster.ca)}},
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
        }

    def owns(self, sandbox: m.PodSandbox) -> bool:
        """Tell whether a sandbox is this agent's: all are, the runtime is its own."""
        return bool(sandbox.id)

    # the cluster, as its users see it

    async def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> str:
        """Run kubectl in the test's namespace; return what it printed."""
        done = await self.kubectl_done(*arguments, stdin=stdin.encode())
        output = done.stdout.decode(errors="replace")
        errors = done.stderr.decode(errors="replace")
        assert not check or done.returncode == 0, f"kubectl {arguments}: {output}{errors}"
        return output

    async def kubectl_done(
        self, *arguments: str, stdin: bytes = b"", seconds: float = 60.0
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run kubectl in the test's namespace; return how it ended."""
        argv = [
            "kubectl",
            f"--kubeconfig={self.cluster.admin_kubeconfig}",
            f"--namespace={self.namespace}",
            *arguments,
        ]
        return await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                argv, input=stdin, capture_output=True, check=False, timeout=seconds
            )
        )

    async def apply(self, *documents: Mapping[str, Any]) -> None:
        """Apply objects."""
        body = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        await self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    async def create(self, document: Mapping[str, Any]) -> None:
        """Create one object."""
        await self.kubectl("create", "-f", "-", stdin=json.dumps(document))

    async def object(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object; empty when there is none."""
        text = await self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        found: dict[str, Any] = json.loads(text) if text.strip() else {}
        return found

    async def pod(self, name: str) -> dict[str, Any]:
        """Return a pod as the apiserver has it; empty when there is none."""
        return await self.object("pod", name)

    async def told(self, name: str) -> dict[str, Any]:
        """Return a pod's status as the apiserver has it."""
        status: dict[str, Any] = (await self.pod(name)).get("status", {})
        return status

    async def pod_is_ready(self, name: str) -> bool:
        """Tell whether the apiserver says that a pod is ready."""
        conditions = (await self.told(name)).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    async def run_pod(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create a pod and wait until it is ready; return it."""
        name = document["metadata"]["name"]
        await self.apply(document)
        await self.wait_until(f"pod {name} is ready", lambda: self.pod_is_ready(name))
        return await self.pod(name)

    async def pod_in_phase(self, name: str, phase: str, seconds: float = 30.0) -> dict[str, Any]:
        """Wait for a phase; return the status."""

        async def reached() -> bool:
            return bool((await self.told(name)).get("phase") == phase)

        await self.wait_until(f"pod {name} is {phase}", reached, seconds)
        return await self.told(name)

    async def pod_gone(self, name: str, seconds: float = 30.0) -> None:
        """Wait until the apiserver has no such pod."""

        async def gone() -> bool:
            return not await self.pod(name)

        await self.wait_until(f"pod {name} is gone", gone, seconds)

    async def node_condition(self, kind: str = "Ready") -> dict[str, Any]:
        """Return a condition of the Node object."""
        conditions = (await self.object("node", self.node)).get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    async def node_is_ready(self) -> bool:
        """Tell whether the Node object says so."""
        return bool((await self.node_condition()).get("status") == "True")

    async def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events about an object of the namespace, as the apiserver has them."""
        selector = f"--field-selector=involvedObject.name={name}"
        found: list[dict[str, Any]] = json.loads(
            await self.kubectl("get", "events", selector, "-o", "json")
        )["items"]
        return found

    async def reasons(self, name: str) -> set[str]:
        """Return the reasons of the events about an object."""
        return {event["reason"] for event in await self.events(name)}
