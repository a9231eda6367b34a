from typing import Any

import pytest

from minikubelet.criconfig.context import ConfigProblem, ContainerInputs, ImageInfo, NodeContext
from minikubelet.criconfig.env import container_env
from tests.builders import a_container, a_pod, decoded_container

NODE = NodeContext(
    node_name="n1",
    node_ips=("10.9.0.1", "fd00::1"),
    allocatable={"cpu": "2", "memory": "4Gi", "ephemeral-storage": "10Gi"},
)


def env_of(
    env: list[dict[str, Any]],
    *,
    pod: dict[str, Any] | None = None,
    inputs: dict[str, Any] | None = None,
    **container: Any,
) -> dict[str, str]:
    a = a_pod(a_container(env=env, **container), **(pod or {}))
    given = ContainerInputs(image=ImageInfo("sha256:1"), **(inputs or {}))
    return container_env(a, a.spec.containers[0], NODE, given)


def var(name: str, value: str = "", **source: Any) -> dict[str, Any]:
    return {"name": name, "value": value} if not source else {"name": name, "valueFrom": source}


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ([var("A", "1"), var("B", "$(A).x")], [("A", "1"), ("B", "1.x")]),
        ([var("B", "$(A).x"), var("A", "1")], [("B", "$(A).x"), ("A", "1")]),
        ([var("Z", "1"), var("A", "2"), var("Z", "$(Z)3")], [("A", "2"), ("Z", "13")]),
        ([var("A", "1"), var("B", "$$(A)")], [("A", "1"), ("B", "$(A)")]),
        ([var("A", "")], [("A", "")]),
    ],
    ids=["defined before", "defined later", "duplicate name", "escaped", "empty"],
)
def test_B41_env_keeps_the_list_order(
    env: list[dict[str, Any]], expected: list[tuple[str, str]]
) -> None:
    assert list(env_of(env).items()) == expected


def field(path: str) -> dict[str, Any]:
    return {"fieldRef": {"fieldPath": path}}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("metadata.name", "pod"),
        ("metadata.namespace", "default"),
        ("metadata.uid", "uid-1"),
        ("metadata.labels['app']", "web"),
        ("metadata.annotations['a/b']", "c"),
        ("metadata.labels['none']", ""),
        ("spec.nodeName", "n1"),
        ("spec.serviceAccountName", "sa"),
        ("status.hostIP", "10.9.0.1"),
        ("status.hostIPs", "10.9.0.1,fd00::1"),
        ("status.podIP", "10.1.0.2"),
        ("status.podIPs", "10.1.0.2,fd01::2"),
    ],
)
def test_field_refs(path: str, expected: str) -> None:
    pod = {
        "metadata": {"labels": {"app": "web"}, "annotations": {"a/b": "c"}},
        "nodeName": "n1",
        "serviceAccountName": "sa",
    }
    env = env_of([var("X", **field(path))], pod=pod, inputs={"pod_ips": ("10.1.0.2", "fd01::2")})
    assert env == {"X": expected}


def test_B44_host_network_pod_sees_the_nodes_address_at_first_start() -> None:
    env = env_of([var("IP", **field("status.podIP"))], pod={"hostNetwork": True})
    assert env == {"IP": "10.9.0.1"}


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ({"resource": "limits.cpu"}, "1"),
        ({"resource": "limits.cpu", "divisor": "1m"}, "500"),
        ({"resource": "requests.cpu", "divisor": "1m"}, "250"),
        ({"resource": "limits.memory"}, "67108864"),
        ({"resource": "limits.memory", "divisor": "1Mi"}, "64"),
        ({"resource": "limits.memory", "divisor": "1Gi"}, "1"),
        ({"resource": "requests.memory"}, "0"),
        ({"resource": "limits.ephemeral-storage", "divisor": "0"}, str(10 * 2**30)),
        ({"resource": "limits.cpu", "containerName": "c", "divisor": "1m"}, "500"),
        ({"resource": "requests.hugepages-2Mi"}, "0"),
    ],
)
def test_resource_refs(reference: dict[str, Any], expected: str) -> None:
    resources = {"limits": {"cpu": "500m", "memory": "64Mi"}, "requests": {"cpu": "250m"}}
    env = env_of([var("X", resourceFieldRef=reference)], resources=resources)
    assert env == {"X": expected}


