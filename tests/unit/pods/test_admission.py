from typing import Any

import pytest

from minikubelet.api.pod import Pod
from minikubelet.criconfig.context import NodeContext
from minikubelet.pods.admission import admit
from minikubelet.pods.kit import Limits
from minikubelet.pods.placement import NodeTaint, NodeView
from tests.builders import a_container, a_pod

NODE = NodeContext("n1", allocatable={"cpu": "4", "memory": "1Gi"})
EVICTING = (NodeTaint("k", "", "NoExecute"),)


def reason(pod: Pod, *others: Pod, view: NodeView, static: bool = False) -> str:
    refusal = admit(pod, others, NODE, Limits(), view, static=static)
    return refusal.reason if refusal is not None else ""


@pytest.mark.parametrize(
    ("view", "static", "expected"),
    [
        pytest.param(NodeView("n1"), False, "NodeAffinity", id="another-node"),
        pytest.param(NodeView("n1", {"a": "b"}), False, "", id="this-node"),
        pytest.param(NodeView("n1", known=False), False, "", id="node-not-seen-yet"),
        pytest.param(NodeView("n1", known=False), True, "NodeAffinity", id="static-is-tried-again"),
        pytest.param(NodeView("n1", {"a": "b"}, EVICTING), False, "TaintToleration", id="tainted"),
    ],
)
def test_a_pod_is_refused_for_good_only_by_a_node_that_was_seen(
    view: NodeView, static: bool, expected: str
) -> None:
    assert reason(a_pod(nodeSelector={"a": "b"}), view=view, static=static) == expected


def with_port(kind: str, **fields: Any) -> Pod:
    ported = a_container("p", ports=[{"containerPort": 80, "hostPort": 80}], **fields)
    return a_pod(ported) if kind == "containers" else a_pod(init=(ported,))


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        pytest.param(with_port("containers"), "NodePorts", id="container"),
        pytest.param(with_port("init", restartPolicy="Always"), "NodePorts", id="sidecar"),
        pytest.param(with_port("init"), "", id="init-container"),
    ],
)
def test_who_holds_a_host_port(other: Pod, expected: str) -> None:
    assert reason(with_port("containers"), other, view=NodeView("n1")) == expected
