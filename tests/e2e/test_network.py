"""The network of pods on the real runtime: addresses, host ports, names, resolvers, the end."""

import socket
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.e2e.agent import FOREVER, Agent, a_shell

pytestmark = pytest.mark.anyio

CLUSTER_DNS = "198.51.100.10"
RESOLV_CONF = "nameserver 192.0.2.53\nsearch example.org\noptions timeout:3\n"
NETWORK_GONE_SECONDS = 2.0


def prepare(agent: Agent) -> None:
    """Give the node a resolver of its own and a cluster's."""
    conf = agent.folder / "resolv.conf"
    conf.write_text(RESOLV_CONF)
    agent.flags += [f"--resolv-conf={conf}", f"--cluster-dns={CLUSTER_DNS}"]
    agent.flags += ["--cluster-domain=cluster.local"]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        port: int = probe.getsockname()[1]
        return port


async def answers(host: str, port: int) -> bool:
    """Tell whether someone listens there; a connection is one exchange of bytes."""

    def ask() -> bool:
        try:
            with socket.create_connection((host, port), timeout=2) as connection:
                connection.sendall(b"ping\n")
                return connection.recv(10) == b"ping\n"
        except OSError:
            return False

    return await anyio.to_thread.run_sync(ask)


def an_echo(port: int, **mapping: Any) -> dict[str, Any]:
    """Return a container that answers what it is told on a port."""
    script = f"trap 'exit 0' TERM; nc -ll -p {port} -e cat & wait"
    return a_shell("main", script, ports=[{"containerPort": port, **mapping}])


async def ip_of(node: Agent, pod: str) -> str:
    return str((await node.status(pod))["podIP"])


async def test_B20_a_container_port_is_on_the_pod_s_address_alone(node: Agent) -> None:
    port = free_port()
    await node.run("inform", an_echo(port))
    ip = await ip_of(node, "inform")
    await node.wait_until("the pod answers", lambda: answers(ip, port))
    assert not await answers("127.0.0.1", port)
    assert not await answers((await node.status("inform"))["hostIP"], port)


async def test_host_ports_are_there_with_the_pod_and_gone_after_it(node: Agent) -> None:
    anywhere, local = free_port(), free_port()
    await node.run("anywhere", an_echo(7000, hostPort=anywhere))
    await node.run("local", an_echo(7000, hostPort=local, hostIP="127.0.0.1"))
    host = (await node.status("anywhere"))["hostIP"]
    for address, port in ((host, anywhere), ("127.0.0.1", anywhere), ("127.0.0.1", local)):
        await node.wait_until(f"{address}:{port} answers", lambda a=address, p=port: answers(a, p))
    assert not await answers(host, local)
    for name in ("anywhere", "local"):
        node.remove(f"{name}.yaml")
        await node.wait_gone(name)
    assert not await answers(host, anywhere)
    assert not await answers("127.0.0.1", local)


def leases(node: Agent, ip: str) -> list[Path]:
    return list((node.containerd.folder / "leases").glob(f"*/{ip}"))


async def test_the_network_goes_with_the_last_container(node: Agent) -> None:
    """Also while the finished pod is still wanted: its address is free again."""
    waits = "while ! test -e /end; do sleep 0.05; done"
    containers = [a_shell("first", "true"), a_shell("last", waits)]
    async with anyio.create_task_group() as group:
        group.start_soon(partial(node.outputs, "finishing", *containers))
        await node.wait_until("the last one runs", lambda: runs(node, "finishing", "last"))
        ip = await ip_of(node, "finishing")
        assert leases(node, ip)
        await node.exec("finishing", "last", "touch /end")
        await node.wait_until("it has ended", lambda: stopped(node, "finishing", "last"))
        free = NETWORK_GONE_SECONDS
        await node.wait_until("its address is free", lambda: not leases(node, ip), free)
    assert await node.sandboxes("finishing")


async def runs(node: Agent, pod: str, name: str) -> bool:
    return name in await node.running(pod)


async def stopped(node: Agent, pod: str, name: str) -> bool:
    return name not in await node.running(pod)


