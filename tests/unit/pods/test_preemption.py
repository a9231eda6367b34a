from fractions import Fraction
from typing import Any

import pytest

from minikubelet.api.pod import Pod
from minikubelet.pods.preemption import victims
from tests.builders import a_container, a_pod

CRITICAL = a_pod(name="critical", priority=2_000_000_000)


def sized(name: str, cpu: str, *, guaranteed: bool = False, **spec: Any) -> Pod:
    resources: dict[str, Any] = {"requests": {"cpu": cpu, "memory": "10Mi"}}
    if guaranteed:
        resources["limits"] = dict(resources["requests"])
    return a_pod(a_container(resources=resources), name=name, uid=name, **spec)


def chosen(need: dict[str, Fraction], *pods: Pod, static: tuple[str, ...] = ()) -> list[str] | None:
    others = [(pod, pod.metadata.name in static) for pod in pods]
    found = victims(CRITICAL, need, others)
    return None if found is None else sorted(pod.metadata.name for pod in found)


ONE_CPU = {"cpu": Fraction(1)}


def test_the_one_that_fits_best_goes() -> None:
    pods = (sized("small", "500m"), sized("fits", "1"), sized("large", "3"))
    assert chosen(ONE_CPU, *pods) == ["fits"]


def test_guaranteed_pods_stay_where_others_suffice() -> None:
    pods = (sized("g", "1", guaranteed=True), sized("b1", "500m"), sized("b2", "500m"))
    assert chosen(ONE_CPU, *pods) == ["b1", "b2"]


def test_a_best_effort_pod_makes_a_place_where_only_places_are_short() -> None:
    pods = (sized("b", "1"), a_pod(name="be", uid="be"))
    assert chosen({"pods": Fraction(1)}, *pods) == ["be"]


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(sized("o", "4", priority=2_000_000_000), id="as-critical"),
        pytest.param(sized("o", "4", priority=2_000_001_000), id="more-critical"),
    ],
)
def test_critical_pods_of_the_same_or_higher_priority_stay(other: Pod) -> None:
    assert chosen(ONE_CPU, other) is None


def test_static_pods_stay_and_not_enough_is_nothing() -> None:
    assert chosen(ONE_CPU, sized("s", "4"), static=("s",)) is None
    assert chosen({"cpu": Fraction(5)}, sized("a", "1"), sized("b", "1")) is None
