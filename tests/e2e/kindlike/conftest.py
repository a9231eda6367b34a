"""Two nodes that have joined a real control plane, for all tests of a module."""

import itertools
import json
import subprocess
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

from tests.clusters import Cluster
from tests.e2e.kindlike.node import HERE, Node
from tests.e2e.outcome import FAILED
from tests.leftovers import Mark

KINDNET = HERE / "kindnet.yaml"
_NUMBERS = itertools.count(1)


@dataclass
class Nodes:
    """The nodes, and the cluster as its users see it."""

    cluster: Cluster
    nodes: tuple[Node, ...]
    before_network: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Each node's Ready condition before there was a network for pods."""
    namespace: str = "default"

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes)

    @property
    def names(self) -> set[str]:
        return {node.name for node in self.nodes}

    def by_name(self, name: str) -> Node:
        return next(node for node in self.nodes if node.name == name)

    def kubectl(self, *arguments: str, stdin: str = "") -> str:
        """Run kubectl in the test's namespace; return what it printed."""
        argv = [str(self.cluster.admin_kubectl), f"--namespace={self.namespace}", *arguments]
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{argv} failed:\n{done.stdout}{done.stderr}\n{self.told()}"
        return done.stdout

    def get(self, *what: str) -> dict[str, Any]:
        """Return an object, or a list of them."""
        document: dict[str, Any] = json.loads(self.kubectl("get", *what, "-o", "json"))
        return document

    def apply(self, *documents: Mapping[str, Any]) -> None:
        """Apply objects."""
        body = {"apiVersion": "v1", "kind": "List", "items": list(documents)}
        self.kubectl("apply", "-f", "-", stdin=json.dumps(body))

    def pods(self, app: str) -> list[dict[str, Any]]:
        """Return the pods with this label that aren't on their way out."""
        items = self.get("pods", f"--selector=app={app}")["items"]
        return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]

    def ready(self, node: Node) -> dict[str, Any]:
        """Return a node's Ready condition; empty while there is none."""
        done = node.cluster.kubectl("get", "node", node.name, "--ignore-not-found", "-o", "json")
        conditions = json.loads(done)["status"].get("conditions", []) if done else []
        return next((c for c in conditions if c["type"] == "Ready"), {})

    def wait_ready(self, node: Node) -> None:
        """Wait until a node is ready and takes pods: its taints are the controller-manager's."""

        def takes_pods() -> bool:
            is_ready = self.ready(node).get("status") == "True"
            return is_ready and "taints" not in self.get("node", node.name)["spec"]

        node.wait_until("the node takes pods", takes_pods)

    def told(self) -> str:
        """Return what there is to see when something failed."""
        argv = [str(self.cluster.admin_kubectl), "get", "nodes,pods", "-A", "-o", "wide"]
        seen = subprocess.run(argv, capture_output=True, text=True, check=False).stdout
        return "\n".join([seen, *(node.log() for node in self.nodes)])


@pytest.fixture(scope="module")
def joined(session_mark: Mark, cluster: Cluster) -> Iterator[Nodes]:
    """Both nodes, ready; gone after the module, whose cluster other modules' nodes join."""
    nodes = Nodes(cluster, tuple(Node(session_mark, cluster, number) for number in (1, 2)))
    try:
        with ThreadPoolExecutor() as pool:
            list(pool.map(start, nodes))
        for node in nodes:
            node.join()
        for node in nodes:
            node.finish_join()
            node.wait_until("the node tells of itself", partial(nodes.ready, node))
            nodes.before_network[node.name] = nodes.ready(node)
        cluster.kubectl("apply", "-f", str(KINDNET))
        for node in nodes:
            nodes.wait_ready(node)
        yield nodes
    finally:
        end(nodes)


def start(node: Node) -> None:
    node.lay_out()
    node.boot()


def end(nodes: Nodes) -> None:
    """End the nodes and take all that would wait for them out of the cluster."""
    for node in nodes:
        node.clean()
    kubectl = nodes.cluster.kubectl
    kubectl("delete", "--ignore-not-found", "--wait=false", "-f", str(KINDNET))
    for node in nodes:
        kubectl("delete", "node", node.name, "--ignore-not-found", "--wait=false")
    kubectl("delete", "pods", "--all", "-A", "--force", "--grace-period=0", "--wait=false")


@pytest.fixture
def nodes(request: pytest.FixtureRequest, joined: Nodes) -> Iterator[Nodes]:
    """The nodes, and a namespace of the test's own."""
    joined.namespace = f"kindlike-{next(_NUMBERS)}"
    joined.cluster.kubectl("create", "namespace", joined.namespace)
    yield joined
    if request.node.stash.get(FAILED, False):
        print(joined.told())  # noqa: T201  pytest shows it with the failure
    for kind in ("deployments", "daemonsets", "jobs"):
        joined.kubectl("delete", kind, "--all", "--wait=false")
    joined.kubectl("delete", "namespace", joined.namespace, "--wait=false")
