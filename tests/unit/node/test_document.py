from typing import Any

import pytest

from minikubelet.node.conditions import condition_events, node_conditions
from minikubelet.node.document import (
    ATTACH_DETACH,
    heartbeat_patch,
    new_node,
    node_status,
    reconcile_patch,
    status_patch,
)
from minikubelet.node.facts import (
    Handler,
    MachineFacts,
    NodeImage,
    NodeSettings,
    RuntimeFacts,
    Taint,
)
from tests.apiserver import merged

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:10:00Z"
MACHINE = MachineFacts(
    architecture="amd64",
    cpus=2,
    memory=24_000_000 * 1024,
    disk=100_000_000_000,
    hugepages={2 << 20: 64 << 20, 1 << 30: 0},
    machine_id="m",
    system_uuid="s",
    boot_id="b",
    kernel_version="6.1",
    os_image="Debian",
)
RUNTIME = RuntimeFacts(
    "containerd://2.1.4", handlers=(Handler("runc", user_namespaces=True), Handler(""))
)


def settings(**fields: Any) -> NodeSettings:
    return NodeSettings(
        name="n1", hostname="n1", node_ips=("192.0.2.1",), version="v1.36.0", **fields
    )


def status(earlier: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    runtime = fields.pop("runtime", RUNTIME)
    return node_status(settings(**fields), MACHINE, runtime, earlier or {}, NOW)


def test_a_new_node_has_its_labels_taints_and_annotation() -> None:
    chosen = settings(
        labels={"disk": "ssd", "kubernetes.io/arch": "other"},
        taints=(Taint("k", "v", "NoSchedule"), Taint("only", "", "NoExecute")),
        provider_id="kind://docker/kind/n1",
    )
    node = new_node(chosen, MACHINE, {})
    assert node["metadata"]["labels"] == {
        "beta.kubernetes.io/arch": "amd64",
        "beta.kubernetes.io/os": "linux",
        "kubernetes.io/arch": "other",
        "kubernetes.io/hostname": "n1",
        "kubernetes.io/os": "linux",
        "disk": "ssd",
    }
    assert node["metadata"]["annotations"] == {ATTACH_DETACH: "true"}
    assert node["spec"] == {
        "providerID": "kind://docker/kind/n1",
        "taints": [
            {"key": "k", "effect": "NoSchedule", "value": "v"},
            {"key": "only", "effect": "NoExecute"},
        ],
    }


def test_an_external_cloud_taints_the_node_until_it_is_initialised() -> None:
    node = new_node(settings(external_cloud=True), MACHINE, {})
    assert node["spec"]["taints"][0]["key"] == "node.cloudprovider.kubernetes.io/uninitialized"
    assert node["metadata"]["annotations"]["alpha.kubernetes.io/provided-node-ip"] == "192.0.2.1"


def test_capacity_and_allocatable() -> None:
    told = status(
        reserved=({"cpu": "100m", "memory": "1Gi"}, {"memory": "500Mi", "pid": "100"}),
        eviction_hard={
            "memory.available": "100Mi",
            "nodefs.available": "10%",
            "pid.available": "5%",
        },
    )
    assert told["capacity"] == {
        "cpu": "2",
        "ephemeral-storage": "97656250Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "64Mi",
        "memory": "24000000Ki",
        "pods": "110",
    }
    assert told["allocatable"] == {
        "cpu": "1900m",
        "ephemeral-storage": "87890625Ki",
        "hugepages-1Gi": "0",
        "hugepages-2Mi": "64Mi",
        "memory": f"{24_000_000 - (1624 + 64) * 1024}Ki",
        "pods": "110",
    }


def test_more_reserved_than_there_is_leaves_nothing() -> None:
    assert status(reserved=({"cpu": "3", "memory": "100Gi"},))["allocatable"]["cpu"] == "0"


def test_the_status_names_addresses_runtime_and_handlers() -> None:
    told = status()
    assert told["addresses"] == [
        {"type": "InternalIP", "address": "192.0.2.1"},
        {"type": "Hostname", "address": "n1"},
    ]
    assert told["nodeInfo"]["containerRuntimeVersion"] == "containerd://2.1.4"
    assert [h["name"] for h in told["runtimeHandlers"]] == ["", "runc"]
    assert told["runtimeHandlers"][1]["features"]["userNamespaces"] is True
    assert told["daemonEndpoints"]["kubeletEndpoint"]["Port"] == 10250


def test_the_node_says_what_schedulers_ask_for() -> None:
    assert status()["declaredFeatures"] == ["RestartAllContainersOnContainerExits"]


def test_the_largest_images_are_shown_with_five_names_each() -> None:
    images = tuple(NodeImage(tuple(f"image{n}:{t}" for t in range(9)), n) for n in range(100))
    told = status(runtime=RuntimeFacts("x", images=images))["images"]
    assert [image["sizeBytes"] for image in told] == list(range(99, 49, -1))
    assert len(told[0]["names"]) == 5
    everything = status(runtime=RuntimeFacts("x", images=images), max_images=-1)["images"]
    assert len(everything) == 100


@pytest.mark.parametrize(
    ("problems", "expected"),
    [
        pytest.param((), ("True", "KubeletReady", "kubelet is posting ready status"), id="ready"),
        pytest.param(
            ("container runtime is down",),
            ("False", "KubeletNotReady", "container runtime is down"),
            id="one",
        ),
        pytest.param(("a", "b"), ("False", "KubeletNotReady", "[a, b]"), id="two"),
    ],
)
def test_ready_is_last_and_says_why_not(
    problems: tuple[str, ...], expected: tuple[str, str, str]
) -> None:
    made = node_conditions((), problems, (), NOW)
    assert [c["type"] for c in made] == ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
    assert (made[-1]["status"], made[-1]["reason"], made[-1]["message"]) == expected


def test_a_transition_time_moves_only_with_the_status() -> None:
    first = node_conditions((), (), (), NOW)
    second = node_conditions(first, (), ("DiskPressure",), LATER)
    moved = {c["type"] for c in second if c["lastTransitionTime"] == LATER}
    assert moved == {"DiskPressure"}
    assert {c["lastHeartbeatTime"] for c in second} == {LATER}


def test_each_change_of_a_condition_is_an_event() -> None:
    first = node_conditions((), (), (), NOW)
    assert [e.reason for e in condition_events("n1", (), first)] == [
        "NodeHasSufficientMemory",
        "NodeHasNoDiskPressure",
        "NodeHasSufficientPID",
        "NodeReady",
    ]
    second = node_conditions(first, ("down",), (), LATER)
    events = condition_events("n1", first, second)
    assert [(e.reason, e.message) for e in events] == [
        ("NodeNotReady", "Node n1 status is now: NodeNotReady")
    ]


def test_nothing_is_sent_when_only_heartbeats_differ() -> None:
    live = status()
    wanted = node_status(settings(), MACHINE, RUNTIME, live, LATER)
    assert status_patch(live, wanted) is None
    renewed = merged({"status": live}, heartbeat_patch(wanted))["status"]
    assert {c["lastHeartbeatTime"] for c in renewed["conditions"]} == {LATER}


def test_a_patch_changes_what_differs_and_keeps_others_conditions() -> None:
    foreign = {"type": "NetworkUnavailable", "status": "False"}
    live = status()
    live["conditions"].append(foreign)
    live["addresses"] = [{"type": "InternalIP", "address": "192.0.2.9"}]
    wanted = node_status(
        settings(), MACHINE, RuntimeFacts("x://1", problems=("down",)), live, LATER
    )
    patch = status_patch(live, wanted)
    assert patch is not None
    assert set(patch["status"]) == {"nodeInfo", "addresses", "conditions"}
    after = merged({"status": live}, patch)["status"]
    assert foreign in after["conditions"]
    assert after["addresses"] == wanted["addresses"]
    assert status_patch(after, wanted) is None


def test_an_existing_node_gets_default_labels_and_the_annotation_but_no_taints() -> None:
    wanted = new_node(
        settings(labels={"mine": "x"}, taints=(Taint("k", "", "NoSchedule"),)), MACHINE, {}
    )
    existing = {"metadata": {"labels": {"kubernetes.io/os": "linux"}}}
    patch = reconcile_patch(existing, wanted)
    assert patch == {
        "metadata": {
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": "n1",
            },
            "annotations": {ATTACH_DETACH: "true"},
        }
    }
    assert reconcile_patch(wanted, wanted) is None
