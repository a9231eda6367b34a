"""Who is it: a client certificate, a bearer token, or nobody in particular.

The certificate was verified in the TLS handshake (`tls`); here its subject becomes a user: the
common name is the name, organisations are groups. A token is the apiserver's to judge; its answers
count for a while, by a keyed hash of the token, so that no token is kept. A wrong token is refused
even where anonymous requests are let in. Source: apiserver authenticatorfactory/delegating.go,
request/{x509,bearertoken,anonymous}.
"""

import hashlib
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from minikubelet.server.remembered import Remembered

AUTHENTICATED = "system:authenticated"
_CREDENTIAL_ID = "authentication.kubernetes.io/credential-id"
_PARTS = 2
"""A scheme and a token."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody, as the apiserver knows them."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


ANONYMOUS = User("system:anonymous", groups=("system:unauthenticated",))

TokenReview = Callable[[str], Awaitable[User | None]]
"""Asks the apiserver whose token it is, None for nobody's; raises ReviewFailed."""


class ReviewFailed(Exception):
    """The apiserver gave no answer."""


class Unauthenticated(Exception):
    """Nobody knows who it is; the text is for the log."""


Subject = tuple[tuple[tuple[str, str], ...], ...]
"""A name as Python's ssl has it: parts, each of kinds and values."""


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A certificate that the handshake verified, and its bytes (DER)."""

    subject: Subject
    der: bytes


class Authenticator:
    """The configured ways, tried in the kubelet's order."""

    def __init__(self, token_review: TokenReview | None, *, anonymous: bool, ttl: float) -> None:
        self._token_review = token_review
        self._anonymous = anonymous
        self._answers: Remembered[bytes, tuple[User | None]] = Remembered(lambda _answer: ttl)
        self._key = secrets.token_bytes(32)

    async def authenticate(self, certificate: ClientCertificate | None, authorization: str) -> User:
        """Return who sends a request. Raises Unauthenticated, ReviewFailed."""
        user = user_of(certificate) if certificate is not None else None
        if user is not None:
            return user
        token = bearer_token(authorization)
        if token and self._token_review is not None:
            user = await self._user_of_token(token, self._token_review)
            if user is None:
                raise Unauthenticated("invalid bearer token")
            return _in_group(user, AUTHENTICATED)
        if self._anonymous:
            return ANONYMOUS
        raise Unauthenticated("no credentials that count here")

    async def _user_of_token(self, token: str, review: TokenReview) -> User | None:
        async def ask() -> tuple[User | None]:
            return (await review(token),)

        key = hashlib.blake2b(token.encode(errors="surrogateescape"), key=self._key).digest()
        return (await self._answers.get(key, ask))[0]


def bearer_token(authorization: str) -> str:
    """Return the token of an Authorization header, empty when there is none."""
    parts = authorization.strip().split(" ", _PARTS)
    if len(parts) < _PARTS or parts[0].lower() != "bearer":
        return ""
    return parts[1]


def user_of(certificate: ClientCertificate) -> User | None:
    """Return the user that a certificate is of, None when it names nobody."""
    fields = [field for part in certificate.subject for field in part]
    name = next((value for kind, value in reversed(fields) if kind == "commonName"), "")
    if not name:
        return None
    fingerprint = hashlib.sha256(certificate.der).hexdigest()
    user = User(
        name,
        groups=tuple(value for kind, value in fields if kind == "organizationName"),
        extra=((_CREDENTIAL_ID, (f"X509SHA256={fingerprint}",)),),
    )
    return _in_group(user, AUTHENTICATED)


def user_of_review(status: Mapping[str, Any]) -> User | None:
    """Return the user of a TokenReview's status, None when the token is nobody's."""
    if not status.get("authenticated"):
        return None
    found = status.get("user") or {}
    extra = found.get("extra") or {}
    return User(
        name=found.get("username") or "",
        uid=found.get("uid") or "",
        groups=tuple(found.get("groups") or ()),
        extra=tuple((name, tuple(values or ())) for name, values in sorted(extra.items())),
    )


def _in_group(user: User, group: str) -> User:
    if group in user.groups:
        return user
    return User(user.name, user.uid, (*user.groups, group), user.extra)
