"""TLS towards the apiserver, as Go does it: what a kubelet connects to, we connect to.

Python 3.13 by itself is stricter about a CA's extensions than Go and refuses clusters that run
well; a name in the subject counts for neither. Keys never touch a disk: OpenSSL reads them from an
anonymous file in memory.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from minikubelet.kube.credentials import Identity
from minikubelet.kube.kubeconfig import Kubeconfig, KubeconfigError, Material


def context(kubeconfig: Kubeconfig, identity: Identity) -> ssl.SSLContext:
    """Return the client side of TLS; takes some 10 ms. Raises KubeconfigError."""
    result = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    result.minimum_version = ssl.TLSVersion.TLSv1_2
    result.hostname_checks_common_name = False
    # Go takes any certificate of the list as an end of the chain, not self-signed ones only.
    result.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    if kubeconfig.insecure_skip_tls_verify:
        result.check_hostname = False
        result.verify_mode = ssl.CERT_NONE
    elif identity.ca:
        _load_ca(result, kubeconfig, identity.ca)
    else:
        result.load_default_certs()
    if identity.certificate:
        _load_certificate(result, kubeconfig, identity)
    return result


def _load_ca(result: ssl.SSLContext, kubeconfig: Kubeconfig, ca: bytes) -> None:
    try:
        result.load_verify_locations(cadata=ca.decode("ascii", errors="replace"))
    except (ssl.SSLError, ValueError) as error:
        raise KubeconfigError(
            f"cannot use kubeconfig {kubeconfig.origin}: "
            f"{_field('certificate-authority', kubeconfig.ca)}: {error}"
        ) from error


def _load_certificate(result: ssl.SSLContext, kubeconfig: Kubeconfig, identity: Identity) -> None:
    try:
        with _in_memory(identity.certificate) as certificate, _in_memory(identity.key) as key:
            # Without a password OpenSSL would ask a terminal for one.
            result.load_cert_chain(certificate, key, password="")
    except (ssl.SSLError, ValueError, OSError) as error:
        raise KubeconfigError(
            f"cannot use kubeconfig {kubeconfig.origin}: "
            f"{_field('client-certificate', kubeconfig.user.certificate)} with "
            f"{_field('client-key', kubeconfig.user.key)}: {error}"
        ) from error


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    with os.fdopen(os.memfd_create("pem", os.MFD_CLOEXEC), "wb") as file:
        file.write(data)
        file.flush()
        yield f"/proc/self/fd/{file.fileno()}"


def _field(name: str, material: Material | None) -> str:
    return f"{name} {material.path}" if material and material.path else f"{name}-data"
