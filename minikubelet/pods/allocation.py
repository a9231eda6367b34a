"""What a pod was admitted with: its containers run with these resources, whatever is wished later.

Pure. A wish for other resources (in-place resize) is told as one that this node never follows.
Source: kubelet allocation/allocation_manager.go (KEP-1287).
"""

from collections.abc import Mapping

from msgspec.structs import replace

from minikubelet.api.pod import Container, Pod, ResourceRequirements

Allocated = Mapping[str, ResourceRequirements]
"""By container name; the pod's own under the empty name."""

REFUSED = (
    "this node doesn't resize pods in place: delete the pod, so that it is made again with the "
    "new resources"
)


def allocated_of(pod: Pod) -> dict[str, ResourceRequirements]:
    """Return what a pod is admitted with."""
    allocated = {
        container.name: container.resources
        for container in (*pod.spec.init_containers, *pod.spec.containers)
    }
    if pod.spec.resources is not None:
        allocated[""] = pod.spec.resources
    return allocated


def with_allocated(pod: Pod, allocated: Allocated) -> Pod:
    """Return the pod with the resources that it was admitted with."""
    if allocated_of(pod) == allocated:
        return pod

    def settled(containers: tuple[Container, ...]) -> tuple[Container, ...]:
        return tuple(
            replace(each, resources=allocated.get(each.name, each.resources)) for each in containers
        )

    spec = replace(
        pod.spec,
        init_containers=settled(pod.spec.init_containers),
        containers=settled(pod.spec.containers),
        resources=allocated.get("", pod.spec.resources),
    )
    return replace(pod, spec=spec)
