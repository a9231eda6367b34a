from dataclasses import replace
from typing import Any

import pytest

from minikubelet.cri import messages as m
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.sandbox import pod_sandbox_config
from tests.builders import a_container, a_pod

NODE = NodeContext(node_name="n", pod_logs_dir="/logs")
DNS = m.DNSConfig(servers=["1.1.1.1"])


def config(*containers: dict[str, Any], **pod: Any) -> m.PodSandboxConfig:
    return pod_sandbox_config(a_pod(*containers, **pod), 3, NODE, DNS)


def test_identity() -> None:
    made = config(metadata={"labels": {"app": "web"}, "annotations": {"a": "b"}})
    assert made.metadata == m.PodSandboxMetadata(
        name="pod", namespace="default", uid="uid-1", attempt=3
    )
    assert made.hostname == "pod"
    assert made.log_directory == "/logs/default_pod_uid-1"
    assert made.dns_config == DNS
    assert dict(made.labels) == {
        "app": "web",
        "io.kubernetes.pod.name": "pod",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "uid-1",
    }
    assert dict(made.annotations) == {"a": "b"}
    assert made.linux.cgroup_parent == "/kubepods/besteffort/poduid-1"


def test_host_network_has_no_hostname_of_its_own() -> None:
    assert config(hostNetwork=True, hostname="h").hostname == ""


def test_sysctls_are_dotted() -> None:
    sysctls = [
        {"name": "net.ipv4.ip_forward", "value": "1"},
        {"name": "net/ipv4/conf/eth0.1/forwarding", "value": "0"},
    ]
    assert dict(config(securityContext={"sysctls": sysctls}).linux.sysctls) == {
        "net.ipv4.ip_forward": "1",
        "net.ipv4.conf.eth0/1.forwarding": "0",
    }


def test_ports_of_regular_containers_only() -> None:
    web = a_container(
        "web",
        ports=[
            {"containerPort": 80, "hostPort": 8080, "hostIP": "127.0.0.1", "protocol": "TCP"},
            {"containerPort": 53, "protocol": "UDP"},
            {"containerPort": 53, "protocol": "UDP"},
            {"containerPort": 9, "name": "x"},
            {"containerPort": 10, "name": "x"},
        ],
    )
    init = (a_container("i", ports=[{"containerPort": 1, "hostPort": 1}]),)
    assert list(config(web, init=init).port_mappings) == [
        m.PortMapping(protocol=m.TCP, container_port=80, host_port=8080, host_ip="127.0.0.1"),
        m.PortMapping(protocol=m.UDP, container_port=53),
        m.PortMapping(protocol=m.TCP, container_port=9),
    ]


def test_B20_a_container_port_alone_is_not_published() -> None:
    made = config(a_container(ports=[{"containerPort": 8080}]))
    assert [(port.container_port, port.host_port) for port in made.port_mappings] == [(8080, 0)]


def test_B53_a_long_static_name_gives_a_valid_hostname() -> None:
    made = pod_sandbox_config(a_pod(name="a" * 62 + "-node-1"), 0, NODE, DNS)
    assert made.hostname == "a" * 62


@pytest.mark.parametrize("driver", ["cgroupfs", "systemd"])
def test_cgroup_parent_follows_the_driver(driver: str) -> None:
    made = pod_sandbox_config(a_pod(), 0, replace(NODE, cgroup_driver=driver), DNS)
    assert made.linux.cgroup_parent.endswith(".slice") is (driver == "systemd")
