"""The serving certificate that a node makes for itself when it is given none.

A CA of one use signs it, so that a client can verify with the file alone. It is made once and kept
in `<cert-dir>/kubelet.crt` and `.key`. Blocking. Source: client-go util/cert/cert.go
GenerateSelfSignedCertKey, kubelet cmd/kubelet/app/server.go InitializeTLS.
"""

import ipaddress
import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from minikubelet.server.tls import KeyPair, own_pair

VALID = timedelta(days=365)
_CLOCK_SKEW = timedelta(hours=1)
_KEY_BITS = 2048
_PRIVATE, _PUBLIC = 0o600, 0o644


def make_self_signed(
    folder: str, host: str, addresses: Sequence[str], now: datetime | None = None
) -> KeyPair:
    """Make the folder's pair. Raises OSError."""
    pair = own_pair(folder)
    certificates, key = self_signed(host, addresses, now or datetime.now(UTC))
    Path(folder).mkdir(parents=True, exist_ok=True)
    _write(pair.key_file, key, _PRIVATE)
    _write(pair.cert_file, certificates, _PUBLIC)
    return pair


def self_signed(host: str, addresses: Sequence[str], now: datetime) -> tuple[bytes, bytes]:
    """Return the certificate followed by its CA's, and the key; both PEM."""
    stamp = int(now.timestamp())
    ca_key, key = (rsa.generate_private_key(65537, _KEY_BITS) for _ in range(2))
    ca_name = _name(f"{host}-ca@{stamp}")
    begins, ends = now - _CLOCK_SKEW, now - _CLOCK_SKEW + VALID
    authority = (
        x509.CertificateBuilder(ca_name, ca_name, ca_key.public_key(), x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(ca_key.public_key()), False)  # noqa: FBT003  cryptography's own signature
        .sign(ca_key, hashes.SHA256())
    )
    names: list[x509.GeneralName] = [x509.DNSName(host)]
    names += [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
    serving = [ExtendedKeyUsageOID.SERVER_AUTH]
    certificate = (
        x509.CertificateBuilder(
            ca_name, _name(f"{host}@{stamp}"), key.public_key(), x509.random_serial_number()
        )
        .not_valid_before(begins)
        .not_valid_after(ends)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage(serving), critical=False)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        .sign(ca_key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(
        pem, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
    return certificate.public_bytes(pem) + authority.public_bytes(pem), private


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:64])])


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_encipherment=True,
        key_cert_sign=signs,
        crl_sign=False,
        content_commitment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _write(path: str, data: bytes, mode: int) -> None:
    """Put a file in place whole, with its mode from the first moment on."""
    part = f"{path}.part"
    with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
        file.write(data)
    Path(part).rename(path)
