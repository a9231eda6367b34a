"""A CertificateSigningRequest as a document: what is sent, what its state means. Pure.

Source: client-go util/certificate/csr/csr.go, kubelet certificate/bootstrap/bootstrap.go.
"""

import base64
import binascii
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikubelet.kube.api import Document
from minikubelet.node.certificates import Template

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"


class RequestFailed(Exception):
    """No certificate comes of a request; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate (with its chain), PEM."""

    certificate: bytes


def request_document(template: Template, pem: bytes, name: str = "") -> Document:
    """Return the object to create; without a name the server makes one."""
    return {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": name} if name else {"generateName": "csr-"},
        "spec": {
            "request": base64.b64encode(pem).decode(),
            "signerName": template.signer,
            "usages": list(template.usages),
        },
    }


def digested_name(public_key: bytes, template: Template) -> str:
    """Return the name of the one request for a key (DER): it is found again after a restart."""
    digest = hashlib.new("sha512_256")
    for part in (
        public_key,
        template.common_name.encode(),
        *(text.encode() for text in (*template.organizations, *template.usages)),
    ):
        digest.update(_encoded(part).encode() + b"|")
    return f"node-csr-{_encoded(digest.digest())}"


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def outcome(request: Mapping[str, Any]) -> Issued | None:
    """Return the certificate of a request, or None while it is waited for. Raises RequestFailed."""
    name = request["metadata"]["name"]
    status = request.get("status") or {}
    conditions = {entry.get("type"): entry for entry in status.get("conditions") or ()}
    for kind, verdict in (("Denied", "was denied"), ("Failed", "has failed")):
        if kind in conditions:
            why = ": ".join(
                text
                for text in (conditions[kind].get(key) for key in ("reason", "message"))
                if text
            )
            raise RequestFailed(
                f"certificate signing request {name} {verdict} ({why or 'no reason given'})"
            )
    text = status.get("certificate")
    if not text or "Approved" not in conditions:
        return None
    try:
        return Issued(base64.b64decode(text, validate=True))
    except (binascii.Error, ValueError, TypeError) as error:
        raise RequestFailed(
            f"certificate signing request {name}: status.certificate is not base64: {error}"
        ) from error
