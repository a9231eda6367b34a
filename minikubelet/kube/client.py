"""The connection to the apiserver that the agent has: deadlines, limits, repetitions, errors.

`connect` is where kubernetes_asyncio comes in: nobody without a kubeconfig pays for it. `session`
below it knows credential and connections; `reflector` is who lists and watches with it.
"""

from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import ObjectReceiveStream

from minikubelet.host.clock import Clock, SystemClock
from minikubelet.kube import answers
from minikubelet.kube.api import JSON, REQUEST_SECONDS, Document, Pool
from minikubelet.kube.errors import (
    APIError,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from minikubelet.kube.kubeconfig import Kubeconfig
from minikubelet.kube.limiter import Limiter
from minikubelet.kube.session import Session, begin

if TYPE_CHECKING:
    import aiohttp

    from minikubelet.kube.transport import Transport

_OK = 200
_SHORTEST_WAIT = 0.1
_PRIORITY = {Pool.REST: 0, Pool.WATCH: 1}


async def connect(
    kubeconfig: Kubeconfig, *, qps: float = 50, burst: int = 100, clock: Clock | None = None
) -> "Connection":
    """Make a connection; nothing is sent yet and no exec plugin is run.

    `qps` requests a second after a burst of `burst`; 0 or less is no limit. Raises KubeconfigError
    when a file that the kubeconfig names can't be used.
    """
    session = await begin(kubeconfig, clock or SystemClock())
    return Connection(kubeconfig.server, session, Limiter(qps, burst))


class Connection:
    """Implements `kube.api.API`. Close it with `aclose`."""

    def __init__(self, server: str, session: Session, limiter: Limiter) -> None:
        self.server = server
        """The apiserver's URL."""
        self._session = session
        self._limiter = limiter

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
        """Make one request and return its document; see `kube.api.API`.

        Requests of Pool.WATCH (the reflector's lists) wait behind others for the QPS limit.
        """
        deadline = anyio.current_time() + timeout
        renewed = False
        with anyio.move_on_after(timeout):
            while True:
                if pool in _PRIORITY:
                    await self._limiter.acquire(_PRIORITY[pool])
                version = await self._session.look()
                status, headers, data = await self._session.transport.request(
                    method,
                    path,
                    query=query or {},
                    headers=self._session.headers(content_type),
                    body=body,
                    pool=pool,
                )
                try:
                    return answers.document(self.server, status, headers, data)
                except Unauthorized:
                    if renewed or not await self._session.renew(version):
                        raise
                    renewed = True
                except APIError as error:
                    wait = _asked_to_wait(error)
                    if wait is None or anyio.current_time() + wait >= deadline:
                        raise
                    await anyio.sleep(wait)
        raise self._silent(f"{method} {path}", timeout)

    def watch(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> AbstractAsyncContextManager[ObjectReceiveStream[Document]]:
        """Open one watch, outside the QPS limit as client-go's; see `kube.api.API`."""
        return self._watch(path, {**query, "watch": "true"}, timeout)

    async def server_version(self) -> Document:
        """Return the server's version.Info: major, minor, gitVersion, ..."""
        return await self.request("GET", "/version")

    async def reload(self) -> None:
        """Read the credential again and dial anew; watches and idle connections are cut at once.

        Requests under way are let finish. Raises KubeconfigError, then nothing changes.
        """
        await self._session.reload()

    async def aclose(self) -> None:
        """Close all connections, once nobody waits for an answer any more."""
        await self._session.aclose()

    @asynccontextmanager
    async def _watch(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> AsyncIterator[ObjectReceiveStream[Document]]:
        deadline = anyio.current_time() + timeout
        events = None
        with anyio.move_on_after(timeout):
            events = await self._open(path, query, deadline)
        if events is None:
            raise self._silent(f"the watch of {path}", timeout)
        try:
            yield events
        finally:
            await events.aclose()

    async def _open(self, path: str, query: Mapping[str, str], deadline: float) -> "Events":
        renewed = False
        while True:
            version = await self._session.look()
            transport = self._session.transport
            response = await transport.watch(path, query=query, headers=self._session.headers())
            if response.status == _OK:
                return Events(transport, response, deadline)
            try:
                data = await transport.rest(response)
            finally:
                transport.end(response)
            error = answers.error(response.status, response.headers, data)
            again = isinstance(error, Unauthorized) and not renewed
            if not again or not await self._session.renew(version):
                raise error
            renewed = True

    def _silent(self, what: str, timeout: float) -> Unavailable:
        return Unavailable(
            f"cannot reach the apiserver {self.server}: no answer to {what} within {timeout:g} s"
        )


class Events(ObjectReceiveStream[Document]):
    """The events of one watch, read from its response line by line."""

    def __init__(
        self, transport: "Transport", response: "aiohttp.ClientResponse", deadline: float
    ) -> None:
        self._transport = transport
        self._response = response
        self._deadline = deadline
        self._lines: deque[bytes] = deque()
        self._part = b""

    async def receive(self) -> Document:
        """Return the next event; see `kube.api.API.watch`."""
        while not self._lines:
            data = None
            with anyio.CancelScope(deadline=self._deadline):
                data = await self._transport.read(self._response)
            if data is None:
                raise Unavailable(
                    f"cannot reach the apiserver {self._transport.server}: "
                    "a watch didn't end in its time, the connection is silent"
                )
            if not data:
                raise anyio.EndOfStream
            *lines, self._part = (self._part + data).split(b"\n")
            self._lines.extend(line for line in lines if line.strip())
        return answers.decode(self._transport.server, self._lines.popleft())

    async def aclose(self) -> None:
        """Close the connection."""
        self._transport.end(self._response)


def _asked_to_wait(error: APIError) -> float | None:
    """Return the seconds after which the server wants the same request again, if it does.

    client-go: rest/with_retry.go (429 and 5xx that carry Retry-After).
    """
    again = isinstance(error, TooManyRequests | ServerError)
    if not again or error.retry_after is None:
        return None
    return max(error.retry_after, _SHORTEST_WAIT)
