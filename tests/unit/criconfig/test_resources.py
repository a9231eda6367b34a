from dataclasses import replace
from typing import Any

import pytest

from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.resources import (
    CgroupResources,
    container_resources,
    milli_cpu_to_quota,
    milli_cpu_to_shares,
    pod_cgroup_resources,
    sandbox_overhead,
    sandbox_resources,
)
from tests.builders import a_container, a_pod

NODE = NodeContext(node_name="n", memory_capacity=4 * 2**30)
MIB = 2**20


def sized(name: str = "c", requests: Any = None, limits: Any = None, **more: Any) -> Any:
    return a_container(name, resources={"requests": requests or {}, "limits": limits or {}}, **more)


@pytest.mark.parametrize(
    ("milli", "shares"), [(0, 2), (1, 2), (2, 2), (100, 102), (1000, 1024), (300_000, 262_144)]
)
def test_shares(milli: int, shares: int) -> None:
    assert milli_cpu_to_shares(milli) == shares


@pytest.mark.parametrize(
    ("milli", "quota"), [(0, 0), (1, 1000), (10, 1000), (100, 10_000), (1500, 150_000)]
)
def test_quota(milli: int, quota: int) -> None:
    assert milli_cpu_to_quota(milli, 100_000) == quota


@pytest.mark.parametrize(
    ("requests", "limits", "shares", "quota", "memory"),
    [
        ({}, {}, 2, 0, 0),
        ({"cpu": "500m"}, {}, 512, 0, 0),
        ({}, {"cpu": "500m"}, 512, 50_000, 0),
        ({"cpu": "0"}, {"cpu": "500m"}, 2, 50_000, 0),
        ({"cpu": "100m"}, {"cpu": "1", "memory": "64Mi"}, 102, 100_000, 64 * MIB),
    ],
)
def test_container_numbers(
    requests: Any, limits: Any, shares: int, quota: int, memory: int
) -> None:
    pod = a_pod(sized(requests=requests, limits=limits))
    resources = container_resources(pod, pod.spec.containers[0], NODE)
    assert resources.cpu_shares == shares
    assert (resources.cpu_quota, resources.cpu_period) == (quota, 100_000)
    assert resources.memory_limit_in_bytes == memory


def test_no_quota_when_switched_off() -> None:
    pod = a_pod(sized(limits={"cpu": "1"}))
    node = replace(NODE, cpu_cfs_quota=False)
    resources = container_resources(pod, pod.spec.containers[0], node)
    assert (resources.cpu_quota, resources.cpu_period) == (0, 0)


def test_the_pods_limit_stands_in_for_a_missing_one() -> None:
    pod = a_pod(sized(), resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    resources = container_resources(pod, pod.spec.containers[0], NODE)
    assert (resources.cpu_quota, resources.memory_limit_in_bytes) == (200_000, 2**30)


@pytest.mark.parametrize(
    ("version", "swap", "single", "unified", "swap_limit"),
    [
        (2, True, False, {"memory.oom.group": "1", "memory.swap.max": "0"}, 0),
        (2, False, False, {"memory.oom.group": "1"}, 0),
        (2, False, True, {}, 0),
        (1, True, False, {}, 64 * MIB),
        (1, False, False, {}, 0),
    ],
)
def test_swap_and_oom_group(
    version: int,
    swap: bool,
    single: bool,
    unified: dict[str, str],
    swap_limit: int,
) -> None:
    node = replace(
        NODE, cgroup_version=version, swap_controller=swap, single_process_oom_kill=single
    )
    pod = a_pod(sized(limits={"memory": "64Mi"}))
    resources = container_resources(pod, pod.spec.containers[0], node)
    assert dict(resources.unified) == unified
    assert resources.memory_swap_limit_in_bytes == swap_limit


def test_every_page_size_of_the_node_is_limited() -> None:
    pod = a_pod(sized(limits={"hugepages-2Mi": "4Mi"}))
    node = replace(NODE, hugepage_sizes=(2 * MIB, 2**30))
    limits = container_resources(pod, pod.spec.containers[0], node).hugepage_limits
    assert [(limit.page_size, limit.limit) for limit in limits] == [("2MB", 4 * MIB), ("1GB", 0)]


BOTH = {"cpu": "1", "memory": "64Mi"}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([sized()], CgroupResources(cpu_shares=2)),
        (
            [sized(requests=BOTH, limits=BOTH)],
            CgroupResources(1024, 100_000, 100_000, 64 * MIB),
        ),
        (
            [sized(requests=BOTH, limits=BOTH), sized("d", requests={"cpu": "1"})],
            CgroupResources(2048),
        ),
        (
            [sized(requests={"cpu": "100m"}, limits={"memory": "1Mi"})],
            CgroupResources(102, memory_limit=MIB),
        ),
    ],
    ids=["BestEffort", "Guaranteed", "one without limits", "memory limit only"],
)
def test_pod_cgroup(containers: list[Any], expected: CgroupResources) -> None:
    assert pod_cgroup_resources(a_pod(*containers), NODE) == expected


def test_pod_cgroup_counts_the_peak_of_init_and_regular_containers() -> None:
    pod = a_pod(
        sized(requests={"cpu": "1"}),
        init=(
            sized("first", requests={"cpu": "3"}),
            sized("sidecar", requests={"cpu": "500m"}, restartPolicy="Always"),
            sized("second", requests={"cpu": "4"}),
        ),
        overhead={"cpu": "500m"},
    )
    assert pod_cgroup_resources(pod, NODE).cpu_shares == 5 * 1024


def test_overhead_alone_counts_once() -> None:
    pod = a_pod(overhead={"cpu": "500m"}, status={"qosClass": "Burstable"})
    assert pod_cgroup_resources(pod, NODE).cpu_shares == 512


def test_pids_limit_only_when_asked() -> None:
    pod = a_pod()
    assert pod_cgroup_resources(pod, NODE).pids_limit is None
    assert pod_cgroup_resources(pod, replace(NODE, pod_pids_limit=100)).pids_limit == 100


def test_sandbox_sums_leave_the_overhead_apart() -> None:
    pod = a_pod(sized(requests=BOTH, limits=BOTH), overhead={"cpu": "250m", "memory": "1Mi"})
    assert sandbox_resources(pod, NODE).cpu_shares == 1024
    assert sandbox_resources(pod, NODE).memory_limit_in_bytes == 64 * MIB
    assert sandbox_overhead(pod, NODE).cpu_shares == 256
    assert sandbox_overhead(pod, NODE).memory_limit_in_bytes == MIB
    assert sandbox_overhead(a_pod(), NODE).ByteSize() == 0
