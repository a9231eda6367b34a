"""Kubeconfigs as kubeadm, kind, clouds and people write them; every problem with its field."""

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from minikubelet.kube.kubeconfig import (
    ExecPlugin,
    Kubeconfig,
    KubeconfigError,
    Material,
    User,
    in_cluster,
    parse,
    read,
)

CERTIFICATE = {"client-certificate": "pki/current.pem", "client-key": "pki/current.pem"}


def a_kubeconfig(
    *,
    cluster: dict[str, Any] | None = None,
    user: dict[str, Any] | None = None,
    current: str = "default-context",
    **top: Any,
) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": current,
        "contexts": [
            {"name": "default-context", "context": {"cluster": "c", "user": "u"}},
            {"name": "other", "context": {"cluster": "c"}},
        ],
        "clusters": [
            {"name": "c", "cluster": {"server": "https://192.0.2.1:6443", **(cluster or {})}}
        ],
        "users": [{"name": "u", "user": user or {}}],
        **top,
    }
    return yaml.safe_dump(document)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("given", "user"),
    [
        pytest.param({}, User(), id="nobody"),
        pytest.param(
            CERTIFICATE,
            User(Material("/etc/k/pki/current.pem"), Material("/etc/k/pki/current.pem")),
            id="files beside the kubeconfig",
        ),
        pytest.param(
            {"client-certificate": "/var/c.pem", "client-key": "/var/k.pem"},
            User(Material("/var/c.pem"), Material("/var/k.pem")),
            id="absolute files",
        ),
        pytest.param(
            {
                **CERTIFICATE,
                "client-certificate-data": encoded(b"C"),
                "client-key-data": encoded(b"K"),
            },
            User(Material(data=b"C"), Material(data=b"K")),
            id="data wins over files",
        ),
        pytest.param({"token": "t"}, User(token="t"), id="token"),
        pytest.param(
            {"token": "t", "tokenFile": "token"},
            User(token="t", token_file="/etc/k/token"),
            id="both: the file's wins when it is read",
        ),
        pytest.param(
            {
                "exec": {
                    "apiVersion": "client.authentication.k8s.io/v1",
                    "command": "./login",
                    "args": ["--node", "a"],
                    "env": [{"name": "A", "value": "1"}],
                    "installHint": "apt install it\n",
                    "provideClusterInfo": True,
                    "interactiveMode": "IfAvailable",
                }
            },
            User(
                exec_plugin=ExecPlugin(
                    "/etc/k/login",
                    "client.authentication.k8s.io/v1",
                    ("--node", "a"),
                    (("A", "1"),),
                    "apt install it",
                    provide_cluster_info=True,
                )
            ),
            id="exec beside the kubeconfig",
        ),
        pytest.param(
            {"exec": {"apiVersion": "client.authentication.k8s.io/v1beta1", "command": "aws"}},
            User(exec_plugin=ExecPlugin("aws", "client.authentication.k8s.io/v1beta1")),
            id="exec in PATH",
        ),
    ],
)
def test_users(given: dict[str, Any], user: User) -> None:
    assert parse(a_kubeconfig(user=given), "/etc/k/kubelet.conf").user == user


@pytest.mark.parametrize(
    ("given", "config"),
    [
        pytest.param({}, {}, id="the system's authorities"),
        pytest.param(
            {"server": "https://api.example:443/base/"},
            {"server": "https://api.example:443/base"},
            id="slash at the end",
        ),
        pytest.param(
            {"certificate-authority": "ca.crt"}, {"ca": Material("/etc/k/ca.crt")}, id="CA file"
        ),
        pytest.param(
            {"certificate-authority-data": encoded(b"CA"), "tls-server-name": "api"},
            {"ca": Material(data=b"CA"), "tls_server_name": "api"},
            id="CA data and another name",
        ),
        pytest.param(
            {"insecure-skip-tls-verify": True, "proxy-url": "http://proxy:3128"},
            {"insecure_skip_tls_verify": True, "proxy_url": "http://proxy:3128"},
            id="insecure through a proxy",
        ),
    ],
)
def test_clusters(given: dict[str, Any], config: dict[str, Any]) -> None:
    expected = {"origin": "/etc/k/kubelet.conf", "server": "https://192.0.2.1:6443", **config}
    assert Kubeconfig(**expected) == parse(a_kubeconfig(cluster=given), "/etc/k/kubelet.conf")


def test_another_context_than_the_current_one() -> None:
    text = a_kubeconfig(user={"token": "t"})
    assert parse(text, "k", context="other").user == User()


