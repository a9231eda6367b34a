"""HTTP to the apiserver: kubernetes_asyncio's transport over connections of our own making.

The only module that uses kubernetes_asyncio, so it is itself imported late, by `client.connect`.
One `Transport` is one identity's connections: three pools, so that no kind of traffic waits for
another. A new identity gets a new Transport and the old one retires: watches and idle connections
go at once, requests under way are let finish.
"""

import asyncio
import socket
import ssl
import urllib.request
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import aiohttp

from minikubelet import __version__
from minikubelet.kube import library
from minikubelet.kube.api import Pool
from minikubelet.kube.errors import Unavailable
from minikubelet.kube.kubeconfig import Kubeconfig

if TYPE_CHECKING:
    from kubernetes_asyncio.client import ApiClient, Configuration
    from kubernetes_asyncio.client.rest import RESTClientObject
else:
    ApiClient = library.load("api_client").ApiClient
    Configuration = library.load("configuration").Configuration
    RESTClientObject = library.load("rest").RESTClientObject

USER_AGENT = f"minikubelet/{__version__}"

_LIMITS = {Pool.REST: 32, Pool.HEARTBEAT: 4, Pool.WATCH: 0}
"""Connections at most; 0 is no limit."""
_CONNECT_SECONDS = 10.0
_IDLE_SECONDS = 30.0
"""Less than the 90 s after which Go's server closes: a request never meets a closing connection."""
_BUFFER_BYTES = 1 << 18
_TIMEOUT = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS)
_FAILURES = (aiohttp.ClientError, OSError, asyncio.TimeoutError)


class _Rest(RESTClientObject):
    """The library's own, on a session that is given; it would make one with fewer settings."""

    def __init__(self, session: aiohttp.ClientSession, server_hostname: str, proxy: str) -> None:
        self.pool_manager = session
        self.server_hostname = server_hostname
        self.proxy = proxy
        self.proxy_headers: dict[str, str] = {}


class _Client(ApiClient):
    """The library's own, on a given `_Rest`: it would read the system's certificates each time."""

    def __init__(self, configuration: Any, rest: _Rest) -> None:
        self.configuration = configuration
        self.rest_client = rest
        self.default_headers = {"User-Agent": USER_AGENT}
        self.cookie = ""
        self.client_side_validation = False

    def sanitize_for_serialization(self, obj: Any) -> Any:
        """Return what is given: documents are plain JSON, not the library's models."""
        return obj


class Transport:
    """The connections of one identity. Made on the event loop."""

    def __init__(self, kubeconfig: Kubeconfig, tls: ssl.SSLContext | None) -> None:
        self.server = kubeconfig.server
        self._kubeconfig = kubeconfig
        configuration: Any = Configuration(host=kubeconfig.server)
        name = kubeconfig.tls_server_name
        proxy = kubeconfig.proxy_url or _proxy(kubeconfig.server)
        self._clients: dict[Pool, Any] = {
            pool: _Client(configuration, _Rest(_session(limit, tls), name, proxy))
            for pool, limit in _LIMITS.items()
        }
        self._watches: set[aiohttp.ClientResponse] = set()
        self._running = 0
        self._retired = False

    def again(self, tls: ssl.SSLContext | None) -> "Transport":
        """Return another one to the same server, for another identity."""
        return Transport(self._kubeconfig, tls)

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: Any,
        pool: Pool,
    ) -> tuple[int, Mapping[str, str], bytes]:
        """Return status, headers and body. Raises Unavailable; the deadline is the caller's."""
        self._running += 1
        try:
            response = await self._open(
                method, path, query=query, headers=headers, body=body, pool=pool
            )
            return response.status, response.headers, await self.rest(response)
        finally:
            self._running -= 1
            if self._retired and not self._running:
                await self._close()

    async def _open(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: Any = None,
        pool: Pool,
    ) -> aiohttp.ClientResponse:
        """Return an answer whose body is still to be read, or closed. Raises Unavailable."""
        try:
            response: aiohttp.ClientResponse = await self._clients[pool].call_api(
                path,
                method,
                query_params=list(query.items()),
                header_params=dict(headers),
                body=body,
                _preload_content=False,
                _request_timeout=_TIMEOUT,
            )
        except _FAILURES as error:
            raise self._unavailable(error) from error
        return response

    async def rest(self, response: aiohttp.ClientResponse) -> bytes:
        """Return the whole body; the connection is free then. Raises Unavailable."""
        # Leaving gives back a connection that was read to the end and closes any other.
        try:
            async with response:
                return await response.read()
        except _FAILURES as error:
            raise self._unavailable(error) from error

    async def watch(
        self, path: str, *, query: Mapping[str, str], headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        """Open a watch, to be given back with `end`. Raises Unavailable."""
        response = await self._open("GET", path, query=query, headers=headers, pool=Pool.WATCH)
        self._watches.add(response)
        if self._retired:
            self.end(response)
        return response

    def end(self, response: aiohttp.ClientResponse) -> None:
        """Close a watch's connection; who is reading from it gets Unavailable."""
        self._watches.discard(response)
        # A polite end of TLS would wait up to 30 s for a peer that may be gone.
        if response.connection is not None and response.connection.transport is not None:
            response.connection.transport.abort()
        response.close()

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """Return what comes next of a watch, empty at its end. Raises Unavailable."""
        try:
            return await response.content.readany()
        except _FAILURES as error:
            raise self._unavailable(error) from error

    async def retire(self) -> None:
        """Close the watches now, and the rest with the last request under way."""
        self._retired = True
        # Closing a session alone would leave their readers waiting for ever.
        for response in list(self._watches):
            self.end(response)
        if not self._running:
            await self._close()

    def _unavailable(self, error: Exception) -> Unavailable:
        why = str(error) or type(error).__name__
        return Unavailable(f"cannot reach the apiserver {self.server}: {why}")

    async def _close(self) -> None:
        for client in self._clients.values():
            await client.rest_client.pool_manager.close()


def _session(limit: int, tls: ssl.SSLContext | None) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(
        limit=limit,
        ssl=True if tls is None else tls,
        keepalive_timeout=_IDLE_SECONDS,
        socket_factory=_socket,
    )
    return aiohttp.ClientSession(connector=connector, read_bufsize=_BUFFER_BYTES)


def _socket(address: Any) -> socket.socket:
    """Make a socket whose dead peer is noticed: idle within 30 s, unacknowledged within 20 s."""
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    made.setblocking(False)  # noqa: FBT003  the standard library's own
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 15)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 20_000)
    return made


def _proxy(server: str) -> str:
    """Return the proxy that the environment names for the server, as Go reads it."""
    parts = urlsplit(server)
    proxies = urllib.request.getproxies_environment()
    if urllib.request.proxy_bypass(parts.netloc):
        return ""
    return proxies.get(parts.scheme, "")
