"""Where the apiserver is and who we are: a kubeconfig file, or a pod's service account.

A kubeconfig is read into one frozen value: the chosen context's cluster and user, relative paths
made absolute. Files it names (CA, certificate, key, token) are only named here: they change while
we run and `credentials` reads them anew. Every problem is found at once and names file and field.
Source of the rules: client-go tools/clientcmd (data wins over a file, a token file over a token).
What client-go dropped or no kubelet uses (auth-provider, user name and password, impersonation) is
refused by name.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minikubelet.api import yaml
from minikubelet.kube.fields import Fields

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_EXEC_VERSIONS = (
    "client.authentication.k8s.io/v1",
    "client.authentication.k8s.io/v1beta1",
)
_REFUSED = {
    "auth-provider": "client-go removed it in 1.26; use exec",
    "username": "the apiserver has no basic authentication since 1.19",
    "password": "the apiserver has no basic authentication since 1.19",
    "as": "a node speaks for itself only",
    "as-uid": "a node speaks for itself only",
    "as-groups": "a node speaks for itself only",
    "as-user-extra": "a node speaks for itself only",
}


class KubeconfigError(Exception):
    """The kubeconfig, or a file that it names, can't be used; one line for each problem."""


@dataclass(frozen=True, slots=True)
class Material:
    """PEM text: in a file (`path`), or in the kubeconfig itself (`data`)."""

    path: str = ""
    data: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program that prints an ExecCredential (client.authentication.k8s.io)."""

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False


@dataclass(frozen=True, slots=True)
class User:
    """Who we are. Several ways at once are used together, as client-go does."""

    certificate: Material | None = None
    key: Material | None = None
    token: str = field(default="", repr=False)
    token_file: str = ""
    exec_plugin: ExecPlugin | None = None


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The apiserver to speak to and the user to be there."""

    origin: str
    """The file it was read from, for messages."""
    server: str
    """URL without a trailing slash."""
    ca: Material | None = None
    """None: the system's certificate authorities."""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""
    user: User = field(default_factory=User)


def read(path: str | Path, context: str = "") -> Kubeconfig:
    """Read a kubeconfig; `context` instead of its current-context. Raises KubeconfigError."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise KubeconfigError(f"cannot read kubeconfig {path}: {_why(error)}") from error
    return parse(text, path, context)


def parse(text: str, path: str | Path, context: str = "") -> Kubeconfig:
    """Return the value of a kubeconfig's text, read from `path`. Raises KubeconfigError."""
    try:
        documents = yaml.load_all(text)
    except yaml.YAMLError as error:
        raise KubeconfigError(f"cannot read kubeconfig {path}: {error}") from error
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise KubeconfigError(f"cannot read kubeconfig {path}: it is not one document of fields")
    problems: list[str] = []
    root = Fields(documents[0].value, "", Path(path).absolute().parent, problems)
    config = _config(root, str(path), context)
    if problems:
        raise KubeconfigError(
            "\n".join(f"cannot use kubeconfig {path}: {problem}" for problem in problems)
        )
    return config


def in_cluster(
    environ: Mapping[str, str] = os.environ, folder: Path = SERVICE_ACCOUNT
) -> Kubeconfig:
    """Return the configuration that every pod's container has. Raises KubeconfigError outside."""
    host, port = environ.get("KUBERNETES_SERVICE_HOST"), environ.get("KUBERNETES_SERVICE_PORT")
    if not host or not port:
        raise KubeconfigError(
            "cannot use the in-cluster configuration: KUBERNETES_SERVICE_HOST and "
            "KUBERNETES_SERVICE_PORT are not set; outside of a pod give a kubeconfig"
        )
    token, ca = folder / "token", folder / "ca.crt"
    for file in (token, ca):
        if not file.is_file():
            raise KubeconfigError(f"cannot use the in-cluster configuration: no file {file}")
    return Kubeconfig(
        origin=str(folder),
        server=f"https://{_url_host(host)}:{port}",
        ca=Material(path=str(ca)),
        user=User(token_file=str(token)),
    )


def _config(root: Fields, origin: str, wanted: str) -> Kubeconfig:
    kind = root.text("kind")
    if kind not in ("", "Config"):
        root.problem("kind", f"must be Config, not {kind}")
    name = wanted or root.text("current-context")
    if not name:
        root.problem("current-context", "required: which of the contexts is to be used?")
        return Kubeconfig(origin, "")
    context = root.named("contexts", name, "context")
    if context is None:
        return Kubeconfig(origin, "")
    cluster = _reference(root, context, "cluster", "clusters")
    user = _reference(root, context, "user", "users") if context.text("user") else None
    return _cluster(cluster, origin, User() if user is None else _user(user))


def _reference(root: Fields, context: Fields, field_name: str, plural: str) -> Fields | None:
    name = context.text(field_name)
    if not name:
        context.problem(field_name, f"required: the name of one of the {plural}")
        return None
    return root.named(plural, name, field_name)


def _cluster(fields: Fields | None, origin: str, user: User) -> Kubeconfig:
    if fields is None:
        return Kubeconfig(origin, "")
    server = fields.url("server", required=True)
    ca = _material(fields, "certificate-authority")
    insecure = fields.truth("insecure-skip-tls-verify")
    if insecure and ca is not None:
        fields.problem(
            "insecure-skip-tls-verify", "not allowed together with a certificate-authority"
        )
    return Kubeconfig(
        origin=origin,
        server=server.rstrip("/"),
        ca=ca,
        tls_server_name=fields.text("tls-server-name"),
        insecure_skip_tls_verify=insecure,
        proxy_url=fields.url("proxy-url"),
        user=user,
    )


def _user(fields: Fields) -> User:
    for name, why in _REFUSED.items():
        if fields.has(name):
            fields.problem(name, f"not supported: {why}")
    certificate = _material(fields, "client-certificate")
    key = _material(fields, "client-key")
    if certificate is not None and key is None:
        fields.problem("client-key", "required beside client-certificate")
    if key is not None and certificate is None:
        fields.problem("client-certificate", "required beside client-key")
    plugin = fields.child("exec")
    return User(
        certificate=certificate,
        key=key,
        token=fields.text("token"),
        token_file=fields.path("tokenFile"),
        exec_plugin=None if plugin is None else _exec(plugin),
    )


def _exec(fields: Fields) -> ExecPlugin:
    version, command = fields.text("apiVersion"), fields.text("command")
    if version not in _EXEC_VERSIONS:
        fields.problem("apiVersion", f"must be {_EXEC_VERSIONS[0]}, not {version!r}")
    if not command:
        fields.problem("command", "required: the program that prints the credential")
    if fields.text("interactiveMode") == "Always":
        fields.problem("interactiveMode", "Always can't be met: there is no terminal")
    if "/" in command:
        # client-go: a command with a slash is relative to the kubeconfig, others are in PATH.
        command = fields.path("command")
    return ExecPlugin(
        command=command,
        api_version=version,
        args=fields.texts("args"),
        env=tuple((item.text("name"), item.text("value")) for item in fields.children("env")),
        install_hint=fields.text("installHint").strip(),
        provide_cluster_info=fields.truth("provideClusterInfo"),
    )


def _material(fields: Fields, name: str) -> Material | None:
    data = fields.base64(f"{name}-data")
    if data:
        return Material(data=data)
    path = fields.path(name)
    return Material(path=path) if path else None


def _url_host(host: str) -> str:
    try:
        return f"[{host}]" if ipaddress.ip_address(host).version == 6 else host  # noqa: PLR2004  IPv6
    except ValueError:
        return host


def _why(error: Any) -> str:
    return getattr(error, "strerror", None) or str(error)
