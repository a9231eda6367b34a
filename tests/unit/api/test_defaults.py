import copy
from typing import Any

import pytest

from minikubelet.api.defaults import with_defaults
from minikubelet.api.image_name import tag_of


def container(**fields: Any) -> dict[str, Any]:
    document = with_defaults({"spec": {"containers": [{"name": "c", "image": "b", **fields}]}})
    result: dict[str, Any] = document["spec"]["containers"][0]
    return result


def spec(**fields: Any) -> dict[str, Any]:
    result: dict[str, Any] = with_defaults({"spec": {"containers": [], **fields}})["spec"]
    return result


def test_the_pod_gets_the_defaults_of_an_apiserver() -> None:
    assert with_defaults({"metadata": {"name": "a"}, "spec": {"containers": []}}) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {
            "containers": [],
            "restartPolicy": "Always",
            "dnsPolicy": "ClusterFirst",
            "schedulerName": "default-scheduler",
            "terminationGracePeriodSeconds": 30,
            "securityContext": {},
            "enableServiceLinks": True,
        },
    }


def test_the_container_gets_the_defaults_of_an_apiserver() -> None:
    assert container() == {
        "name": "c",
        "image": "b",
        "imagePullPolicy": "Always",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    }


def test_what_is_set_stays() -> None:
    chosen = spec(
        restartPolicy="Never",
        terminationGracePeriodSeconds=0,
        enableServiceLinks=False,
        dnsPolicy="None",
    )
    assert chosen["restartPolicy"] == "Never"
    assert chosen["terminationGracePeriodSeconds"] == 0
    assert chosen["enableServiceLinks"] is False
    assert chosen["dnsPolicy"] == "None"


def test_the_given_document_stays_as_it_was() -> None:
    document = {"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1}]}]}}
    before = copy.deepcopy(document)
    with_defaults(document)
    assert document == before


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("busybox", "latest"),
        ("busybox:1", "1"),
        ("busybox:latest", "latest"),
        ("reg:5000/a/b", "latest"),
        ("reg:5000/a/b:2", "2"),
        ("b@sha256:00", ""),
        ("b:latest@sha256:00", "latest"),
    ],
)
def test_the_tag_of_an_image_decides_the_pull_policy(image: str, tag: str) -> None:
    assert tag_of(image) == tag
    expected = "Always" if tag == "latest" else "IfNotPresent"
    assert container(image=image)["imagePullPolicy"] == expected


def test_requests_default_to_limits_where_missing() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "100m"}}
    assert container(resources=resources)["resources"]["requests"] == {
        "cpu": "100m",
        "memory": "1Gi",
    }


@pytest.mark.parametrize(("host_network", "host_port"), [(True, 80), (False, None)])
def test_ports_on_the_host_network_publish_themselves(
    host_network: bool, host_port: int | None
) -> None:
    containers = [{"name": "c", "ports": [{"containerPort": 80}]}]
    document = with_defaults({"spec": {"containers": containers, "hostNetwork": host_network}})
    port = document["spec"]["containers"][0]["ports"][0]
    assert port.get("hostPort") == host_port
    assert port["protocol"] == "TCP"


def test_probes_and_hooks_get_their_numbers_and_paths() -> None:
    result = container(
        livenessProbe={"httpGet": {"port": 80}, "periodSeconds": 3},
        readinessProbe={"grpc": {"port": 1}},
        lifecycle={"preStop": {"httpGet": {"port": 1}}},
    )
    assert result["livenessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 3,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert result["readinessProbe"]["grpc"] == {"port": 1, "service": ""}
    assert result["lifecycle"]["preStop"]["httpGet"]["path"] == "/"


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({}, {"emptyDir": {}}),
        ({"hostPath": {"path": "/x"}}, {"hostPath": {"path": "/x", "type": ""}}),
        ({"downwardAPI": {}}, {"downwardAPI": {"defaultMode": 420}}),
        ({"image": {"reference": "a"}}, {"image": {"reference": "a", "pullPolicy": "Always"}}),
    ],
)
def test_volumes_get_their_defaults(volume: dict[str, Any], expected: dict[str, Any]) -> None:
    assert spec(volumes=[{"name": "v", **volume}])["volumes"] == [{"name": "v", **expected}]


def test_references_get_a_version() -> None:
    env = [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    reference = container(env=env)["env"][0]["valueFrom"]["fieldRef"]
    assert reference == {"fieldPath": "metadata.name", "apiVersion": "v1"}


def test_pod_level_requests_come_from_containers_and_from_its_limits() -> None:
    containers = [{"name": n, "resources": {"requests": {"cpu": "250m"}}} for n in ("a", "b")]
    resources = spec(containers=containers, resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    assert resources["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}
