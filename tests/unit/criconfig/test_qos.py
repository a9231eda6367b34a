from typing import Any

import pytest

from minikubelet.criconfig.qos import is_critical, oom_score_adj, qos_class
from tests.builders import a_container, a_pod

GIB = 2**30


def with_resources(name: str = "c", requests: Any = None, limits: Any = None, **more: Any) -> Any:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return a_container(name, resources=resources, **more)


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "spec", "expected"),
    [
        ([with_resources()], {}, "BestEffort"),
        ([with_resources(requests={"cpu": "0"})], {}, "BestEffort"),
        ([with_resources(requests={"ephemeral-storage": "1Gi"})], {}, "BestEffort"),
        ([with_resources(requests=BOTH, limits=BOTH)], {}, "Guaranteed"),
        (
            [with_resources(requests={"cpu": "1000m", "memory": "1024Mi"}, limits=BOTH)],
            {},
            "Guaranteed",
        ),
        ([with_resources(requests={"cpu": "1"})], {}, "Burstable"),
        ([with_resources(limits=BOTH)], {}, "Burstable"),
        (
            [with_resources(requests=BOTH, limits=BOTH), with_resources("d")],
            {},
            "Burstable",
        ),
        (
            [with_resources(requests=BOTH, limits=BOTH)],
            {"init": (with_resources("i"),)},
            "Burstable",
        ),
        ([with_resources()], {"resources": {"requests": BOTH, "limits": BOTH}}, "Guaranteed"),
        ([with_resources()], {"resources": {"requests": {"cpu": "1"}}}, "Burstable"),
        ([with_resources()], {"status": {"qosClass": "Guaranteed"}}, "Guaranteed"),
    ],
)
def test_qos_class(containers: list[Any], spec: dict[str, Any], expected: str) -> None:
    assert qos_class(a_pod(*containers, **spec)) == expected


@pytest.mark.parametrize(
    ("container", "spec", "expected"),
    [
        (with_resources(), {}, 1000),
        (with_resources(requests=BOTH, limits=BOTH), {}, -997),
        (with_resources(requests={"memory": "1Gi"}), {}, 750),
        (with_resources(requests={"cpu": "1"}), {}, 999),
        (with_resources(requests={"memory": "4Gi"}), {}, 3),
        (with_resources(), {"resources": {"requests": {"memory": "2Gi"}}}, 500),
        (with_resources(), {"priorityClassName": "system-node-critical"}, 1000),
        (
            with_resources(),
            {"priorityClassName": "system-node-critical", "priority": 2000001000},
            -997,
        ),
    ],
)
def test_oom_score(container: Any, spec: dict[str, Any], expected: int) -> None:
    pod = a_pod(container, **spec)
    assert oom_score_adj(pod, pod.spec.containers[0], 4 * GIB) == expected


def test_a_sidecar_outlives_the_containers_it_serves() -> None:
    pod = a_pod(
        with_resources(requests={"memory": "2Gi"}),
        init=(with_resources("s", requests={"memory": "1Gi"}, restartPolicy="Always"),),
    )
    assert oom_score_adj(pod, pod.spec.init_containers[0], 4 * GIB) == 500


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, False),
        ({"kubernetes.io/config.source": "api"}, False),
        ({"kubernetes.io/config.source": "file"}, True),
        ({"kubernetes.io/config.mirror": "x"}, True),
    ],
)
def test_critical(annotations: dict[str, str], expected: bool) -> None:
    assert is_critical(a_pod(metadata={"annotations": annotations})) is expected
