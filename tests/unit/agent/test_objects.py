"""What containers get from API objects while the apiserver is away."""

from typing import Any

import anyio
import pytest

from minikubelet.agent.objects import ClusterObjects
from minikubelet.api.meta import CONFIG_SOURCE
from minikubelet.criconfig.context import ConfigProblem
from minikubelet.kube.errors import Unavailable
from tests.apiserver import MemoryAPI
from tests.builders import a_pod

pytestmark = pytest.mark.anyio


class Clock:
    def monotonic(self) -> float:
        return anyio.current_time()

    def wall_ns(self) -> int:
        return 1


def objects() -> ClusterObjects:
    api = MemoryAPI(always=Unavailable("away"))
    return ClusterObjects(api, Clock(), lambda: 0.5, lambda _uid: None)


def from_source(source: str) -> Any:
    return a_pod(metadata={"annotations": {CONFIG_SOURCE: source}})


@pytest.mark.parametrize("source", ["file", "http"])
async def test_a_static_pod_starts_without_knowing_the_services(source: str) -> None:
    pod, begun = from_source(source), anyio.current_time()
    found = await objects().env(pod, pod.spec.containers[0])
    assert found.services == {}
    assert anyio.current_time() == begun


async def test_a_pod_of_the_apiserver_waits_for_them() -> None:
    pod = from_source("api")
    with pytest.raises(ConfigProblem, match="services have not yet been read at least once"):
        await objects().env(pod, pod.spec.containers[0])
