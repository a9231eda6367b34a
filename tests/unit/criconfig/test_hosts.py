from dataclasses import replace
from typing import Any

import pytest

from minikubelet.criconfig.context import ConfigProblem, NodeContext
from minikubelet.criconfig.hosts import (
    host_network_hosts_file,
    hosts_file,
    kernel_hostname,
    needs_hosts_file,
    pod_hostname,
)
from tests.builders import a_pod

NODE = NodeContext(node_name="n", cluster_domain="cluster.local")


@pytest.mark.parametrize(
    ("name", "spec", "expected"),
    [
        ("web", {}, ("web", "")),
        ("web", {"hostname": "h"}, ("h", "")),
        ("web", {"subdomain": "s"}, ("web", "s.default.svc.cluster.local")),
        ("web", {"hostnameOverride": "a.b", "subdomain": "s"}, ("a.b", "")),
        ("a" * 62 + "-node", {}, ("a" * 62, "")),
        ("a" * 60 + ".-.node", {}, ("a" * 60, "")),
        ("a" * 70, {}, ("a" * 63, "")),
    ],
)
def test_B53_hostname_is_cut_without_a_separator_at_its_end(
    name: str, spec: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert pod_hostname(a_pod(name=name, **spec), NODE) == expected


def test_fqdn_as_hostname() -> None:
    pod = a_pod(name="web", subdomain="s", setHostnameAsFQDN=True)
    assert kernel_hostname(pod, NODE) == "web.s.default.svc.cluster.local"
    assert kernel_hostname(a_pod(name="web", setHostnameAsFQDN=True), NODE) == "web"
    with pytest.raises(ConfigProblem, match="is too long"):
        kernel_hostname(pod, replace(NODE, cluster_domain="d" * 50))


LOCAL = """\
# Kubernetes-managed hosts file.
127.0.0.1\tlocalhost
::1\tlocalhost ip6-localhost ip6-loopback
fe00::0\tip6-localnet
fe00::0\tip6-mcastprefix
fe00::1\tip6-allnodes
fe00::2\tip6-allrouters
"""


def test_hosts_file_of_a_pod_network() -> None:
    pod = a_pod(
        name="web",
        subdomain="s",
        hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a", "b"]}, {"ip": "::2", "hostnames": ["c"]}],
    )
    assert hosts_file(pod, NODE, ("10.1.0.2", "fd01::2")) == (
        LOCAL
        + "10.1.0.2\tweb.s.default.svc.cluster.local\tweb\n"
        + "fd01::2\tweb.s.default.svc.cluster.local\tweb\n"
        + "\n# Entries added by HostAliases.\n1.2.3.4\ta\tb\n::2\tc\n"
    )
    assert hosts_file(a_pod(name="web"), NODE, ("10.1.0.2",)) == LOCAL + "10.1.0.2\tweb\n"


def test_hosts_file_of_a_host_network_pod_is_the_nodes() -> None:
    pod = a_pod(hostNetwork=True, hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a"]}])
    assert host_network_hosts_file(pod, "127.0.0.1 localhost\n") == (
        "# Kubernetes-managed hosts file (host network).\n127.0.0.1 localhost\n"
        "\n# Entries added by HostAliases.\n1.2.3.4\ta\n"
    )


def test_a_pod_network_without_address_has_no_hosts_file() -> None:
    assert not needs_hosts_file(a_pod(), ())
    assert needs_hosts_file(a_pod(), ("10.1.0.2",))
    assert needs_hosts_file(a_pod(hostNetwork=True), ())
