from typing import Any

from minikubelet.criconfig.service_env import service_env


def service(name: str, namespace: str, address: str, *ports: dict[str, Any]) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"clusterIP": address, "ports": list(ports)},
    }


MASTER = service("kubernetes", "default", "10.96.0.1", {"name": "https", "port": 443})
WEB = service(
    "my-web", "shop", "fd00::5", {"name": "http-x", "port": 80}, {"port": 53, "protocol": "UDP"}
)
HEADLESS = service("none", "shop", "None", {"port": 1})


def test_each_service_has_host_ports_and_links() -> None:
    env = service_env([MASTER, WEB, HEADLESS], "shop", links=True)
    assert {k: v for k, v in env.items() if k.startswith("MY_WEB")} == {
        "MY_WEB_SERVICE_HOST": "fd00::5",
        "MY_WEB_SERVICE_PORT": "80",
        "MY_WEB_SERVICE_PORT_HTTP_X": "80",
        "MY_WEB_PORT": "tcp://[fd00::5]:80",
        "MY_WEB_PORT_80_TCP": "tcp://[fd00::5]:80",
        "MY_WEB_PORT_80_TCP_PROTO": "tcp",
        "MY_WEB_PORT_80_TCP_PORT": "80",
        "MY_WEB_PORT_80_TCP_ADDR": "fd00::5",
        "MY_WEB_PORT_53_UDP": "udp://[fd00::5]:53",
        "MY_WEB_PORT_53_UDP_PROTO": "udp",
        "MY_WEB_PORT_53_UDP_PORT": "53",
        "MY_WEB_PORT_53_UDP_ADDR": "fd00::5",
    }
    assert env["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
    assert not any(name.startswith("NONE") for name in env)


def test_without_links_only_the_cluster_s_own_is_there() -> None:
    env = service_env([WEB, MASTER], "shop", links=False)
    assert {name.partition("_")[0] for name in env} == {"KUBERNETES"}


def test_a_service_of_the_same_name_in_the_pod_s_namespace_wins() -> None:
    own = service("kubernetes", "shop", "10.96.9.9", {"port": 1})
    for order in ([own, MASTER], [MASTER, own]):
        assert service_env(order, "shop", links=True)["KUBERNETES_SERVICE_HOST"] == "10.96.9.9"
        assert service_env(order, "shop", links=False)["KUBERNETES_SERVICE_HOST"] == "10.96.0.1"
