"""Registry credentials: which ones fit an image, the most specific first. Pure.

A key of a docker configuration is a registry, perhaps with a path, perhaps with `*` for parts of
its name. Source: kubelet credentialprovider/keyring.go, config.go.
"""

import base64
import binascii
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

DOCKER_HUB = "index.docker.io"
_HUB_NAMES = ("docker.io", DOCKER_HUB)


@dataclass(frozen=True, slots=True)
class SecretSource:
    """The Secret that a credential comes from."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Credential:
    """One login. `pattern` is host and path without a scheme; `source` None means the node's."""

    pattern: str
    username: str = ""
    password: str = ""
    identity_token: str = ""
    source: SecretSource | None = None

    @property
    def hash(self) -> str:
        """What tells this login from another, without telling it."""
        parts = (self.username, self.password, self.identity_token)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def __repr__(self) -> str:
        return f"Credential({self.pattern!r}, source={self.source!r})"


class CredentialError(ValueError):
    """A docker configuration can't be read."""


def parse(
    document: Mapping[str, Any], source: SecretSource | None = None
) -> tuple[Credential, ...]:
    """Return the logins of a docker configuration: `{"auths": {…}}` or the older plain map.

    Raises CredentialError; an entry without a login is left out.
    """
    auths = document.get("auths", document)
    if not isinstance(auths, Mapping):
        raise CredentialError("cannot read registry credentials: auths is no map")
    found = (_entry(key, entry, source) for key, entry in auths.items())
    return tuple(credential for credential in found if credential is not None)


def _entry(key: str, entry: Any, source: SecretSource | None) -> Credential | None:
    if not isinstance(entry, Mapping):
        raise CredentialError(f"cannot read registry credentials: auths[{key}] is no map")
    username, password = entry.get("username", ""), entry.get("password", "")
    if entry.get("auth"):
        try:
            text = base64.b64decode(entry["auth"], validate=True).decode()
        except (binascii.Error, ValueError, TypeError) as error:
            raise CredentialError(
                f"cannot read registry credentials: auths[{key}].auth is no base64"
            ) from error
        username, separator, password = text.partition(":")
        if not separator:
            raise CredentialError(
                f"cannot read registry credentials: auths[{key}].auth isn't user:password"
            )
    token = entry.get("identitytoken", "")
    if not (username or password or token):
        return None
    return Credential(_pattern(key), username, password, token, source)


def _pattern(key: str) -> str:
    """Return host and path of a key; `https://index.docker.io/v1/` is the hub itself."""
    rest = key.partition("://")[2] or key
    host, _, path = rest.partition("/")
    path = path.strip("/")
    for version in ("v1", "v2"):
        if path == version or path.startswith(f"{version}/"):
            path = path.removeprefix(version).strip("/")
    return f"{host}/{path}" if path else host


def lookup(credentials: Iterable[Credential], image: str) -> tuple[Credential, ...]:
    """Return the logins that fit an image, the most specific first, the first given of equals."""
    known = sorted(credentials, key=lambda credential: credential.pattern, reverse=True)
    fitting = [credential for credential in known if _matches(credential.pattern, image)]
    if not fitting and _is_of_hub(image):
        fitting = [credential for credential in known if credential.pattern == DOCKER_HUB]
    return tuple(fitting)


def _is_of_hub(image: str) -> bool:
    first, slash, _ = image.partition("/")
    if not slash or first in _HUB_NAMES:
        return True
    return not any(mark in first for mark in ".:") and first != "localhost"


def _matches(pattern: str, image: str) -> bool:
    host, _, path = pattern.partition("/")
    image_host, _, image_path = image.partition("/")
    host, _, port = host.partition(":")
    image_host, _, image_port = image_host.partition(":")
    parts, image_parts = host.split("."), image_host.split(".")
    if port != image_port or len(parts) != len(image_parts):
        return False
    if not image_path.startswith(path):
        return False
    return all(fnmatchcase(actual, part) for part, actual in zip(parts, image_parts, strict=True))


def chosen(
    secrets: Sequence[Credential], node: Sequence[Credential], image: str
) -> list[Credential]:
    """Return all logins to try for an image: the pod's first, then the node's."""
    return [*lookup(secrets, image), *lookup(node, image)]
