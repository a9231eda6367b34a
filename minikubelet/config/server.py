"""What the node's own port needs: where it listens, its certificate, who may use it.

Source: kubelet cmd/kubelet/app/auth.go, server.go RunKubelet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from minikubelet.api.problems import Problem, invalid, unsupported
from minikubelet.config.ciphers import OPENSSL_NAMES
from minikubelet.config.defaults import get
from minikubelet.config.duration import seconds

_VERSIONS = ("VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13")
_NEEDS_APISERVER = (
    "needs an apiserver and there is no --kubeconfig; {}, or leave all of authentication out "
    "to run without a TCP port"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerConfig:
    """The port; times in seconds, files as absolute paths, empty where there is none."""

    address: str
    port: int
    cert_file: str
    key_file: str
    min_version: str
    """Go's name, empty for TLS 1.2."""
    ciphers: tuple[str, ...]
    """OpenSSL's names; empty for its defaults."""
    client_ca_file: str
    anonymous: bool
    token_webhook: bool
    token_ttl: float
    authorization_webhook: bool
    """Ask the apiserver; else everybody who is known may do everything."""
    authorized_ttl: float
    unauthorized_ttl: float
    debugging_handlers: bool
    streaming_idle_timeout: float


def server_config(
    document: Mapping[str, Any], *, kubeconfig: str, asked_for: bool
) -> ServerConfig | None:
    """Return the port's settings; None where none is to be opened.

    With neither a kubeconfig nor authentication that somebody `asked_for`, the node stands alone
    and its socket is enough.
    """
    if not document["enableServer"] or not (kubeconfig or asked_for):
        return None
    suites = document.get("tlsCipherSuites", ())
    return ServerConfig(
        address=document["address"],
        port=document["port"],
        cert_file=document.get("tlsCertFile", ""),
        key_file=document.get("tlsPrivateKeyFile", ""),
        min_version=document.get("tlsMinVersion", ""),
        ciphers=tuple(name for suite in suites if (name := OPENSSL_NAMES[suite])),
        client_ca_file=get(document, "authentication.x509.clientCAFile") or "",
        anonymous=get(document, "authentication.anonymous.enabled"),
        token_webhook=get(document, "authentication.webhook.enabled"),
        token_ttl=seconds(get(document, "authentication.webhook.cacheTTL")),
        authorization_webhook=get(document, "authorization.mode") == "Webhook",
        authorized_ttl=seconds(get(document, "authorization.webhook.cacheAuthorizedTTL")),
        unauthorized_ttl=seconds(get(document, "authorization.webhook.cacheUnauthorizedTTL")),
        debugging_handlers=document["enableDebuggingHandlers"],
        streaming_idle_timeout=seconds(document["streamingConnectionIdleTimeout"]),
    )


def is_authentication_asked_for(document: Mapping[str, Any]) -> bool:
    """Tell whether a document, defaults left out, switches a way to authenticate on."""
    paths = ("x509.clientCAFile", "anonymous.enabled", "webhook.enabled")
    return any(get(document, f"authentication.{path}") for path in paths)


def check_server(
    document: Mapping[str, Any], *, kubeconfig: str, asked_for: bool
) -> Iterator[Problem]:
    """Yield the faults of the port's settings."""
    version = document.get("tlsMinVersion") or ""
    if version and version not in _VERSIONS:
        yield unsupported("tlsMinVersion", version, _VERSIONS)
    for index, suite in enumerate(document.get("tlsCipherSuites", ())):
        if suite not in OPENSSL_NAMES:
            yield unsupported(f"tlsCipherSuites[{index}]", suite, tuple(OPENSSL_NAMES))
    cert, key = document.get("tlsCertFile", ""), document.get("tlsPrivateKeyFile", "")
    if bool(cert) != bool(key):
        path = "tlsCertFile" if cert else "tlsPrivateKeyFile"
        yield invalid(path, cert or key, "tlsCertFile and tlsPrivateKeyFile must be set together")
    if kubeconfig or not asked_for or not document["enableServer"]:
        return
    if get(document, "authentication.webhook.enabled"):
        text = _NEEDS_APISERVER.format("set it to false")
        yield invalid("authentication.webhook.enabled", True, text)  # noqa: FBT003  the value shown
    if document.get("serverTLSBootstrap"):
        yield invalid("serverTLSBootstrap", True, _NEEDS_APISERVER.format("set it to false"))  # noqa: FBT003  as above
    if get(document, "authorization.mode") == "Webhook":
        yield invalid(
            "authorization.mode", "Webhook", _NEEDS_APISERVER.format("set it to AlwaysAllow")
        )
