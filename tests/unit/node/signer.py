"""A cluster's CA that signs certificate signing requests, for tests."""

import base64
import datetime as dt
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PURPOSES = {
    "client auth": ExtendedKeyUsageOID.CLIENT_AUTH,
    "server auth": ExtendedKeyUsageOID.SERVER_AUTH,
}


@dataclass(frozen=True)
class Signer:
    """Signs with a CA's key; certificates begin at `now` (Unix seconds) less `back`."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @classmethod
    def new(cls) -> "Signer":
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ca")])
        builder = x509.CertificateBuilder(name, name, key.public_key(), 1)
        begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
        certificate = (
            builder.not_valid_before(begin)
            .not_valid_after(begin + dt.timedelta(days=10000))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(key, hashes.SHA256())
        )
        return cls(certificate, key)

    @classmethod
    def of(cls, cert_file: Path, key_file: Path) -> "Signer":
        key = serialization.load_pem_private_key(key_file.read_bytes(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return cls(x509.load_pem_x509_certificate(cert_file.read_bytes()), key)

    def sign(
        self,
        spec: dict[str, Any],
        now: float,
        seconds: float,
        back: float = 0,
        *,
        names: bool = True,
    ) -> bytes:
        """Return the certificate (PEM) that a request's spec asks for."""
        request = x509.load_pem_x509_csr(base64.b64decode(spec["request"]))
        builder = (
            x509.CertificateBuilder(
                self.certificate.subject,
                request.subject,
                request.public_key(),
                x509.random_serial_number(),
            )
            .not_valid_before(dt.datetime.fromtimestamp(now - back, dt.UTC))
            .not_valid_after(dt.datetime.fromtimestamp(now + seconds, dt.UTC))
            .add_extension(
                x509.ExtendedKeyUsage([PURPOSES[u] for u in spec["usages"] if u in PURPOSES]),
                critical=False,
            )
        )
        for extension in request.extensions if names else ():
            builder = builder.add_extension(extension.value, extension.critical)
        return builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def status(self, certificate: bytes) -> dict[str, Any]:
        """Return the status of an approved and issued request."""
        return {
            "conditions": [{"type": "Approved", "status": "True", "reason": "Test"}],
            "certificate": base64.b64encode(certificate).decode(),
        }
