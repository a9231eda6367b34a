"""--node-labels, --node-ip, --bootstrap-kubeconfig: what is taken, warned of, refused."""

from pathlib import Path

import pytest

from minikubelet.config.config import Config
from minikubelet.config.load import ConfigError, load
from minikubelet.config.node_flags import check_node_labels, node_ip_problem, read_node_ips
from tests.unit.config.test_load import faults, file_of


def loaded(*arguments: str) -> Config:
    return load([*arguments, "--hostname-override=n1"])


@pytest.mark.parametrize(
    "key",
    [
        "pool",
        "example.com/pool",
        "kubernetes.io/hostname",
        "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
        "node.kubernetes.io/instance-type",
        "beta.kubernetes.io/arch",
        "node.kubernetes.io/anything",
        "kubelet.kubernetes.io/anything",
        "deep.node.kubernetes.io/anything",
        "notkubernetes.io/x",
        "k8s.io.example.com/x",
    ],
)
def test_labels_that_a_node_may_set(key: str) -> None:
    assert list(check_node_labels({key: "v"})) == []


@pytest.mark.parametrize(
    "key",
    [
        "kubernetes.io/role",
        "node-role.kubernetes.io/worker",
        "node-restriction.kubernetes.io/x",
        "k8s.io/x",
        "sub.k8s.io/x",
        "topology.kubernetes.io/rack",
        "notnode.kubernetes.io/x",
    ],
)
def test_labels_of_kubernetes_that_it_may_not(key: str) -> None:
    (fault,) = faults(f"--node-labels=a=b,{key}=v")
    assert (
        f"unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: [{key}]" in fault
    )
    assert "allowed prefix (kubelet.kubernetes.io, node.kubernetes.io)" in fault


@pytest.mark.parametrize(
    ("flag", "words"),
    [
        ("--node-labels=a b=c", "invalid key 'a b'"),
        ("--node-labels=a=b c", "invalid value 'b c' of a"),
        (f"--node-labels=a={'x' * 64}", "must be no more than 63"),
        ("--node-labels==x", "invalid key ''"),
    ],
)
def test_labels_that_nobody_may_set(flag: str, words: str) -> None:
    assert any(words in fault for fault in faults(flag))


@pytest.mark.parametrize("flag", ["--node-labels=", "--node-labels=,", "--node-labels=a=,"])
def test_empty_labels_are_taken(flag: str) -> None:
    assert set(loaded(flag).node_labels.values()) <= {""}


@pytest.mark.parametrize(
    ("text", "ips"),
    [
        ("", ()),
        ("10.0.0.1", ("10.0.0.1",)),
        (" 10.0.0.1 , fd00::1 ", ("10.0.0.1", "fd00::1")),
        ("fd00:0:0::1,10.0.0.1", ("fd00::1", "10.0.0.1")),
        ("0.0.0.0", ("0.0.0.0",)),
        ("::", ("::",)),
    ],
)
def test_addresses_that_are_taken(text: str, ips: tuple[str, ...]) -> None:
    assert read_node_ips(text) == (ips, [], [])
    assert loaded(f"--node-ip={text}").node_ips == ips


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("10.0.0.1,10.0.0.2", "must contain either a single IP or a dual-stack pair of IPs"),
        ("10.0.0.1,fd00::1,fd00::2", "must contain either a single IP or a dual-stack pair"),
        ("0.0.0.0,fd00::1", "dual-stack node IP cannot include '0.0.0.0' or '::'"),
        ("10.0.0.1,::", "dual-stack node IP cannot include '0.0.0.0' or '::'"),
    ],
)
def test_pairs_that_are_none(text: str, words: str) -> None:
    (fault,) = faults(f"--node-ip={text}")
    assert words in fault
    assert f"bad --node-ip {text!r}" in fault


def test_parts_that_are_no_address_are_left_out_with_a_warning() -> None:
    config = loaded("--node-ip=10.0.0.1,nonsense")
    assert config.node_ips == ("10.0.0.1",)
    assert config.warnings == ("--node-ip: 'nonsense' is no IP address, it is left out",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("127.0.0.1", "can't be loopback address"),
        ("::1", "can't be loopback address"),
        ("224.0.0.1", "can't be a multicast address"),
        ("169.254.0.5", "can't be a link-local unicast address"),
        ("fe80::1", "can't be a link-local unicast address"),
    ],
)
def test_addresses_that_no_node_can_have(text: str, words: str) -> None:
    assert words in node_ip_problem(text)


@pytest.mark.parametrize("text", ["10.0.0.1", "198.18.0.1", "fd00::1", "8.8.8.8"])
def test_addresses_that_a_node_can_have(text: str) -> None:
    assert node_ip_problem(text) == ""


def test_a_bootstrap_kubeconfig_alone_leads_nowhere() -> None:
    (warning,) = loaded("--bootstrap-kubeconfig=/b").warnings
    assert "--bootstrap-kubeconfig has no effect here" in warning
    assert loaded("--bootstrap-kubeconfig=/b", "--kubeconfig=/k").warnings == ()


def test_what_works_with_an_apiserver_is_no_warning(tmp_path: Path) -> None:
    argument = file_of(
        tmp_path / "c",
        rotateCertificates=True,
        serverTLSBootstrap=True,
        eventRecordQPS=7,
        eventBurst=8,
        nodeStatusUpdateFrequency="5s",
        nodeStatusReportFrequency="1m",
        nodeLeaseDurationSeconds=20,
        nodeStatusMaxImages=5,
        kubeAPIQPS=1,
        kubeAPIBurst=2,
        enableControllerAttachDetach=False,
        providerID="x://y",
        registerWithTaints=[{"key": "a", "effect": "NoSchedule"}],
    )
    config = loaded(
        argument,
        "--kubeconfig=/k",
        "--node-labels=a=b",
        "--cert-dir=/pki",
        "--cloud-provider=external",
    )
    assert config.warnings == ()
    assert (config.rotate_certificates, config.server_tls_bootstrap) == (True, True)
    assert (config.node_lease_duration_seconds, config.kube_api_qps) == (20, 1)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"contentType": "application/json"}, "the apiserver is spoken to in JSON"),
        (
            {"configMapAndSecretChangeDetectionStrategy": "Cache"},
            "ConfigMaps and Secrets in use are watched",
        ),
        ({"evictionHard": {"memory.available": "1Gi"}}, "it counts for what pods can have"),
    ],
)
def test_what_still_has_no_effect_says_why(
    tmp_path: Path, fields: dict[str, object], reason: str
) -> None:
    (warning,) = loaded(file_of(tmp_path / "c", **fields)).warnings
    assert reason in warning


def test_a_serving_certificate_by_request_needs_an_apiserver(tmp_path: Path) -> None:
    argument = file_of(
        tmp_path / "c",
        serverTLSBootstrap=True,
        authentication={"webhook": {"enabled": False}, "x509": {"clientCAFile": "/ca"}},
        authorization={"mode": "AlwaysAllow"},
    )
    with pytest.raises(ConfigError, match=r"serverTLSBootstrap .*: needs an apiserver"):
        loaded(argument)
    assert loaded(argument, "--kubeconfig=/k").server_tls_bootstrap
