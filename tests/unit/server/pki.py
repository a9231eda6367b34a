"""Certificates of a test: an authority and what it signs, written as PEM files."""

import datetime as dt
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)
CLIENT = ExtendedKeyUsageOID.CLIENT_AUTH
SERVER = ExtendedKeyUsageOID.SERVER_AUTH


@dataclass(frozen=True)
class Pair:
    cert: str
    key: str


class Authority:
    """Signs certificates; `file` is what clients of it trust."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name, ())
        self.certificate = (
            x509.CertificateBuilder(
                self._name, self._name, self._key.public_key(), x509.random_serial_number()
            )
            .not_valid_before(NOW - DAY)
            .not_valid_after(NOW + 10 * DAY)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.file = folder / f"{name}.crt"
        self.file.write_bytes(self.pem)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(serialization.Encoding.PEM)

    def sign(
        self,
        name: str,
        *organisations: str,
        usage: x509.ObjectIdentifier = CLIENT,
        ends: dt.timedelta = DAY,
        file: str = "",
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = (
            x509.CertificateBuilder(
                self._name,
                _named(name, organisations),
                key.public_key(),
                x509.random_serial_number(),
            )
            .not_valid_before(NOW - 2 * DAY)
            .not_valid_after(NOW + ends)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        file = file or name.replace(":", "-") or "nobody"
        pair = Pair(str(self._folder / f"{file}.crt"), str(self._folder / f"{file}.key"))
        Path(pair.cert).write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        Path(pair.key).write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return pair

    def client_context(self, pair: Pair | None = None) -> ssl.SSLContext:
        """A client that trusts this authority and shows a certificate."""
        context = ssl.create_default_context(cafile=str(self.file))
        if pair is not None:
            context.load_cert_chain(pair.cert, pair.key)
        return context


def _named(name: str, organisations: tuple[str, ...]) -> x509.Name:
    fields = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in organisations]
    if name:
        fields.append(x509.NameAttribute(NameOID.COMMON_NAME, name))
    return x509.Name(fields)
