from dataclasses import replace
from typing import Any

import pytest

from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.dns import ResolvConf, parse_resolv_conf, pod_dns
from tests.builders import a_pod

NODE = NodeContext(
    node_name="n", node_ips=("10.9.0.1",), cluster_dns=("10.96.0.10",), cluster_domain="k.local"
)
HOST = ResolvConf(("8.8.8.8",), ("example.com",), ("timeout:1",))
CLUSTER = ["default.svc.k.local", "svc.k.local", "k.local", "example.com"]


def test_parses_resolv_conf() -> None:
    text = """
    # comment nameserver 9.9.9.9
    ; another
    nameserver 1.1.1.1
    nameserver
    search old.example
    nameserver ::1 trailing
    search a.example. . b.example
    options ndots:2 rotate
    options ndots:3
    """
    assert parse_resolv_conf(text) == ResolvConf(
        ("1.1.1.1", "::1"), ("a.example", "b.example"), ("ndots:3", "rotate")
    )


@pytest.mark.parametrize(
    ("spec", "servers", "searches", "options"),
    [
        ({}, ["10.96.0.10"], CLUSTER, ["ndots:5"]),
        ({"dnsPolicy": "Nonsense"}, ["10.96.0.10"], CLUSTER, ["ndots:5"]),
        ({"hostNetwork": True}, ["8.8.8.8"], ["example.com"], ["timeout:1"]),
        (
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
            ["10.96.0.10"],
            CLUSTER,
            ["ndots:5"],
        ),
        ({"dnsPolicy": "Default"}, ["8.8.8.8"], ["example.com"], ["timeout:1"]),
        ({"dnsPolicy": "None"}, [], [], []),
        (
            {
                "dnsPolicy": "Default",
                "dnsConfig": {
                    "nameservers": ["8.8.8.8", "9.9.9.9"],
                    "searches": ["example.com", "x"],
                    "options": [{"name": "timeout", "value": "3"}, {"name": "edns0"}],
                },
            },
            ["8.8.8.8", "9.9.9.9"],
            ["example.com", "x"],
            ["timeout:3", "edns0"],
        ),
    ],
)
def test_each_policy(
    spec: dict[str, Any], servers: list[str], searches: list[str], options: list[str]
) -> None:
    config, warnings = pod_dns(a_pod(**spec), NODE, HOST)
    assert warnings == ()
    assert list(config.servers) == servers
    assert list(config.searches) == searches
    assert list(config.options) == options


def test_without_cluster_dns_the_host_is_used_and_said() -> None:
    config, (warning,) = pod_dns(a_pod(), replace(NODE, cluster_dns=()), HOST)
    assert list(config.servers) == ["8.8.8.8"]
    assert warning.reason == "MissingClusterDNS"
    assert warning.message == f'pod: "pod_default(uid-1)". {warning.node_message}'
    assert warning.node_message == (
        "kubelet does not have ClusterDNS IP configured and cannot create Pod using"
        ' "ClusterFirst" policy. Falling back to "Default" policy.'
    )


def test_without_cluster_domain_only_the_hosts_searches_remain() -> None:
    config, _ = pod_dns(a_pod(), replace(NODE, cluster_domain=""), HOST)
    assert list(config.searches) == ["example.com"]


def test_an_empty_resolver_config_switches_look_ups_off() -> None:
    node = replace(NODE, node_ips=("10.9.0.1", "fd00::1"))
    config, _ = pod_dns(a_pod(dnsPolicy="Default"), node, None)
    assert (list(config.servers), list(config.searches)) == (["127.0.0.1", "::1"], ["."])


@pytest.mark.parametrize("server", ["127.0.0.53", "127.0.0.1", "::1"])
def test_B52_loopback_servers_are_warned_about(server: str) -> None:
    host = ResolvConf((server,))
    config, (warning,) = pod_dns(a_pod(dnsPolicy="Default"), NODE, host)
    assert list(config.servers) == [server]
    assert warning.reason == "DNSConfigForming"
    assert server in warning.message
    assert pod_dns(a_pod(dnsPolicy="Default", hostNetwork=True), NODE, host)[1] == ()
    assert pod_dns(a_pod(), NODE, host)[1] == ()


@pytest.mark.parametrize(
    ("servers", "is_stub"),
    [
        (("127.0.0.53",), True),
        (("8.8.8.8",), False),
        (("127.0.0.53", "8.8.8.8"), False),
        ((), False),
    ],
)
def test_B52_the_resolved_stub_is_told_apart(servers: tuple[str, ...], is_stub: bool) -> None:
    assert ResolvConf(servers).is_resolved_stub is is_stub


def test_too_many_servers_are_cut_and_said() -> None:
    extra = {"nameservers": ["1.1.1.1", "2.2.2.2", "3.3.3.3"]}
    config, (warning,) = pod_dns(a_pod(dnsConfig=extra), NODE, HOST)
    assert list(config.servers) == ["10.96.0.10", "1.1.1.1", "2.2.2.2"]
    assert warning.message == (
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied"
        " nameserver line is: 10.96.0.10 1.1.1.1 2.2.2.2"
    )


@pytest.mark.parametrize(
    ("searches", "kept"),
    [
        ([f"d{n}" for n in range(40)], 32),
        (["a" * 254, "b"], 1),
        (["a" * 250 + str(n) for n in range(9)], 8),
        (["a" * 226 + str(n) for n in range(9)], 8),
        (["a" * 225 + str(n) for n in range(9)], 9),
    ],
    ids=["count", "one too long", "joined", "just over", "fits"],
)
def test_searches_are_cut_to_what_resolvers_stand(searches: list[str], kept: int) -> None:
    pod = a_pod(dnsPolicy="None", dnsConfig={"searches": searches})
    config, warnings = pod_dns(pod, NODE, HOST)
    assert len(config.searches) == kept
    if kept == len(searches):
        assert warnings == ()
    else:
        assert warnings[0].message == (
            "Search Line limits were exceeded, some search paths have been omitted, the applied"
            f" search line is: {' '.join(config.searches)}"
        )
