"""From requests and limits to what the kernel is told: shares, quota, memory, pids, huge pages.

CPU is counted in millicores, memory in bytes, periods and quotas in microseconds. Sources:
kuberuntime_container_linux.go, kuberuntime_sandbox_linux.go, cm/helpers_linux.go.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from minikubelet.api import quantity
from minikubelet.api.pod import Container, Pod, Quantity
from minikubelet.cri import messages as m
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.qos import BEST_EFFORT, GUARANTEED, oom_score_adj, qos_class
from minikubelet.criconfig.requests import Totals, amounts, pod_limits, pod_requests

MIN_SHARES, MAX_SHARES, MIN_QUOTA_US = 2, 262_144, 1000


def milli_cpu_to_shares(milli: int) -> int:
    """Return cpu.shares for millicores: 1024 a core, never below 2."""
    return min(max(milli * 1024 // 1000, MIN_SHARES), MAX_SHARES)


def milli_cpu_to_quota(milli: int, period_us: int) -> int:
    """Return the CFS quota for millicores; 0 millicores is 0, which means unlimited."""
    return max(milli * period_us // 1000, MIN_QUOTA_US) if milli else 0


@dataclass(frozen=True, slots=True)
class CgroupResources:
    """What a pod's own cgroup is set to; None leaves the kernel's default."""

    cpu_shares: int = MIN_SHARES
    cpu_quota_us: int | None = None
    cpu_period_us: int | None = None
    memory_limit: int | None = None
    pids_limit: int | None = None


def linux_resources(
    cpu_request: int | None, cpu_limit: int | None, memory_limit: int, node: NodeContext
) -> m.LinuxContainerResources:
    """Return shares, quota and memory; CPU in millicores, None when the spec has no such entry."""
    shares_from = cpu_limit if cpu_request is None and cpu_limit is not None else cpu_request
    resources = m.LinuxContainerResources(cpu_shares=milli_cpu_to_shares(shares_from or 0))
    if memory_limit:
        resources.memory_limit_in_bytes = memory_limit
    if node.cpu_cfs_quota:
        resources.cpu_period = node.cpu_cfs_quota_period_us
        resources.cpu_quota = milli_cpu_to_quota(cpu_limit or 0, node.cpu_cfs_quota_period_us)
    return resources


def container_resources(
    pod: Pod, container: Container, node: NodeContext
) -> m.LinuxContainerResources:
    """Return everything the runtime enforces for one container, OOM score and swap included."""
    requests = container.resources.requests
    cpu_request = quantity.milli(requests["cpu"]) if "cpu" in requests else None
    cpu_limit = _effective_limit(pod, container, "cpu")
    memory_limit = _effective_limit(pod, container, "memory")
    resources = linux_resources(
        cpu_request,
        quantity.milli(cpu_limit) if cpu_limit is not None else None,
        quantity.value(memory_limit) if memory_limit is not None else 0,
        node,
    )
    resources.oom_score_adj = oom_score_adj(pod, container, node.memory_capacity)
    resources.hugepage_limits.extend(_hugepage_limits(pod, container, node))
    if node.cgroup_version >= 2:  # noqa: PLR2004  the kernel's own name
        if not node.single_process_oom_kill:
            resources.unified["memory.oom.group"] = "1"
        if node.swap_controller:
            resources.unified["memory.swap.max"] = "0"
    elif node.swap_controller:
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes
    return resources


def _effective_limit(pod: Pod, container: Container, name: str) -> Quantity | None:
    """Return the container's limit, else the pod's."""
    own = container.resources.limits.get(name)
    if (own is None or not quantity.parse(own)) and pod.spec.resources is not None:
        return pod.spec.resources.limits.get(name, own)
    return own


_PAGE_UNITS = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))


def _hugepage_limits(pod: Pod, container: Container, node: NodeContext) -> list[m.HugepageLimit]:
    """Return a limit for every page size of the node: 0 keeps a container from using it unasked."""
    asked: dict[int, int] = {}
    levels = [pod.spec.resources] if pod.spec.resources is not None else []
    for resources in (*levels, container.resources):
        for name, text in resources.limits.items():
            if name.startswith("hugepages-"):
                asked[quantity.value(name.removeprefix("hugepages-"))] = quantity.value(text)
    return [
        m.HugepageLimit(page_size=_page_size(size), limit=asked.get(size, 0))
        for size in node.hugepage_sizes
    ]


def _page_size(size: int) -> str:
    unit, name = next((unit, name) for unit, name in _PAGE_UNITS if size >= unit)
    return f"{size // unit}{name}"


def _milli(totals: Totals, name: str = "cpu") -> int:
    return ceil(totals.get(name, Fraction()) * 1000)


def sandbox_resources(pod: Pod, node: NodeContext) -> m.LinuxContainerResources:
    """Return the sum of the pod, without its overhead, for runtimes that size a VM by it."""
    requests = pod_requests(pod, overhead=False)
    limits = pod_limits(pod, overhead=False)
    return linux_resources(
        _milli(requests) if "cpu" in requests else None,
        _milli(limits) if "cpu" in limits else None,
        ceil(limits.get("memory", 0)),
        node,
    )


def sandbox_overhead(pod: Pod, node: NodeContext) -> m.LinuxContainerResources:
    """Return the RuntimeClass's overhead as resources; an empty message when there is none."""
    if not pod.spec.overhead:
        return m.LinuxContainerResources()
    overhead = amounts(pod.spec.overhead)
    return linux_resources(
        _milli(overhead), _milli(overhead), ceil(overhead.get("memory", 0)), node
    )


def pod_cgroup_resources(pod: Pod, node: NodeContext) -> CgroupResources:
    """Return what the pod's cgroup is set to: a limit only where every container has one."""
    pids = node.pod_pids_limit if node.pod_pids_limit > 0 else None
    qos = qos_class(pod)
    if qos == BEST_EFFORT:
        return CgroupResources(pids_limit=pids)
    limits = pod_limits(pod)
    quota = milli_cpu_to_quota(_milli(limits), node.cpu_cfs_quota_period_us)
    with_cpu = qos == GUARANTEED or _all_declare(pod, "cpu")
    with_memory = qos == GUARANTEED or _all_declare(pod, "memory")
    return CgroupResources(
        cpu_shares=milli_cpu_to_shares(_milli(pod_requests(pod))),
        cpu_quota_us=(quota if node.cpu_cfs_quota else -1) if with_cpu else None,
        cpu_period_us=node.cpu_cfs_quota_period_us if with_cpu else None,
        memory_limit=ceil(limits.get("memory", 0)) if with_memory else None,
        pids_limit=pids,
    )


def _all_declare(pod: Pod, name: str) -> bool:
    if pod.spec.resources is not None and _is_set(pod.spec.resources.limits, name):
        return True
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return all(_is_set(container.resources.limits, name) for container in containers)


def _is_set(quantities: Mapping[str, Quantity], name: str) -> bool:
    return quantity.parse(quantities.get(name, 0)) > 0
