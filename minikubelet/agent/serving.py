"""The node's own port, built from the configuration: certificate, who may use it, what it serves.

Makes the two questions that the server has for the apiserver (whose token, may they) out of the
API's Protocol. Knows nothing of pods: `Callables` come from whoever owns them.
"""

import functools
import random
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus

from minikubelet.config.config import Config
from minikubelet.config.server import ServerConfig
from minikubelet.kube.api import API
from minikubelet.kube.errors import APIError, ServerError, TooManyRequests, Unavailable
from minikubelet.server.authn import Authenticator, ReviewFailed, TokenReview, User, user_of_review
from minikubelet.server.authz import Attributes, Review, allow_all, remembering
from minikubelet.server.callables import Callables
from minikubelet.server.http import serve_tls
from minikubelet.server.listen import CannotListen
from minikubelet.server.node_api import Access, node_api
from minikubelet.server.tls import CurrentKeyPair, KeyPair, ServingTLS, kept_pair

TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105  a path
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
REVIEW_SECONDS = 10.0
FIRST_PAUSE, FACTOR, JITTER, TRIES = 0.5, 1.5, 0.2, 5
"""apiserver pkg/server/options/authentication.go DefaultAuthWebhookRetryBackoff."""

T = TypeVar("T")


async def serve_node_api(
    config: Config,
    settings: ServerConfig,
    callables: Callables,
    api: API | None,
    addresses: Sequence[str],
    key_pair: CurrentKeyPair | None = None,
    *,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve the port until cancelled; `started` tells its number. Raises CannotListen.

    `key_pair` gives a serving certificate that comes from elsewhere and may change; without it the
    configured files count, or a self-signed pair that is made once.
    """
    tls = await serving_tls(config, settings, addresses, key_pair)
    access = Access(
        node=config.node_name,
        authenticator=Authenticator(
            token_review(api) if api is not None and settings.token_webhook else None,
            anonymous=settings.anonymous,
            ttl=settings.token_ttl,
        ),
        review=_review(api, settings),
        tls=tls,
    )
    app = node_api(
        callables,
        access,
        idle_seconds=settings.streaming_idle_timeout,
        debugging=settings.debugging_handlers,
    )
    await serve_tls(app, settings.address, settings.port, tls.context(), task_status=task_status)


async def serving_tls(
    config: Config,
    settings: ServerConfig,
    addresses: Sequence[str],
    key_pair: CurrentKeyPair | None = None,
) -> ServingTLS:
    """Return the TLS of the port, its files loaded once. Raises CannotListen."""
    try:
        if key_pair is None:
            pair = await anyio.to_thread.run_sync(_own_pair, config, settings, addresses)
            key_pair = functools.partial(_always, pair)
        tls = ServingTLS(
            key_pair,
            client_ca_file=settings.client_ca_file,
            min_version=settings.min_version,
            ciphers=settings.ciphers,
        )
        await anyio.to_thread.run_sync(tls.check)
    except (OSError, ValueError) as error:
        raise CannotListen(
            f"cannot serve the kubelet API: {error}; check tlsCertFile, tlsPrivateKeyFile, "
            f"authentication.x509.clientCAFile and {config.cert_dir}"
        ) from error
    return tls


def _own_pair(config: Config, settings: ServerConfig, addresses: Sequence[str]) -> KeyPair:
    if settings.cert_file:
        for path in (settings.cert_file, settings.key_file):
            Path(path).open("rb").close()  # the error names the file, ssl's doesn't
        return KeyPair(settings.cert_file, settings.key_file)
    kept = kept_pair(config.cert_dir)
    if kept is not None:
        return kept
    # Making one costs 9 MiB until the next start.
    from minikubelet.server.self_signed import make_self_signed  # noqa: PLC0415

    return make_self_signed(config.cert_dir, config.node_name, addresses)


def _always(pair: KeyPair) -> KeyPair:
    return pair


def _review(api: API | None, settings: ServerConfig) -> Review:
    if not settings.authorization_webhook:
        return allow_all
    if api is None:
        raise CannotListen(
            "cannot serve the kubelet API: authorization.mode is Webhook and there is no apiserver "
            "to ask; give a --kubeconfig"
        )
    return remembering(access_review(api), settings.authorized_ttl, settings.unauthorized_ttl)


def token_review(api: API) -> TokenReview:
    """Return a question to the apiserver: whose token is it."""

    async def ask(token: str) -> User | None:
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "metadata": {},
            "spec": {"token": token},
        }
        reply = await _asked(
            lambda: api.request("POST", TOKEN_REVIEWS, body=body, timeout=REVIEW_SECONDS)
        )
        return user_of_review(reply.get("status") or {})

    return ask


def access_review(api: API) -> Review:
    """Return a question to the apiserver: may they."""

    async def ask(attributes: Attributes) -> bool:
        body = access_review_document(attributes)
        reply = await _asked(
            lambda: api.request("POST", ACCESS_REVIEWS, body=body, timeout=REVIEW_SECONDS)
        )
        return bool((reply.get("status") or {}).get("allowed"))

    return ask


def access_review_document(attributes: Attributes) -> dict[str, Any]:
    """Return the SubjectAccessReview of a question. Pure."""
    user = attributes.user
    spec: dict[str, Any] = {
        "user": user.name,
        "groups": list(user.groups),
        "resourceAttributes": {
            "verb": attributes.verb,
            "version": "v1",
            "resource": "nodes",
            "subresource": attributes.subresource,
            "name": attributes.node,
        },
    }
    if user.uid:
        spec["uid"] = user.uid
    if user.extra:
        spec["extra"] = {name: list(values) for name, values in user.extra}
    return {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "metadata": {},
        "spec": spec,
    }


async def _asked(ask: Callable[[], Awaitable[T]]) -> T:
    """Ask, again if the apiserver is away for a moment. Raises ReviewFailed."""
    pause = FIRST_PAUSE
    for attempt in range(1, TRIES + 1):
        try:
            return await ask()
        except (Unavailable, ServerError, TooManyRequests) as error:
            if attempt == TRIES:
                raise ReviewFailed(str(error)) from error
        except APIError as error:
            raise ReviewFailed(str(error)) from error
        await anyio.sleep(pause * (1 + JITTER * random.random()))  # noqa: S311  spreads retries
        pause *= FACTOR
    raise AssertionError  # unreachable: the last attempt returns or raises
