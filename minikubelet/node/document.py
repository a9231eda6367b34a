"""The Node object as documents: what is registered, what an existing one lacks, status patches.

Pure. Source: kubelet kubelet_node_status.go, nodestatus/setters.go.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from minikubelet.kube.api import Document
from minikubelet.kube.documents import meaning
from minikubelet.node import capacity
from minikubelet.node.conditions import node_conditions
from minikubelet.node.facts import MachineFacts, NodeImage, NodeSettings, RuntimeFacts

ATTACH_DETACH = "volumes.kubernetes.io/controller-managed-attach-detach"
PROVIDED_NODE_IP = "alpha.kubernetes.io/provided-node-ip"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
NAMES_PER_IMAGE = 5
_DEFAULT_LABELS = (
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "node.kubernetes.io/windows-build",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
)
"""Labels that are set again on an existing node; custom ones are not."""

DECLARED_FEATURES = ("RestartAllContainersOnContainerExits",)
"""Those of Kubernetes' features that a scheduler asks a node about and that this one has."""


def labels(settings: NodeSettings, machine: MachineFacts) -> dict[str, str]:
    """Return the labels to register with."""
    return {
        "beta.kubernetes.io/arch": machine.architecture,
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine.architecture,
        "kubernetes.io/hostname": settings.hostname,
        "kubernetes.io/os": "linux",
        **settings.labels,
    }


def new_node(settings: NodeSettings, machine: MachineFacts, status: Document) -> Document:
    """Return the object to create."""
    taints = [_taint(t.key, t.value, t.effect) for t in settings.taints]
    if settings.external_cloud:
        taints.append(_taint(UNINITIALIZED, "true", "NoSchedule"))
    spec: Document = {}
    if taints:
        spec["taints"] = taints
    if settings.provider_id:
        spec["providerID"] = settings.provider_id
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": settings.name,
            "labels": labels(settings, machine),
            "annotations": _annotations(settings),
        },
        "spec": spec,
        "status": status,
    }


def _taint(key: str, value: str, effect: str) -> Document:
    taint = {"key": key, "effect": effect}
    return taint | {"value": value} if value else taint


def _annotations(settings: NodeSettings) -> dict[str, str]:
    annotations = {}
    if settings.attach_detach:
        annotations[ATTACH_DETACH] = "true"
    if settings.external_cloud and settings.node_ips:
        annotations[PROVIDED_NODE_IP] = ",".join(settings.node_ips)
    return annotations


def reconcile_patch(existing: Mapping[str, Any], wanted: Mapping[str, Any]) -> Document | None:
    """Return the metadata patch that an existing node needs, or None. Taints stay as they are."""
    metadata = existing.get("metadata", {})
    have = metadata.get("labels") or {}
    changed = {
        name: value
        for name, value in wanted["metadata"]["labels"].items()
        if name in _DEFAULT_LABELS and have.get(name) != value
    }
    patch: Document = {"labels": changed} if changed else {}
    told = (metadata.get("annotations") or {}).get(ATTACH_DETACH)
    asked = wanted["metadata"]["annotations"].get(ATTACH_DETACH)
    if told != asked:
        patch["annotations"] = {ATTACH_DETACH: asked}
    return {"metadata": patch} if patch else None


