"""TLS of the port: which certificate is shown, whose client certificates are asked for.

Each handshake looks at the files first (a few stat calls), so a renewed certificate or CA counts
from the next connection on and nothing watches or polls. Files that can't be used, such as a
half-written pair, leave the last good ones in place. Without any certificate a handshake fails:
that is the wait for a serving certificate.

Python verifies a client certificate in the handshake or doesn't ask for one: with a client CA, a
certificate that isn't of that CA ends the handshake, where the kubelet would answer 401; without a
certificate everybody gets as far as the tokens. Who comes next: `authn`.
"""

import ssl
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import structlog

from minikubelet.server.authn import ClientCertificate, Subject

VERSIONS = {
    "VersionTLS10": ssl.TLSVersion.TLSv1,
    "VersionTLS11": ssl.TLSVersion.TLSv1_1,
    "VersionTLS12": ssl.TLSVersion.TLSv1_2,
    "VersionTLS13": ssl.TLSVersion.TLSv1_3,
}
"""tlsMinVersion by Go's names."""

_log = structlog.get_logger("server")


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate (with its chain) and its key, PEM; both may be in one file."""

    cert_file: str
    key_file: str


CurrentKeyPair = Callable[[], KeyPair | None]
"""The serving certificate of this moment; None: there is none yet."""


def own_pair(folder: str) -> KeyPair:
    """Return where a node keeps the certificate that it made for itself."""
    return KeyPair(str(Path(folder) / "kubelet.crt"), str(Path(folder) / "kubelet.key"))


def kept_pair(folder: str) -> KeyPair | None:
    """Return that certificate if it is there with its key."""
    pair = own_pair(folder)
    paths = (pair.cert_file, pair.key_file)
    return pair if all(Path(path).exists() for path in paths) else None


class ServingTLS:
    """Makes the contexts of handshakes."""

    def __init__(
        self,
        key_pair: CurrentKeyPair,
        *,
        client_ca_file: str = "",
        min_version: str = "",
        ciphers: Sequence[str] = (),
    ) -> None:
        self._key_pair = key_pair
        self._client_ca_file = client_ca_file
        self._min_version = VERSIONS[min_version or "VersionTLS12"]
        self._ciphers = ":".join(ciphers)
        self._current: ssl.SSLContext | None = None
        self._seen: object = None

    def context(self) -> ssl.SSLContext:
        """Return the context to listen with; what counts is put in at each handshake."""
        context = self._bare()
        if self._client_ca_file:
            context.verify_mode = ssl.CERT_OPTIONAL
        context.sni_callback = self._choose
        return context

    def check(self) -> None:
        """Load everything that is there. Raises OSError (ssl.SSLError), ValueError."""
        pair = self._key_pair()
        if pair is not None:
            self._loaded(pair)
        elif self._client_ca_file:
            self._bare().load_verify_locations(self._client_ca_file)

    def client_certificate(self, connection: ssl.SSLObject | None) -> ClientCertificate | None:
        """Return the client's certificate, if it still counts. Blocks for a few milliseconds.

        A connection may outlive its certificate, and the CA that it was verified against.
        """
        shown = connection.getpeercert() if connection is not None else None
        if connection is None or not shown or not self._is_in_time(shown):
            return None
        der = connection.getpeercert(binary_form=True) or b""
        self._refresh()
        is_stale = connection.context is not self._current or connection.session_reused
        if is_stale and not _is_issued(der, self._client_ca_file):
            return None
        return ClientCertificate(cast("Subject", shown["subject"]), der)

    @staticmethod
    def _is_in_time(shown: Any) -> bool:
        now = time.time()
        begins, ends = (ssl.cert_time_to_seconds(shown[key]) for key in ("notBefore", "notAfter"))
        return begins <= now <= ends

    def _choose(
        self, connection: ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
    ) -> int | None:
        self._refresh()
        if self._current is None:
            return int(ssl.ALERT_DESCRIPTION_INTERNAL_ERROR)
        connection.context = self._current
        return None

    def _refresh(self) -> None:
        """Load the files again if one of them isn't what it was. A CA without file stays out."""
        pair = self._key_pair()
        if pair is None:
            self._current = self._seen = None
            return
        paths = [pair.cert_file, pair.key_file, *filter(None, [self._client_ca_file])]
        seen = (pair, [_stamp(path) for path in paths])
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._current = self._loaded(pair)
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            _log.error(
                "cannot load the serving certificate or the client CA, the last good ones stay",
                files=paths,
                error=str(error),
            )

    def _loaded(self, pair: KeyPair) -> ssl.SSLContext:
        context = self._bare()
        context.load_cert_chain(pair.cert_file, pair.key_file)
        if self._client_ca_file:
            context.load_verify_locations(self._client_ca_file)
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _bare(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = self._min_version
        if self._ciphers:
            context.set_ciphers(self._ciphers)
        # An upgrade to SPDY or WebSocket is HTTP/1.1's.
        context.set_alpn_protocols(["http/1.1"])
        # A resumed session would skip the check of the client's certificate.
        context.options |= ssl.OP_NO_TICKET
        context.num_tickets = 0
        return context


def _stamp(path: str) -> tuple[int, ...]:
    try:
        found = Path(path).stat()
    except OSError as error:
        return (error.errno or -1,)
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _is_issued(der: bytes, ca_file: str) -> bool:
    """Tell whether a CA of the file signed a certificate; a chain in between isn't known here."""
    # 9 MiB that only a CA's change is worth.
    from cryptography import x509  # noqa: PLC0415
    from cryptography.exceptions import InvalidSignature  # noqa: PLC0415

    certificate = x509.load_der_x509_certificate(der)
    try:
        authorities = x509.load_pem_x509_certificates(Path(ca_file).read_bytes())
    except (OSError, ValueError):
        return False
    for authority in authorities:
        try:
            certificate.verify_directly_issued_by(authority)
        except (ValueError, TypeError, InvalidSignature):
            continue
        return True
    return False