def test_a_missing_limit_is_the_pods_then_the_nodes() -> None:
    memory = [var("X", resourceFieldRef={"resource": "limits.memory"})]
    assert env_of(memory) == {"X": str(4 * 2**30)}
    pod = {"resources": {"limits": {"memory": "1Gi"}}}
    assert env_of(memory, pod=pod) == {"X": str(2**30)}


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (
            var("X", configMapKeyRef={"name": "cm", "key": "k"}),
            r'cannot read ConfigMap "cm" \(env X\)',
        ),
        (var("X", secretKeyRef={"name": "s", "key": "k"}), r'cannot read Secret "s" \(env X\)'),
        (var("X", fileKeyRef={"volumeName": "v", "path": "p", "key": "k"}), "cannot read file p"),
        (var("X", **field("spec.containers")), "unsupported fieldPath: spec.containers"),
        (var("X", resourceFieldRef={"resource": "limits.gpu"}), "unsupported container resource"),
        (
            var("X", resourceFieldRef={"resource": "limits.cpu", "containerName": "z"}),
            "container z not found",
        ),
    ],
)
def test_what_cannot_be_resolved_is_refused_by_name(env: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigProblem, match=message):
        env_of([env])


def test_env_from_is_refused_by_name() -> None:
    with pytest.raises(ConfigProblem, match=r'ConfigMap "cm" \(envFrom of container c\)'):
        env_of([], envFrom=[{"configMapRef": {"name": "cm"}}])


def test_service_variables_are_seen_but_lose() -> None:
    services = {"S_HOST": "10.0.0.1", "A": "service"}
    env = env_of([var("A", "own"), var("B", "$(S_HOST)")], inputs={"service_env": services})
    assert env == {"A": "own", "B": "10.0.0.1", "S_HOST": "10.0.0.1"}


OBJECTS = ContainerInputs(
    image=ImageInfo("ref"),
    config_maps={"cm": {"a": "1", "b": "2"}, "gone": None},
    secrets={"sec": {"p": "pw"}, "gone": None},
    service_env={"KUBERNETES_PORT": "tcp://10.96.0.1:443"},
)


def env_with_objects(**container: Any) -> dict[str, str]:
    spec = decoded_container(**container)
    return container_env(a_pod(), spec, NodeContext("n1"), OBJECTS)


def key_ref(kind: str, name: str, key: str, **fields: Any) -> dict[str, Any]:
    return {"valueFrom": {f"{kind}KeyRef": {"name": name, "key": key, **fields}}}


def test_keys_and_whole_objects_become_variables() -> None:
    env = env_with_objects(
        envFrom=[
            {"configMapRef": {"name": "cm"}},
            {"secretRef": {"name": "sec"}, "prefix": "S_"},
            {"configMapRef": {"name": "gone", "optional": True}},
        ],
        env=[
            {"name": "X", **key_ref("configMap", "cm", "a")},
            {"name": "Y", **key_ref("secret", "sec", "p")},
            {"name": "b", "value": "own-$(a)-$(X)-$(KUBERNETES_PORT)"},
        ],
    )
    assert env == {
        "a": "1",
        "b": "own-1-1-tcp://10.96.0.1:443",
        "S_p": "pw",
        "X": "1",
        "Y": "pw",
        "KUBERNETES_PORT": "tcp://10.96.0.1:443",
    }


def test_something_optional_that_is_missing_leaves_no_variable() -> None:
    env = env_with_objects(
        env=[
            {"name": "A", **key_ref("configMap", "gone", "a", optional=True)},
            {"name": "B", **key_ref("secret", "sec", "other", optional=True)},
        ]
    )
    assert env.keys() == {"KUBERNETES_PORT"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"envFrom": [{"configMapRef": {"name": "gone"}}]}, 'configmap "gone" not found'),
        ({"envFrom": [{"secretRef": {"name": "gone"}}]}, 'secret "gone" not found'),
        ({"env": [{"name": "A", **key_ref("secret", "gone", "k")}]}, 'secret "gone" not found'),
        (
            {"env": [{"name": "A", **key_ref("configMap", "cm", "x")}]},
            "couldn't find key x in ConfigMap default/cm",
        ),
        (
            {"env": [{"name": "A", **key_ref("secret", "sec", "x")}]},
            "couldn't find key x in Secret default/sec",
        ),
    ],
)
def test_what_is_missing_is_told_in_the_kubelet_s_words(fields: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigProblem, match=f"^{text}$"):
        env_with_objects(**fields)
