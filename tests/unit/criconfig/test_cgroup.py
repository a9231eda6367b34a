from dataclasses import replace

import pytest

from minikubelet.criconfig.cgroup import pod_cgroup, pod_uid_of, qos_cgroups
from minikubelet.criconfig.context import NodeContext
from tests.builders import a_pod

NODE = NodeContext(node_name="n")
SYSTEMD = replace(NODE, cgroup_driver="systemd")
UID = "1a-2b"


@pytest.mark.parametrize(
    ("node", "qos", "path"),
    [
        (NODE, "BestEffort", "/kubepods/besteffort/pod1a-2b"),
        (NODE, "Burstable", "/kubepods/burstable/pod1a-2b"),
        (NODE, "Guaranteed", "/kubepods/pod1a-2b"),
        (replace(NODE, cgroup_root="/mini/x"), "Guaranteed", "/mini/x/kubepods/pod1a-2b"),
        (
            SYSTEMD,
            "Burstable",
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1a_2b.slice",
        ),
        (SYSTEMD, "Guaranteed", "/kubepods.slice/kubepods-pod1a_2b.slice"),
        (
            replace(SYSTEMD, cgroup_root="/my.slice"),
            "Guaranteed",
            "/my.slice/my-kubepods.slice/my-kubepods-pod1a_2b.slice",
        ),
        (replace(NODE, cgroups_per_qos=False), "Burstable", "/"),
    ],
)
def test_pod_cgroup(node: NodeContext, qos: str, path: str) -> None:
    assert pod_cgroup(a_pod(uid=UID, status={"qosClass": qos}), node) == path


@pytest.mark.parametrize("node", [NODE, SYSTEMD])
def test_a_pods_uid_is_read_back(node: NodeContext) -> None:
    last = pod_cgroup(a_pod(uid=UID), node).rpartition("/")[2]
    assert pod_uid_of(last, node) == UID
    assert pod_uid_of("burstable", node) is None


def test_qos_parents() -> None:
    assert qos_cgroups(NODE) == {
        "Guaranteed": "/kubepods",
        "Burstable": "/kubepods/burstable",
        "BestEffort": "/kubepods/besteffort",
    }
