"""The apiserver's API before there is a credential for it: requests wait, then go on as usual.

Everything that speaks to the apiserver is built at start, whether or not the node has its first
certificate yet. Until then a request waits within its own time limit and fails as if the server
were away; whoever made it is used to that and tries again.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream

from minikubelet.kube.api import JSON, REQUEST_SECONDS, Document, Pool
from minikubelet.kube.client import Connection
from minikubelet.kube.errors import Unavailable


class LateAPI:
    """Implements `kube.api.API` over a connection that comes later, and may be exchanged."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self._there = anyio.Event()

    async def use(self, connection: Connection) -> None:
        """Speak over this one from now on; an earlier one is closed."""
        old, self.connection = self.connection, connection
        self._there.set()
        if old is not None:
            await old.aclose()

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
        """Make one request; see `kube.api.API`."""
        connection, left = await self._within(timeout)
        return await connection.request(
            method,
            path,
            body=body,
            query=query,
            content_type=content_type,
            pool=pool,
            timeout=left,
        )

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> AsyncIterator[ObjectReceiveStream[Document]]:
        """Open one watch; see `kube.api.API`."""
        connection, left = await self._within(timeout)
        async with connection.watch(path, query, left) as events:
            yield events

    async def _within(self, timeout: float) -> tuple[Connection, float]:
        """Return the connection and the seconds that are left. Raises Unavailable."""
        deadline = anyio.current_time() + timeout
        with anyio.move_on_after(timeout):
            await self._there.wait()
        connection = self.connection
        if connection is None:
            raise Unavailable("cannot reach the apiserver: the node has no client certificate yet")
        return connection, deadline - anyio.current_time()
