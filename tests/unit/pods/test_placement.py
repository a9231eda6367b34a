from typing import Any

import pytest

from minikubelet.pods.placement import NodeTaint, NodeView, matches_node, untolerated
from tests.builders import a_pod

NODE = NodeView("n1", {"zone": "a", "cpus": "8", "kubernetes.io/os": "linux"})


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, True, id="nothing-asked"),
        pytest.param({"nodeSelector": {"zone": "a"}}, True, id="selector"),
        pytest.param({"nodeSelector": {"zone": "b"}}, False, id="another-value"),
        pytest.param({"nodeSelector": {"gone": "a"}}, False, id="no-such-label"),
        pytest.param({"affinity": affinity(expression("zone", "In", "b", "a"))}, True, id="in"),
        pytest.param({"affinity": affinity(expression("zone", "NotIn", "a"))}, False, id="not-in"),
        pytest.param(
            {"affinity": affinity(expression("x", "NotIn", "a"))}, True, id="not-in-no-label"
        ),
        pytest.param({"affinity": affinity(expression("zone", "Exists"))}, True, id="exists"),
        pytest.param(
            {"affinity": affinity(expression("zone", "DoesNotExist"))}, False, id="absent"
        ),
        pytest.param({"affinity": affinity(expression("cpus", "Gt", "4"))}, True, id="greater"),
        pytest.param({"affinity": affinity(expression("cpus", "Lt", "4"))}, False, id="less"),
        pytest.param({"affinity": affinity(expression("zone", "Gt", "4"))}, False, id="no-number"),
        pytest.param({"affinity": affinity(expression("zone", "Like", "a"))}, False, id="unknown"),
        pytest.param({"affinity": affinity({})}, False, id="an-empty-term-chooses-nothing"),
        pytest.param({"affinity": affinity()}, False, id="no-term"),
        pytest.param(
            {"affinity": affinity(expression("zone", "In", "b"), expression("zone", "Exists"))},
            True,
            id="one-of-two-terms",
        ),
        pytest.param(
            {
                "affinity": affinity(
                    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}
                )
            },
            True,
            id="field",
        ),
        pytest.param(
            {"nodeSelector": {"zone": "b"}, "affinity": affinity(expression("zone", "Exists"))},
            False,
            id="both-must-hold",
        ),
    ],
)
def test_selectors_and_required_affinity(spec: dict[str, Any], expected: bool) -> None:
    assert matches_node(a_pod(**spec), NODE) is expected


EVICT = NodeTaint("gone", "", "NoExecute")
VALUED = NodeTaint("k", "v", "NoExecute")


@pytest.mark.parametrize(
    ("tolerations", "taint", "expected"),
    [
        pytest.param([], EVICT, True, id="untolerated"),
        pytest.param([], NodeTaint("k", "", "NoSchedule"), False, id="only-for-the-scheduler"),
        pytest.param([{"operator": "Exists"}], EVICT, False, id="everything"),
        pytest.param([{"key": "gone", "operator": "Exists"}], EVICT, False, id="key"),
        pytest.param([{"key": "k", "operator": "Equal", "value": "v"}], VALUED, False, id="value"),
        pytest.param([{"key": "k", "value": "v"}], VALUED, False, id="equal-is-the-default"),
        pytest.param([{"key": "k", "value": "w"}], VALUED, True, id="another-value"),
        pytest.param([{"operator": "Exists", "effect": "NoSchedule"}], EVICT, True, id="effect"),
    ],
)
def test_taints_that_are_not_tolerated(
    tolerations: list[dict[str, Any]], taint: NodeTaint, expected: bool
) -> None:
    assert (untolerated(a_pod(tolerations=tolerations), [taint]) is not None) is expected
