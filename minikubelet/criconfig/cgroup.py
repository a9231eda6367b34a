"""Names of pod cgroups: the QoS tree below the cgroup root, for both cgroup drivers.

Only names: making and removing cgroups is the caller's. Source: cm/cgroup_manager_linux.go,
cm/pod_container_manager_linux.go.
"""

from minikubelet.api.pod import Pod
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.qos import BEST_EFFORT, BURSTABLE, GUARANTEED, qos_class

_TOP = "kubepods"
_QOS_PARENT = {GUARANTEED: (), BURSTABLE: ("burstable",), BEST_EFFORT: ("besteffort",)}


def cgroup_path(components: tuple[str, ...], driver: str) -> str:
    """Return the path below the cgroup mount; systemd spells out each slice's parents."""
    if driver != "systemd":
        return "/" + "/".join(components)
    path = ""
    prefix = ""
    for component in components:
        prefix = f"{prefix}-{_escaped(component)}" if prefix else _escaped(component)
        path += f"/{prefix}.slice"
    return path or "/"


def _escaped(component: str) -> str:
    # A dash separates levels in a slice's name, so it can't be part of a component.
    return component.removesuffix(".slice").replace("-", "_")


def _root(node: NodeContext) -> tuple[str, ...]:
    return tuple(part for part in node.cgroup_root.split("/") if part)


def pod_cgroup(pod: Pod, node: NodeContext) -> str:
    """Return the pod's cgroup: also the sandbox's `cgroup_parent`. The root without QoS cgroups."""
    if not node.cgroups_per_qos:
        return cgroup_path(_root(node), node.cgroup_driver)
    parent = _QOS_PARENT[qos_class(pod)]
    parts = (*_root(node), _TOP, *parent, f"pod{pod.metadata.uid}")
    return cgroup_path(parts, node.cgroup_driver)


def qos_cgroups(node: NodeContext) -> dict[str, str]:
    """Return the parent cgroup of each QoS class; Guaranteed pods sit directly below the top."""
    root = _root(node)
    return {
        qos: cgroup_path((*root, _TOP, *parent), node.cgroup_driver)
        for qos, parent in _QOS_PARENT.items()
    }


def pod_uid_of(name: str, node: NodeContext) -> str | None:
    """Return the uid that a cgroup's last path component carries, or None if it is no pod's.

    systemd names have `_` for `-`: uids without an underscore come back as they were.
    """
    if node.cgroup_driver == "systemd":
        name = name.removesuffix(".slice").rpartition("-")[2].replace("_", "-")
    return name.removeprefix("pod") if name.startswith("pod") and name != "pod" else None
