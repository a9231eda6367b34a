"""The pod's own cgroup: below the QoS tree, made before the sandbox, removed after it."""

from minikubelet.api.pod import Pod
from minikubelet.criconfig.cgroup import pod_cgroup, qos_cgroups
from minikubelet.criconfig.qos import BEST_EFFORT, qos_class
from minikubelet.criconfig.resources import MIN_SHARES, CgroupResources, pod_cgroup_resources
from minikubelet.pods.kit import Kit


async def ensure_cgroup(kit: Kit, pod: Pod) -> None:
    """Make and set the pod's cgroup. Raises OSError."""
    if not kit.node.cgroups_per_qos:
        return
    parent = qos_cgroups(kit.node)[BEST_EFFORT]
    if qos_class(pod) == BEST_EFFORT and parent not in kit.ready_cgroups:
        # Together they get what nobody else wants (cm/qos_container_manager_linux.go).
        await kit.cgroups.ensure(parent, CgroupResources(cpu_shares=MIN_SHARES))
        kit.ready_cgroups.add(parent)
    await kit.cgroups.ensure(pod_cgroup(pod, kit.node), pod_cgroup_resources(pod, kit.node))


async def remove_cgroup(kit: Kit, pod: Pod) -> None:
    """Remove the pod's cgroup, with what runtimes left below it. Raises OSError."""
    if kit.node.cgroups_per_qos:
        await kit.cgroups.remove(pod_cgroup(pod, kit.node))
