"""Service account tokens for pods: asked for once, kept in memory, renewed before they expire.

A token is bound to the pod: it ends with it. When a renewal fails, the old one serves until its
end. Never written to disk by this room. Source: kubelet token/token_manager.go.
"""

from collections.abc import Callable
from dataclasses import dataclass

from minikubelet.api.timestamp import NANOSECONDS, parse
from minikubelet.host.clock import Clock
from minikubelet.kube import api as kube
from minikubelet.kube.errors import APIError, ServerError

LIFETIME_SHARE = 0.8
MAX_AGE = 24 * 3600.0
JITTER = 10.0
DEFAULT_EXPIRATION = 3600


@dataclass(frozen=True, slots=True)
class TokenKey:
    """What a token is for. `audience` empty means the apiserver's own."""

    namespace: str
    service_account: str
    audience: str
    expiration: int
    pod_name: str
    pod_uid: str


@dataclass(frozen=True, slots=True)
class Token:
    """A token and its life (Unix seconds); `renew_at` is when a new one is due."""

    token: str
    expires_at: float
    renew_at: float


class Tokens:
    """All tokens of this node's pods."""

    def __init__(self, api: kube.API, clock: Clock, random: Callable[[], float]) -> None:
        self._api = api
        self._clock = clock
        self._random = random
        self._tokens: dict[TokenKey, Token] = {}

    async def get(self, key: TokenKey) -> Token:
        """Return a token that is valid for a while. Raises kube.errors.APIError."""
        now = self._clock.wall_ns() / NANOSECONDS
        held = self._tokens.get(key)
        if held is not None and now < held.renew_at:
            return held
        try:
            token = await self._request(key, now)
        except APIError:
            if held is not None and now < held.expires_at:
                return held
            raise
        self._tokens[key] = token
        return token

    def renew_at(self, pod_uid: str) -> float | None:
        """Return when (Unix seconds) the first token of a pod is due; None without any."""
        times = [token.renew_at for key, token in self._tokens.items() if key.pod_uid == pod_uid]
        return min(times, default=None)

    def forget(self, pod_uid: str) -> None:
        """Drop the tokens of a pod that is gone."""
        for key in [key for key in self._tokens if key.pod_uid == pod_uid]:
            del self._tokens[key]

    async def _request(self, key: TokenKey, now: float) -> Token:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {
                "audiences": [key.audience] if key.audience else [],
                "expirationSeconds": key.expiration,
                "boundObjectRef": {
                    "apiVersion": "v1",
                    "kind": "Pod",
                    "name": key.pod_name,
                    "uid": key.pod_uid,
                },
            },
        }
        path = kube.core_path(key.namespace, "serviceaccounts", key.service_account, "token")
        answer = await self._api.request("POST", path, body=body)
        try:
            text = answer["status"]["token"]
            expires = parse(answer["status"]["expirationTimestamp"]) / NANOSECONDS
        except (KeyError, TypeError, ValueError) as error:
            raise ServerError(
                f"cannot read the token of service account {key.namespace}/{key.service_account}: "
                f"the apiserver's answer has no {error}"
            ) from error
        lifetime = min((expires - now) * LIFETIME_SHARE, MAX_AGE)
        return Token(text, expires, now + lifetime - JITTER * self._random())
