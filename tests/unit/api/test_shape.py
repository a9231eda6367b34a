import json
from typing import Any

import pytest

from minikubelet.api.pod import Pod
from minikubelet.api.shape import compare, nearest


def shape_of(spec: dict[str, Any] | None = None, **metadata: Any) -> tuple[list[str], list[str]]:
    shape = compare({"metadata": metadata, "spec": spec or {}}, Pod)
    return [str(p) for p in shape.wrong_types], [str(p) for p in shape.unknown]


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ({"hostNetwork": "yes"}, 'spec.hostNetwork: expected boolean, got string "yes"'),
        ({"containers": {}}, "spec.containers: expected list, got an object"),
        (
            {"containers": [{}, {"ports": [{"containerPort": "80"}]}]},
            'spec.containers[1].ports[0].containerPort: expected integer, got string "80"',
        ),
        ({"containers": [{"ports": [{"containerPort": True}]}]}, "got boolean true"),
        ({"containers": [None]}, "spec.containers[0]: expected object, got null"),
        ({"nodeSelector": {"a": 1}}, "spec.nodeSelector[a]: expected string, got integer 1"),
        (
            {"containers": [{"resources": {"limits": {"cpu": [1]}}}]},
            (
                "spec.containers[0].resources.limits[cpu]: expected string or integer or "
                "number, got a list"
            ),
        ),
        ({"priority": 1.5}, "spec.priority: expected integer, got number 1.5"),
        ({"securityContext": 5}, "spec.securityContext: expected object, got integer 5"),
    ],
)
def test_a_wrong_type_is_named_with_its_path(spec: dict[str, Any], problem: str) -> None:
    (wrong,), unknown = shape_of(spec)
    assert problem in wrong
    assert unknown == []


def test_all_faults_are_named_at_once() -> None:
    wrong, unknown = shape_of({"hostPID": 1, "hostIPC": 1, "foo": 1, "bar": 2})
    assert len(wrong) == 2
    assert len(unknown) == 2


@pytest.mark.parametrize(
    ("spec", "metadata", "problem"),
    [
        (
            {},
            {"restartPolicy": "Never"},
            "metadata.restartPolicy: unknown field here, it belongs to spec.restartPolicy",
        ),
        (
            {"containers": [{"imagePullPolcy": "Always"}]},
            {},
            "spec.containers[0].imagePullPolcy: unknown field, did you mean imagePullPolicy?",
        ),
        ({"ImagePullSecrets": []}, {}, "unknown field, did you mean imagePullSecrets?"),
        ({"zzz": 1}, {}, "spec.zzz: unknown field"),
    ],
)
def test_an_unknown_field_is_named_with_the_one_that_was_meant(
    spec: dict[str, Any], metadata: dict[str, Any], problem: str
) -> None:
    wrong, (unknown,) = shape_of(spec, **metadata)
    assert unknown.endswith(problem)
    assert wrong == []


def test_no_field_of_a_real_pod_is_unknown() -> None:
    everything = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"a": "b"}, "ownerReferences": [{"apiVersion": "v1"}]},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "livenessProbe": {"grpc": {"port": 1, "service": "x"}},
                    "securityContext": {"seLinuxOptions": {"level": "s0"}, "procMount": "Default"},
                    "lifecycle": {"preStop": {"sleep": {"seconds": 1}}, "stopSignal": "SIGTERM"},
                    "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}],
                    "envFrom": [{"configMapRef": {"name": "x"}}],
                    "ports": [{"hostIP": "1.2.3.4", "containerPort": 1}],
                }
            ],
            "schedulingGroup": {"podGroupName": "x"},
            "hostnameOverride": "x",
            "setHostnameAsFQDN": True,
            "hostUsers": True,
            "hostPID": True,
            "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
            "volumes": [{"name": "v", "scaleIO": {}, "downwardAPI": {"items": [{"path": "x"}]}}],
        },
        "status": {"podIPs": [{"ip": "1.2.3.4"}], "nodeAllocatableResourceClaimStatuses": []},
    }
    shape = compare(json.loads(json.dumps(everything)), Pod)
    assert (shape.wrong_types, shape.unknown) == ([], [])


@pytest.mark.parametrize(
    ("name", "near"),
    [("pod-manifest-pth", "pod-manifest-path"), ("Max-Pods", "max-pods"), ("qqqqqq", None)],
)
def test_nearest_name(name: str, near: str | None) -> None:
    assert nearest(name, ["pod-manifest-path", "max-pods"]) == near
