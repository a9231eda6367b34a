"""What every room above knows of the apiserver: one Protocol, its pools, paths and content types.

Documents are plain JSON values, as the server sent them. Errors are those of `kube.errors`.
"""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from enum import Enum
from typing import Any, Protocol

from anyio.abc import ObjectReceiveStream

Document = dict[str, Any]

JSON = "application/json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
MERGE_PATCH = "application/merge-patch+json"
REQUEST_SECONDS = 30.0


class Pool(Enum):
    """Connections kept apart, so that no kind of traffic waits for another."""

    REST = "rest"
    HEARTBEAT = "heartbeat"
    """Node status and lease: outside the QPS limit."""
    WATCH = "watch"
    """As many connections as needed; its lists wait behind REST for the QPS limit."""


class API(Protocol):
    """An apiserver."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        pool: Pool = Pool.REST,
        timeout: float = REQUEST_SECONDS,
    ) -> Document:
        """Make one request and return its document. Raises kube.errors.APIError.

        `timeout` is in seconds and covers the wait for the QPS limit, too. A 429 with Retry-After
        is waited for within it.
        """

    def watch(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> AbstractAsyncContextManager[ObjectReceiveStream[Document]]:
        """Open one watch; receive its events ({type, object}) until the server ends it.

        `watch=true` is added to the query. Entering raises kube.errors.APIError; the stream ends
        (EndOfStream) when the server closes the response, and raises APIError (Unavailable) when
        the connection breaks or when `timeout` seconds have passed without an end.
        """


def pods_path(namespace: str = "", name: str = "", subresource: str = "") -> str:
    """Return the path of all pods, or of one pod or its subresource."""
    if not namespace:
        return "/api/v1/pods"
    return _core(namespace, "pods", name, subresource)


def core_path(namespace: str, plural: str, name: str = "", subresource: str = "") -> str:
    """Return the path of objects of the core group, as in `core_path("default", "secrets")`."""
    return _core(namespace, plural, name, subresource)


def _core(namespace: str, plural: str, name: str, subresource: str) -> str:
    parts = ["/api/v1/namespaces", namespace, plural, name, subresource]
    return "/".join(part for part in parts if part)


def node_path(name: str = "", subresource: str = "") -> str:
    """Return the path of all nodes, or of one node or its subresource."""
    return "/".join(part for part in ("/api/v1/nodes", name, subresource) if part)
