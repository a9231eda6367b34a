from typing import Any

import anyio
import pytest

from minikubelet.cri.errors import Unavailable
from minikubelet.node.pod_cidr import PodCIDR
from tests.unit.pods.harness import jump

pytestmark = pytest.mark.anyio


async def test_each_change_is_told_once_and_again_after_an_outage() -> None:
    told: list[str] = []
    failures = [Unavailable("UpdateRuntimeConfig", "Unavailable", "down")]

    async def tell(cidr: str) -> None:
        if failures:
            raise failures.pop()
        told.append(cidr)

    pod_cidr = PodCIDR(tell)
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        group.start_soon(pod_cidr.run)
        nodes: list[dict[str, Any] | None] = [
            None,
            {"spec": {}},
            {"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24", "fd00::/64"]}},
            {"spec": {"podCIDR": "10.0.1.0/24", "podCIDRs": ["10.0.1.0/24", "fd00::/64"]}},
            None,
            {"spec": {"podCIDR": "10.0.2.0/24"}},
        ]
        for node in nodes:
            pod_cidr.seen(node)
            await anyio.sleep(10)
        group.cancel_scope.cancel()
    assert told == ["10.0.1.0/24,fd00::/64", "10.0.2.0/24"]
