"""A real agent as a worker of a real control plane, in the cluster's network."""

import http
import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from minikubelet.cri import messages as m
from minikubelet.cri.client import Client
from minikubelet.host.cgroups import detect
from tests.clusters import Cluster
from tests.containerds import Containerd
from tests.e2e.administrator import Administrator, path_of
from tests.e2e.agent import Agent, a_manifest
from tests.integration.proxy import Front, Wire

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"


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
        self.admin = Administrator(cluster)
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

        self.stack = ExitStack()
        """What ends with the worker: proxies that `prepare` put in front of the apiserver."""
        self.stack.callback(self.admin.close)

    def goes_through(self, url: str) -> None:
        """Let the agent reach the apiserver at this URL from its next start on."""
        text = self.cluster.kubelet_kubeconfig(self.node).read_text()
        text = text.replace(f"server: {self.cluster.server}", f"server: {url}")
        path = self.folder / "kubeconfig"
        path.write_text(text)
        path.chmod(0o600)
        self.flags[0] = f"--kubeconfig={path}"

    def behind_a_front(self) -> Front:
        """Put a proxy in front of the apiserver that sees each request of the agent."""
        keys = self.cluster.keys(
            f"kubelet-{self.node}", f"/O=system:nodes/CN=system:node:{self.node}", "clientAuth"
        )
        front = Front(self.cluster, keys, self.cluster.machine_address)
        self.stack.enter_context(front)
        self.goes_through(front.url)
        return front

    def behind_a_wire(self, front: Front) -> Wire:
        """Put a proxy in front of another that can refuse, cut and stall."""
        wire = Wire((front.host, front.port), front.host)
        self.stack.enter_context(wire)
        self.goes_through(wire.url)
        return wire

    async def clean(self) -> None:
        """Kill it and remove all that it made, and what stood in front of it."""
        try:
            await super().clean()
        finally:
            self.stack.close()

    # the runtime and the agent's socket, by the names of the test's namespace

    async def containers(self, pod: str, name: str = "") -> list[m.Container]:
        """Return the containers that the runtime has for a pod, dead or alive, oldest first."""
        labels = self._labels(pod)
        if name:
            labels["io.kubernetes.container.name"] = name
        found = await self.client.runtime.list_containers(label_selector=labels)
        return sorted(found, key=lambda each: each.created_at)

    async def sandboxes(self, pod: str) -> list[m.PodSandbox]:
        """Return the sandboxes that the runtime has for a pod, oldest first."""
        found = await self.client.runtime.list_pod_sandbox(label_selector=self._labels(pod))
        return sorted(found, key=lambda each: each.created_at)

    def _labels(self, pod: str) -> dict[str, str]:
        return {"io.kubernetes.pod.name": pod, "io.kubernetes.pod.namespace": self.namespace}

    def cgroups_of(self, uid: str) -> list[Path]:
        """Return the cgroups of a pod: one a hierarchy, none when it is gone."""
        found: list[Path] = []
        for mount in detect().mounts:
            found += (mount / self.cgroup).glob(f"**/pod{uid}")
        return found

    async def pods(self) -> dict[str, dict[str, Any]]:
        """Return the namespace's pods of /pods by name."""
        status, body = await self.get("/pods")
        assert status == http.HTTPStatus.OK, body
        found = [pod["metadata"] | {"pod": pod} for pod in json.loads(body)["items"]]
        return {each["name"]: each["pod"] for each in found if each["namespace"] == self.namespace}

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

    def kubectl_argv(self, *arguments: str) -> list[str]:
        """Return the command line of kubectl in the test's namespace."""
        return [str(self.cluster.admin_kubectl), f"--namespace={self.namespace}", *arguments]

    async def kubectl_done(
        self, *arguments: str, stdin: bytes = b"", seconds: float = 60.0
    ) -> "subprocess.CompletedProcess[bytes]":
        """Run kubectl in the test's namespace; return how it ended."""
        argv = self.kubectl_argv(*arguments)
        return await anyio.to_thread.run_sync(
            lambda: subprocess.run(
                argv, input=stdin, capture_output=True, check=False, timeout=seconds
            )
        )

    def bound(self, name: str, *containers: Mapping[str, Any], **spec: Any) -> dict[str, Any]:
        """Return a pod that no scheduler chooses the node for; arguments as of `a_manifest`."""
        return a_manifest(name, *containers, **{"nodeName": self.node} | spec)

    async def minikubelet(self, *arguments: str) -> str:
        """Run a command of minikubelet that asks the agent; return what it printed."""
        argv = [sys.executable, "-m", "minikubelet", *arguments, f"--root-dir={self.root}"]
        done = await anyio.run_process(argv, check=False)
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()

    async def apply(self, *documents: Mapping[str, Any]) -> None:
        """Apply objects."""
        body = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        await self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    async def create(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Create one object; return it as the apiserver took it."""
        path = path_of(document["kind"].lower(), self.namespace)
        return await self.admin.ask("POST", path, document)

    async def patch(
        self, kind: str, name: str, change: Mapping[str, Any], sub: str = ""
    ) -> dict[str, Any]:
        """Change fields of an object, or of its part `sub` (strategic merge)."""
        path = path_of(kind, self.namespace, name, sub)
        return await self.admin.ask("PATCH", path, change, STRATEGIC)

    async def delete(self, kind: str, name: str, grace: int | None = None) -> None:
        """Ask for an object's deletion; doesn't wait for its end."""
        body = {} if grace is None else {"gracePeriodSeconds": grace}
        await self.admin.ask("DELETE", path_of(kind, self.namespace, name), body)

    async def object(self, kind: str, name: str) -> dict[str, Any]:
        """Return an object; empty when there is none."""
        return await self.admin.get(path_of(kind, self.namespace, name))

    async def pod(self, name: str) -> dict[str, Any]:
        """Return a pod as the apiserver has it; empty when there is none."""
        return await self.object("pod", name)

    async def told(self, name: str) -> dict[str, Any]:
        """Return a pod's status as the apiserver has it."""
        status: dict[str, Any] = (await self.pod(name)).get("status", {})
        return status

    async def told_restarts(self, pod: str, name: str = "main") -> int:
        """Return how often a container was restarted, as the apiserver has it."""
        found = (await self.told(pod)).get("containerStatuses", [])
        return next((int(each["restartCount"]) for each in found if each["name"] == name), 0)

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
        query = f"?fieldSelector=involvedObject.name%3D{name}"
        answer = await self.admin.get(path_of("event", self.namespace) + query)
        found: list[dict[str, Any]] = answer["items"]
        return found

    async def wait_for_events(self, name: str, *texts: str) -> None:
        """Wait for events about an object, each with a reason or with what its message begins.

        They are written beside the statuses: none waits for the other.
        """

        async def there() -> bool:
            found = await self.events(name)
            return all(
                any(text == e["reason"] or e["message"].startswith(text) for e in found)
                for text in texts
            )

        await self.wait_until(f"events about {name} say {texts}", there)