def node_status(
    settings: NodeSettings,
    machine: MachineFacts,
    runtime: RuntimeFacts,
    earlier: Mapping[str, Any],
    now: str,
) -> Document:
    """Return the status the node should show, its own conditions only; `now` is RFC 3339."""
    amounts = capacity.capacity(machine, settings.max_pods)
    left = capacity.allocatable(amounts, capacity.reservations(settings, amounts))
    status: Document = {
        "capacity": capacity.shown(amounts),
        "allocatable": capacity.shown(left),
        "conditions": node_conditions(
            earlier.get("conditions") or (), _problems(settings, runtime), (), now
        ),
        "addresses": _addresses(settings, earlier),
        "daemonEndpoints": {"kubeletEndpoint": {"Port": settings.port}},
        "nodeInfo": _node_info(settings, machine, runtime),
        "images": _images(runtime.images, settings.max_images),
        "declaredFeatures": list(DECLARED_FEATURES),
    }
    if runtime.handlers:
        status["runtimeHandlers"] = [
            {
                "name": handler.name,
                "features": {
                    "recursiveReadOnlyMounts": handler.recursive_read_only_mounts,
                    "userNamespaces": handler.user_namespaces,
                },
            }
            for handler in sorted(runtime.handlers, key=lambda handler: handler.name)
        ]
    if runtime.supplemental_groups_policy is not None:
        status["features"] = {"supplementalGroupsPolicy": runtime.supplemental_groups_policy}
    return status


def _problems(settings: NodeSettings, runtime: RuntimeFacts) -> list[str]:
    problems = list(runtime.problems)
    if not settings.node_ips and not settings.external_cloud:
        problems.append(
            "cannot find an address of this node: give one with --node-ip, or connect it"
        )
    return problems


def _addresses(settings: NodeSettings, earlier: Mapping[str, Any]) -> list[Document]:
    told = earlier.get("addresses") or []
    if settings.external_cloud and told:
        return list(told)
    own = [] if settings.external_cloud and not settings.node_ips else settings.node_ips
    return [
        *({"type": "InternalIP", "address": address} for address in own),
        {"type": "Hostname", "address": settings.hostname},
    ]


def _node_info(settings: NodeSettings, machine: MachineFacts, runtime: RuntimeFacts) -> Document:
    info: Document = {
        "machineID": machine.machine_id,
        "systemUUID": machine.system_uuid,
        "bootID": machine.boot_id,
        "kernelVersion": machine.kernel_version,
        "osImage": machine.os_image,
        "containerRuntimeVersion": runtime.version,
        "kubeletVersion": settings.version,
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": machine.architecture,
    }
    if machine.swap:
        info["swap"] = {"capacity": machine.swap}
    return info


def _images(images: Iterable[NodeImage], limit: int) -> list[Document]:
    largest = sorted(images, key=lambda image: (-image.size, image.names))
    chosen = largest if limit < 0 else largest[:limit]
    return [
        {"names": list(image.names[:NAMES_PER_IMAGE]), "sizeBytes": image.size} for image in chosen
    ]


def status_patch(live: Mapping[str, Any], wanted: Mapping[str, Any]) -> Document | None:
    """Return the status patch that makes `live` say what `wanted` says, heartbeats included.

    None when only heartbeat times differ: whoever wants to report all the same sends
    `heartbeat_patch`. Conditions of others stay.
    """
    patch = {
        name: value
        for name, value in wanted.items()
        if name not in ("conditions", "addresses") and meaning(live.get(name)) != meaning(value)
    }
    if live.get("addresses") != wanted["addresses"]:
        # Two addresses may have one type, which is the list's merge key: the whole is replaced.
        patch["addresses"] = [{"$patch": "replace"}, *wanted["addresses"]]
    if _without_heartbeats(live.get("conditions") or (), wanted) != _without_heartbeats(
        wanted["conditions"], wanted
    ):
        patch["conditions"] = wanted["conditions"]
    if not patch:
        return None
    return {"status": {**patch, "conditions": wanted["conditions"]}}


def heartbeat_patch(wanted: Mapping[str, Any]) -> Document:
    """Return the patch that only renews the conditions' heartbeats."""
    return {"status": {"conditions": wanted["conditions"]}}


def _without_heartbeats(
    conditions: Iterable[Mapping[str, Any]], wanted: Mapping[str, Any]
) -> list[Document]:
    types = [condition["type"] for condition in wanted["conditions"]]
    chosen = [condition for condition in conditions if condition["type"] in types]
    chosen.sort(key=lambda condition: types.index(condition["type"]))
    return [{k: v for k, v in c.items() if k != "lastHeartbeatTime"} for c in chosen]
