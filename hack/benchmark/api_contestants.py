"""The two agents as nodes of a cluster: the same processes, their pods come from the apiserver."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmark.apiserver import PODS, Apiserver
from benchmark.contestants import Agent, Kubelet, Minikubelet, wait
from benchmark.room import NODE, Room

_JOIN_SECONDS = 60.0
_PORT = 10250


class _Joined(Agent):
    """What is the same for both: the flags of a node, and pods that are created, not written."""

    def __init__(self, name: str, room: Room, apiserver: Apiserver) -> None:
        super().__init__(name, room)
        self._apiserver = apiserver
        self._prepared: dict[str, dict[str, Any]] = {}
        self.host = apiserver.address
        self.inside = apiserver.inside
        self.flags = [
            f"--kubeconfig={apiserver.kubeconfig()}",
            f"--node-ip={apiserver.address}",
        ]

    def start(self) -> None:
        """Start it and wait until its node is Ready."""
        super().start()
        wait(f"{self.name}'s node to be Ready", self._apiserver.node_is_ready, _JOIN_SECONDS)

    def stop(self) -> None:
        """End it; the next contestant registers anew."""
        super().stop()
        self._apiserver.ask("DELETE", f"/api/v1/nodes/{NODE}")

    def _config(self) -> dict[str, Any]:
        config = super()._config() | {
            "address": self.host,
            "port": _PORT,
            "healthzBindAddress": self.host,
            "authentication": {"x509": {"clientCAFile": str(self._apiserver.ca)}},
            "authorization": {"mode": "Webhook"},
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
        }
        del config["staticPodPath"]
        return config

    def prepare(self, pods: Sequence[dict[str, Any]]) -> None:
        """Keep the documents; they are bound to the node, as after the scheduler."""
        for pod in pods:
            name = pod["metadata"]["name"]
            self._prepared[name] = {**pod, "spec": {**pod["spec"], "nodeName": NODE}}

    def add(self, names: Sequence[str]) -> float:
        """Create the pods."""
        pods = [self._prepared[name] for name in names]
        asked = time.monotonic()
        self._apiserver.create(pods)
        return asked

    def remove(self, name: str) -> float:
        """Delete a pod with its own grace."""
        asked = time.monotonic()
        self._apiserver.ask("DELETE", f"{PODS}/{name}")
        return asked


class JoinedMinikubelet(_Joined, Minikubelet):
    """Ours."""

    def _command(self, config: Path) -> list[str]:
        return [*self.inside, *super()._command(config), *self.flags]


class JoinedKubelet(_Joined, Kubelet):
    """The real one."""

    def _command(self, config: Path) -> list[str]:
        return [*self.inside, *super()._command(config), *self.flags]
