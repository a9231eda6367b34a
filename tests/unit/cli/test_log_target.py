"""From what a person types to one container."""

from typing import Any

import pytest

from minikubelet.cli.client import AgentError
from minikubelet.cli.log_target import DEFAULT_CONTAINER, Target, log_target
from tests.unit.cli.documents import a_pod, running

WEB = a_pod(running())
OTHER = a_pod(running(), metadata={"namespace": "other"})
MANY = a_pod(running("a"), running("b"), init=(running("i"),), metadata={"name": "many-node1"})
MARKED = a_pod(
    running("a"),
    running("b"),
    metadata={"name": "marked-node1", "annotations": {DEFAULT_CONTAINER: "b"}},
)
STALE = a_pod(running("a"), metadata={"name": "stale", "annotations": {DEFAULT_CONTAINER: "gone"}})
ALL = [WEB, MANY, MARKED, STALE]
AMBIGUOUS = (
    'cannot tell the pod: "web" is each of default/web-node1, other/web-node1; say it with -n'
)
NOTE = 'Defaulted container "a" out of: a, b, i (init)'


@pytest.mark.parametrize(
    ("typed", "container", "target"),
    [
        pytest.param("web-node1", "", Target("default", "web-node1", "app"), id="whole name"),
        pytest.param("web", "", Target("default", "web-node1", "app"), id="without the suffix"),
        pytest.param("many", "b", Target("default", "many-node1", "b"), id="-c"),
        pytest.param("many/i", "", Target("default", "many-node1", "i"), id="a slash"),
        pytest.param("many/i", "i", Target("default", "many-node1", "i"), id="both agree"),
        pytest.param("many", "", Target("default", "many-node1", "a", NOTE), id="the first"),
        pytest.param("marked", "", Target("default", "marked-node1", "b"), id="annotation"),
        pytest.param("stale", "", Target("default", "stale", "a"), id="annotation of no container"),
    ],
)
def test_one_container(typed: str, container: str, target: Target) -> None:
    assert log_target(ALL, "", typed, container) == target


def test_two_instances_of_one_pod_are_no_question() -> None:
    assert log_target([WEB, WEB], "", "web", "").pod == "web-node1"


def test_a_namespace_decides() -> None:
    assert log_target([WEB, OTHER], "other", "web", "").namespace == "other"


def test_its_endpoint() -> None:
    assert log_target(ALL, "", "many/b", "").path == "/containerLogs/default/many-node1/b"


@pytest.mark.parametrize(
    ("pods", "typed", "container", "text"),
    [
        (ALL, "wev-node1", "", 'pod "wev-node1" not found; did you mean "web-node1"?'),
        (ALL, "zzz", "", 'pod "zzz" not found; `minikubelet get pods` lists all'),
        (ALL, "", "", 'pod "" not found; `minikubelet get pods` lists all'),
        (
            [WEB, OTHER],
            "web",
            "",
            AMBIGUOUS,
        ),
        (ALL, "many/a", "b", "cannot tell the container: a or b?"),
        (
            ALL,
            "many",
            "x",
            'container "x" not found in pod "many-node1": choose one of a, b, i (init)',
        ),
    ],
)
def test_refusals(pods: list[dict[str, Any]], typed: str, container: str, text: str) -> None:
    with pytest.raises(AgentError) as refusal:
        log_target(pods, "", typed, container)
    assert str(refusal.value) == text