EXEC = {"apiVersion": "client.authentication.k8s.io/v1", "command": "login"}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        pytest.param("", "not one document", id="empty"),
        pytest.param("[]", "not one document", id="a list"),
        pytest.param("a: [", "cannot read kubeconfig k", id="no YAML"),
        pytest.param(a_kubeconfig(kind="Pod"), "kind: must be Config", id="another kind"),
        pytest.param(a_kubeconfig(current=""), "current-context: required", id="no context"),
        pytest.param(a_kubeconfig(current="x"), "contexts: there is none", id="lost context"),
        pytest.param(a_kubeconfig(clusters=[]), "clusters: there is none with the name 'c'"),
        pytest.param(a_kubeconfig(users={}), "users: there is none with the name 'u'"),
        pytest.param(a_kubeconfig(users=3), "users: must be a list", id="users no list"),
        pytest.param(
            a_kubeconfig(users=[{"name": "u", "user": {}}] * 2),
            "users: more than one has the name 'u'",
            id="doubled",
        ),
        pytest.param(
            a_kubeconfig(cluster={"server": None}), "clusters[c].cluster.server: required"
        ),
        pytest.param(
            a_kubeconfig(cluster={"server": "192.0.2.1:6443"}),
            "clusters[c].cluster.server: must be a URL",
            id="no scheme",
        ),
        pytest.param(
            a_kubeconfig(cluster={"insecure-skip-tls-verify": True, "certificate-authority": "a"}),
            "clusters[c].cluster.insecure-skip-tls-verify: not allowed together",
            id="insecure with a CA",
        ),
        pytest.param(
            a_kubeconfig(cluster={"insecure-skip-tls-verify": "yes"}),
            "insecure-skip-tls-verify: must be true or false",
            id="text for truth",
        ),
        pytest.param(
            a_kubeconfig(cluster={"certificate-authority-data": "!"}),
            "certificate-authority-data: must be base64",
            id="no base64",
        ),
        pytest.param(
            a_kubeconfig(user={"client-certificate": "c"}),
            "users[u].user.client-key: required",
            id="certificate alone",
        ),
        pytest.param(
            a_kubeconfig(user={"client-key": "c"}),
            "users[u].user.client-certificate: required",
            id="key alone",
        ),
        pytest.param(a_kubeconfig(user={"token": 1}), "users[u].user.token: must be a string"),
        pytest.param(
            a_kubeconfig(user={"auth-provider": {"name": "gcp"}}),
            "users[u].user.auth-provider: not supported",
            id="auth-provider",
        ),
        pytest.param(
            a_kubeconfig(user={"username": "a", "password": "b"}),
            "users[u].user.username: not supported",
            id="basic",
        ),
        pytest.param(
            a_kubeconfig(user={"exec": {**EXEC, "apiVersion": "v1"}}),
            "users[u].user.exec.apiVersion: must be client.authentication.k8s.io/v1",
            id="exec version",
        ),
        pytest.param(
            a_kubeconfig(user={"exec": {**EXEC, "command": ""}}), "exec.command: required"
        ),
        pytest.param(
            a_kubeconfig(user={"exec": {**EXEC, "interactiveMode": "Always"}}),
            "exec.interactiveMode: Always",
            id="exec with a terminal",
        ),
        pytest.param(
            a_kubeconfig(user={"exec": {**EXEC, "env": ["A=1"]}}),
            "users[u].user.exec.env[0]: must be an object",
            id="exec env",
        ),
    ],
)
def test_problems_name_file_and_field(text: str, problem: str) -> None:
    with pytest.raises(KubeconfigError) as raised:
        parse(text, "k")
    assert problem in str(raised.value)
    assert " k: " in str(raised.value)


def test_all_problems_come_at_once() -> None:
    text = a_kubeconfig(cluster={"server": "x"}, user={"as": "root", "client-key": "k"})
    with pytest.raises(KubeconfigError) as raised:
        parse(text, "k")
    assert len(str(raised.value).splitlines()) == 3


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match=r"kubelet\.conf: No such file"):
        read(tmp_path / "kubelet.conf")


def test_secrets_are_not_shown() -> None:
    user = {"token": "secret", "client-certificate-data": encoded(b"CERTIFICATE")}
    config = parse(a_kubeconfig(user={**user, "client-key-data": encoded(b"SECRET")}), "k")
    assert "secret" not in repr(config).lower()


@pytest.mark.parametrize(
    ("host", "server"),
    [
        ("10.96.0.1", "https://10.96.0.1:443"),
        ("fd00::1", "https://[fd00::1]:443"),
        ("api.example", "https://api.example:443"),
    ],
)
def test_in_cluster(tmp_path: Path, host: str, server: str) -> None:
    (tmp_path / "token").touch()
    (tmp_path / "ca.crt").touch()
    environ = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": "443"}
    assert in_cluster(environ, tmp_path) == Kubeconfig(
        origin=str(tmp_path),
        server=server,
        ca=Material(str(tmp_path / "ca.crt")),
        user=User(token_file=str(tmp_path / "token")),
    )


def test_outside_of_a_pod_there_is_no_in_cluster(tmp_path: Path) -> None:
    with pytest.raises(KubeconfigError, match="KUBERNETES_SERVICE_HOST"):
        in_cluster({}, tmp_path)
    environ = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}
    with pytest.raises(KubeconfigError, match=f"no file {tmp_path}/token"):
        in_cluster(environ, tmp_path)
