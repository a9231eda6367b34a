"""The kubeconfig of a node that gets its certificate by a bootstrap credential. Blocking.

Tells whether the one at hand will do, and writes the one that leads to the stored certificate.
Source: kubelet certificate/bootstrap/bootstrap.go.
"""

import base64
import os
from dataclasses import replace
from pathlib import Path

import yaml

from minikubelet.kube.kubeconfig import Kubeconfig, KubeconfigError, Material, User, read
from minikubelet.node.certificates_keys import BadCertificate, expiry, read_pair

_PRIVATE = 0o600


def usable(path: str, now: float) -> tuple[Kubeconfig | None, str]:
    """Return a kubeconfig whose client certificates count at `now` (Unix seconds), or why not."""
    if not os.path.lexists(path):
        return None, f"there is no {path}"
    try:
        config = read(path)
        user = config.user
        if user.certificate is None or user.key is None:
            return None, f"{path} has no client certificate"
        certificate = _bytes(user.certificate)
        read_pair(certificate, _bytes(user.key))
        if expiry(certificate) <= now:
            return None, f"the client certificate of {path} has expired"
    except (KubeconfigError, BadCertificate, OSError) as error:
        return None, f"cannot use {path}: {error}"
    return config, ""


def with_certificate(config: Kubeconfig, pem: str) -> Kubeconfig:
    """Return the same server with a certificate and key of one file as the user."""
    return replace(config, user=User(certificate=Material(path=pem), key=Material(path=pem)))


def document(config: Kubeconfig, pem: str) -> str:
    """Return the text of a kubeconfig whose user is a file of certificate and key. Pure."""
    cluster: dict[str, object] = {"server": config.server}
    if config.ca is not None and config.ca.path:
        cluster["certificate-authority"] = config.ca.path
    elif config.ca is not None:
        cluster["certificate-authority-data"] = base64.b64encode(config.ca.data).decode()
    if config.insecure_skip_tls_verify:
        cluster["insecure-skip-tls-verify"] = True
    if config.tls_server_name:
        cluster["tls-server-name"] = config.tls_server_name
    if config.proxy_url:
        cluster["proxy-url"] = config.proxy_url
    names = {"cluster": "default-cluster", "namespace": "default", "user": "default-auth"}
    fields = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "default-cluster", "cluster": cluster}],
        "contexts": [{"name": "default-context", "context": names}],
        "current-context": "default-context",
        "users": [{"name": "default-auth", "user": {"client-certificate": pem, "client-key": pem}}],
    }
    return yaml.safe_dump(fields)


def write(path: str, text: str) -> None:
    """Put a kubeconfig in place, whole. Raises OSError."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    part.unlink(missing_ok=True)
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE), "w") as file:
        file.write(text)
    part.rename(target)


def _bytes(material: Material) -> bytes:
    return material.data or Path(material.path).read_bytes()