async def test_B51_the_hosts_file_is_written_once_a_sandbox(node: Agent) -> None:
    aliases = [{"ip": "192.0.2.7", "hostnames": ["seven", "seven.example.org"]}]
    waits = f"cat /etc/hosts; if test -e /data/again; then {FOREVER}; fi; touch /data/again"
    mounts = [{"name": "data", "mountPath": "/data"}]
    await node.run(
        "hosts",
        a_shell("main", waits, volumeMounts=mounts),
        initContainers=[a_shell("init", "echo 192.0.2.8 eight >> /etc/hosts")],
        hostAliases=aliases,
        volumes=[{"name": "data", "emptyDir": {}}],
    )
    ip = await ip_of(node, "hosts")
    head, aliased = "# Kubernetes-managed hosts file.", "192.0.2.7\tseven\tseven.example.org"

    async def twice() -> bool:
        return (await node.output("hosts", "main")).count("192.0.2.8 eight\n") == 2

    await node.wait_until("main has started twice", twice)
    for text in (await node.output("hosts", "main")).split(head)[1:]:
        lines = text.splitlines()
        assert f"{ip}\thosts-shared" in lines
        assert aliased in lines
        assert lines[-1] == "192.0.2.8 eight"


async def test_the_hosts_file_of_a_host_network_pod_is_the_node_s(node: Agent) -> None:
    said = await node.outputs("nodehosts", a_shell("main", "cat /etc/hosts"), hostNetwork=True)
    head = "# Kubernetes-managed hosts file (host network).\n"
    assert said["main"] == head + Path("/etc/hosts").read_text()


CLUSTER = (
    "search default.svc.cluster.local svc.cluster.local cluster.local example.org\n"
    f"nameserver {CLUSTER_DNS}\n"
)
RESOLVERS: dict[str, tuple[dict[str, Any], str]] = {
    "clusterfirst": (
        {},
        f"{CLUSTER}options ndots:5\n",
    ),
    "default": ({"dnsPolicy": "Default"}, RESOLV_CONF),
    "hostnet": ({"hostNetwork": True}, RESOLV_CONF),
    "clusterfirsthost": (
        {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"},
        f"{CLUSTER}options ndots:5\n",
    ),
    "none": (
        {
            "dnsPolicy": "None",
            "dnsConfig": {"nameservers": ["192.0.2.1"], "searches": ["a.example"]},
        },
        "search a.example\nnameserver 192.0.2.1\n",
    ),
    "merged": (
        {
            "dnsConfig": {
                "nameservers": ["192.0.2.1"],
                "options": [{"name": "ndots", "value": "2"}, {"name": "edns0"}],
            }
        },
        f"{CLUSTER}nameserver 192.0.2.1\noptions ndots:2 edns0\n",
    ),
}


async def test_resolv_conf_by_dns_policy_and_dns_config(node: Agent) -> None:
    said: dict[str, list[str]] = {}

    async def run(name: str, spec: Mapping[str, Any]) -> None:
        output = await node.outputs(f"dns-{name}", a_shell("main", "cat /etc/resolv.conf"), **spec)
        said[name] = sorted(output["main"].splitlines())

    async with anyio.create_task_group() as group:
        for name, (spec, _) in RESOLVERS.items():
            group.start_soon(run, name, spec)
    assert said == {name: sorted(text.splitlines()) for name, (_, text) in RESOLVERS.items()}


async def test_B53_long_names_are_cut_to_a_valid_hostname(node: Agent) -> None:
    name = f"{'a' * 62}-{'b' * 20}"  # the cut falls on the dash
    said = await node.outputs(name, a_shell("main", "hostname"))
    assert said["main"] == f"{'a' * 62}\n"


async def test_hostname_and_subdomain(node: Agent) -> None:
    spec = {"hostname": "web", "subdomain": "sub"}
    show = a_shell("main", "hostname; tail -n 1 /etc/hosts")
    short = (await node.outputs("subdomain", show, **spec))["main"].split()
    full = (await node.outputs("fqdn", show, **spec, setHostnameAsFQDN=True))["main"].split()
    name = "web.sub.default.svc.cluster.local"
    assert [short[0], *short[2:]] == ["web", name, "web"]
    assert [full[0], *full[2:]] == [name, name, "web"]
