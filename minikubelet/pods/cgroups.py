"""The pod's own cgroup: below the QoS tree, made before the sandbox, removed after it."""

from minikubelet.api.pod import Pod
from minikubelet.criconfig.cgroup import pod_cgroup
from minikubelet.criconfig.resources import pod_cgroup_resources
from minikubelet.pods.kit import Kit


async def ensure_cgroup(kit: Kit, pod: Pod) -> None:
    """Make and set the pod's cgroup. Raises OSError."""
    if kit.node.cgroups_per_qos:
        await kit.cgroups.ensure(pod_cgroup(pod, kit.node), pod_cgroup_resources(pod, kit.node))


async def remove_cgroup(kit: Kit, pod: Pod) -> None:
    """Remove the pod's cgroup, with what runtimes left below it. Raises OSError."""
    if kit.node.cgroups_per_qos:
        await kit.cgroups.remove(pod_cgroup(pod, kit.node))
