"""How much a pod matters when memory runs out: QoS class, criticality, OOM score.

Sources: pkg/apis/core/v1/helper/qos, types/pod_update.go IsCriticalPod, qos/policy.go.
"""

from collections.abc import Iterable, Mapping

from minikubelet.api import quantity
from minikubelet.api.meta import CONFIG_MIRROR, CONFIG_SOURCE
from minikubelet.api.pod import Container, Pod, Quantity, ResourceRequirements
from minikubelet.criconfig.requests import Totals, added, amounts, pod_requests

GUARANTEED, BURSTABLE, BEST_EFFORT = "Guaranteed", "Burstable", "BestEffort"
GUARANTEED_OOM, BEST_EFFORT_OOM = -997, 1000
SYSTEM_CRITICAL_PRIORITY = 2_000_000_000
_QOS_RESOURCES = ("cpu", "memory")


def qos_class(pod: Pod) -> str:
    """Return the QoS class: the one in the status if set, else computed from cpu and memory."""
    if pod.status.qos_class:
        return pod.status.qos_class
    if pod.spec.resources is not None:
        holders: Iterable[ResourceRequirements] = (pod.spec.resources,)
    else:
        holders = [c.resources for c in (*pod.spec.containers, *pod.spec.init_containers)]
    requests: Totals = {}
    limits: Totals = {}
    all_limited = True
    for resources in holders:
        requests = added(requests, _qos_amounts(resources.requests))
        own_limits = _qos_amounts(resources.limits)
        limits = added(limits, own_limits)
        all_limited = all_limited and len(own_limits) == len(_QOS_RESOURCES)
    if not requests and not limits:
        return BEST_EFFORT
    return GUARANTEED if all_limited and requests == limits else BURSTABLE


def _qos_amounts(quantities: Mapping[str, Quantity]) -> Totals:
    counted = {name: text for name, text in quantities.items() if name in _QOS_RESOURCES}
    return {name: amount for name, amount in amounts(counted).items() if amount > 0}


def is_critical(pod: Pod) -> bool:
    """Tell whether the pod is static, a mirror, or of system priority (types/pod_update.go)."""
    annotations = pod.metadata.annotations
    is_static = annotations.get(CONFIG_SOURCE, "api") != "api" or CONFIG_MIRROR in annotations
    return is_static or (pod.spec.priority or 0) >= SYSTEM_CRITICAL_PRIORITY


def oom_score_adj(pod: Pod, container: Container, memory_capacity: int) -> int:
    """Return the score: how soon the kernel kills this container when memory runs out."""
    if is_critical(pod) and pod.spec.priority_class_name == "system-node-critical":
        return GUARANTEED_OOM
    qos = qos_class(pod)
    if qos != BURSTABLE:
        return GUARANTEED_OOM if qos == GUARANTEED else BEST_EFFORT_OOM
    if memory_capacity <= 0:
        return BEST_EFFORT_OOM - 1
    share = _unassigned_memory(pod)
    score = 1000 - 1000 * (_memory_request(container) + share) // memory_capacity
    if container.is_sidecar and pod.spec.containers:
        smallest = min(map(_memory_request, pod.spec.containers))
        score = min(score, 1000 - 1000 * (smallest + share) // memory_capacity)
    if score < 1000 + GUARANTEED_OOM:
        return 1000 + GUARANTEED_OOM
    return BEST_EFFORT_OOM - 1 if score == BEST_EFFORT_OOM else score


def _memory_request(container: Container) -> int:
    return quantity.value(container.resources.requests.get("memory", 0))


def _unassigned_memory(pod: Pod) -> int:
    """Return each container's part of a pod-level request that no container asked for itself."""
    if pod.spec.resources is None or "memory" not in pod.spec.resources.requests:
        return 0
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    own = pod_requests(pod, overhead=False, pod_level=False)
    rest = quantity.value(pod.spec.resources.requests["memory"]) - int(own.get("memory", 0))
    return rest // len(containers) if containers else 0
