"""Keys, signing requests and certificates as PEM. Blocking: milliseconds each, call it in a thread.

The one module of the room that imports cryptography (9 MiB): whoever needs no certificate doesn't.
"""

import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.x509.oid import NameOID

from minikubelet.node.certificates import Held, Template

_PEM = serialization.Encoding.PEM
_SPKI = serialization.PublicFormat.SubjectPublicKeyInfo


class BadCertificate(ValueError):
    """A certificate or key that can't be used; the text says why."""


@dataclass(frozen=True, slots=True)
class Request:
    """A key of our own and the signing request made with it, PEM; the public key as DER."""

    key: bytes
    pem: bytes
    public_key: bytes


def new_key() -> bytes:
    """Return a new ECDSA P-256 key."""
    return ec.generate_private_key(ec.SECP256R1()).private_bytes(
        _PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )


def make_request(template: Template, key: bytes | None = None) -> Request:
    """Return a signing request, with a new key unless there is one. Raises BadCertificate."""
    pem = key or new_key()
    private = _ec_key(pem)
    names = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, name) for name in template.organizations]
    names.append(x509.NameAttribute(NameOID.COMMON_NAME, template.common_name))
    builder = x509.CertificateSigningRequestBuilder(x509.Name(names))
    others: list[x509.GeneralName] = [x509.DNSName(name) for name in template.dns_names]
    others += [x509.IPAddress(ipaddress.ip_address(text)) for text in template.addresses]
    if others:
        builder = builder.add_extension(x509.SubjectAlternativeName(others), critical=False)
    signed = builder.sign(private, hashes.SHA256())
    public = private.public_key().public_bytes(serialization.Encoding.DER, _SPKI)
    return Request(pem, signed.public_bytes(_PEM), public)


def joined(certificate: bytes, key: bytes) -> bytes:
    """Return the text of a pair's file: the certificates, then the key. Raises BadCertificate."""
    chain = _certificates(certificate)
    if _public_of(key) != chain[0].public_key().public_bytes(serialization.Encoding.DER, _SPKI):
        raise BadCertificate("the certificate is not for the key that it was asked for with")
    return b"".join(each.public_bytes(_PEM) for each in chain) + key


def read_pair(certificate: bytes, key: bytes) -> Held:
    """Return what a usable pair says. Raises BadCertificate."""
    joined(certificate, key)
    return read(certificate)


def read_files(cert_file: str, key_file: str) -> Held:
    """Return what the pair of two files (or one) says. Raises OSError, BadCertificate."""
    return read_pair(Path(cert_file).read_bytes(), Path(key_file).read_bytes())


def read(certificate: bytes) -> Held:
    """Return what the first certificate says. Raises BadCertificate."""
    leaf = _certificates(certificate)[0]
    names, addresses = _alternatives(leaf)
    return Held(
        not_before=leaf.not_valid_before_utc.timestamp(),
        not_after=leaf.not_valid_after_utc.timestamp(),
        common_name=next(iter(_of(leaf, NameOID.COMMON_NAME)), ""),
        organizations=tuple(_of(leaf, NameOID.ORGANIZATION_NAME)),
        dns_names=names,
        addresses=addresses,
    )


def expiry(certificates: bytes) -> float:
    """Return when the first of several certificates ends, Unix seconds. Raises BadCertificate."""
    return min(each.not_valid_after_utc.timestamp() for each in _certificates(certificates))


def _of(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    return [str(entry.value) for entry in certificate.subject.get_attributes_for_oid(oid)]


def _alternatives(leaf: x509.Certificate) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        found = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return (), ()
    except ValueError as error:
        raise BadCertificate(f"an extension of the certificate can't be read: {error}") from error
    names = found.get_values_for_type(x509.DNSName)
    return tuple(names), tuple(str(ip) for ip in found.get_values_for_type(x509.IPAddress))


def _certificates(pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise BadCertificate(f"no certificate can be read: {error}") from error


def _ec_key(pem: bytes) -> ec.EllipticCurvePrivateKey:
    private = _key(pem)
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        raise BadCertificate("the key is no ECDSA key")
    return private


def _public_of(pem: bytes) -> bytes:
    return _key(pem).public_key().public_bytes(serialization.Encoding.DER, _SPKI)


def _key(pem: bytes) -> PrivateKeyTypes:
    try:
        return serialization.load_pem_private_key(pem, None)
    except (ValueError, TypeError) as error:
        raise BadCertificate(f"the key can't be read: {error}") from error
