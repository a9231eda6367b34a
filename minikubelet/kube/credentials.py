"""What proves who we are, read from where the kubeconfig says: files, inline data, an exec plugin.

Files change while we run (a rotated certificate, a projected token), so `Credentials.read` reads
them anew each time it is asked; whoever asks compares the `Identity` with the one in use. A
plugin's credential is kept until it expires or somebody was refused with it. Source: client-go
plugin/pkg/client/auth/exec, transport/token_source.go.
"""

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio.to_thread
import msgspec

from minikubelet.api.timestamp import parse
from minikubelet.host import process
from minikubelet.host.clock import Clock
from minikubelet.kube.kubeconfig import ExecPlugin, Kubeconfig, KubeconfigError, Material

_EXEC_SECONDS = 60.0
"""client-go lets a plugin take for ever; here it would hold up every request."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What one connection is made with, and one request carries."""

    token: str = field(default="", repr=False)
    certificate: bytes = field(default=b"", repr=False)
    key: bytes = field(default=b"", repr=False)
    ca: bytes = field(default=b"", repr=False)
    expires_ns: int | None = None
    """Unix nanoseconds, if an exec plugin named a time."""

    def same_connection(self, other: "Identity") -> bool:
        """Return whether a connection made with the other one serves this one, too."""
        return (self.certificate, self.key, self.ca) == (other.certificate, other.key, other.ca)


@dataclass(frozen=True, slots=True)
class _Printed:
    """What a plugin printed."""

    token: str = ""
    certificate: bytes = b""
    key: bytes = b""
    expires_ns: int | None = None


class Credentials:
    """Reads the identity of a kubeconfig's user."""

    def __init__(self, kubeconfig: Kubeconfig, clock: Clock) -> None:
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._printed: _Printed | None = None

    async def from_files(self) -> Identity:
        """Read all files; a plugin isn't run. Raises KubeconfigError."""
        return await anyio.to_thread.run_sync(self._from_files)

    async def read(self, *, refused: bool = False) -> Identity:
        """Read all files, and run the plugin if there is one and its last credential is over.

        `refused`: the server didn't accept the last one. Raises KubeconfigError.
        """
        identity = await self.from_files()
        plugin = self._kubeconfig.user.exec_plugin
        if plugin is None:
            return identity
        if refused or self._printed is None or self._is_over(self._printed):
            self._printed = await _run(plugin, self._kubeconfig, identity.ca)
        printed = self._printed
        return Identity(
            token=printed.token or identity.token,
            certificate=printed.certificate or identity.certificate,
            key=printed.key or identity.key,
            ca=identity.ca,
            expires_ns=printed.expires_ns,
        )

    def _from_files(self) -> Identity:
        user = self._kubeconfig.user
        token = user.token
        if user.token_file:
            token = _file("tokenFile", user.token_file).decode(errors="replace").strip()
            if not token:
                raise KubeconfigError(f"cannot use tokenFile {user.token_file}: it is empty")
        return Identity(
            token=token,
            certificate=_material("client-certificate", user.certificate),
            key=_material("client-key", user.key),
            ca=_material("certificate-authority", self._kubeconfig.ca),
        )

    def _is_over(self, printed: _Printed) -> bool:
        return printed.expires_ns is not None and printed.expires_ns <= self._clock.wall_ns()


def _material(field_name: str, material: Material | None) -> bytes:
    if material is None:
        return b""
    return material.data or _file(field_name, material.path)


def _file(field_name: str, path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise KubeconfigError(f"cannot read {field_name} {path}: {error.strerror}") from error


async def _run(plugin: ExecPlugin, kubeconfig: Kubeconfig, ca: bytes) -> _Printed:
    argv = [plugin.command, *plugin.args]
    environment = {
        **os.environ,
        **dict(plugin.env),
        "KUBERNETES_EXEC_INFO": _info(plugin, kubeconfig, ca),
    }
    try:
        output = await process.run(argv, timeout=_EXEC_SECONDS, env=environment)
    except process.CommandError as error:
        hint = f"\n{plugin.install_hint}" if error.output is None and plugin.install_hint else ""
        raise KubeconfigError(f"cannot get a credential from exec: {error}{hint}") from error
    try:
        return _printed(plugin, msgspec.json.decode(output.stdout))
    except (msgspec.DecodeError, ValueError) as error:
        raise KubeconfigError(
            f"cannot use the credential that {plugin.command} (exec) printed: {error}"
        ) from error


def _info(plugin: ExecPlugin, kubeconfig: Kubeconfig, ca: bytes) -> str:
    spec: dict[str, Any] = {"interactive": False}
    if plugin.provide_cluster_info:
        cluster: dict[str, Any] = {"server": kubeconfig.server}
        if ca:
            cluster["certificate-authority-data"] = ca
        if kubeconfig.tls_server_name:
            cluster["tls-server-name"] = kubeconfig.tls_server_name
        if kubeconfig.insecure_skip_tls_verify:
            cluster["insecure-skip-tls-verify"] = True
        if kubeconfig.proxy_url:
            cluster["proxy-url"] = kubeconfig.proxy_url
        spec["cluster"] = cluster
    info = {"apiVersion": plugin.api_version, "kind": "ExecCredential", "spec": spec}
    return msgspec.json.encode(info).decode()


def _printed(plugin: ExecPlugin, document: Any) -> _Printed:
    """Check an ExecCredential. Raises ValueError with the field."""
    if not isinstance(document, dict) or document.get("kind") != "ExecCredential":
        raise ValueError("kind must be ExecCredential")
    if document.get("apiVersion") != plugin.api_version:
        raise ValueError(
            f"apiVersion must be {plugin.api_version}, not {document.get('apiVersion')!r}"
        )
    status = document.get("status")
    if not isinstance(status, dict):
        raise ValueError("status: required")  # noqa: TRY004  a value of the document
    texts = {}
    for name in ("token", "clientCertificateData", "clientKeyData", "expirationTimestamp"):
        value = status.get(name) or ""
        if not isinstance(value, str):
            raise ValueError(f"status.{name}: must be a string")  # noqa: TRY004  as above
        texts[name] = value
    if bool(texts["clientCertificateData"]) != bool(texts["clientKeyData"]):
        raise ValueError("status.clientCertificateData and clientKeyData: both or none")
    if not texts["token"] and not texts["clientKeyData"]:
        raise ValueError("status: neither token nor clientCertificateData")
    expires = texts["expirationTimestamp"]
    return _Printed(
        token=texts["token"],
        certificate=texts["clientCertificateData"].encode(),
        key=texts["clientKeyData"].encode(),
        expires_ns=parse(expires) if expires else None,
    )
