"""Carries an upgraded connection to the runtime's streaming server: raw bytes both ways.

The runtime is asked first, while HTTP still holds the client's connection, so that a refusal is an
ordinary answer. Once it has answered 101 this relay takes the connection over from aiohttp (which
knows no upgrade but WebSocket) and passes every byte on, SPDY or WebSocket alike. Reading stops on
one side while the other can't take more. When one side ends, what is on its way is delivered and
both end; where a transport has half-closes (TLS has none in asyncio) the other direction goes on.
A client that vanishes ends the handler and the runtime's connection with it.

It is asyncio's own protocols, not anyio's streams: the client's transport is aiohttp's.
Source: apimachinery pkg/util/proxy/upgradeaware.go.
"""

import asyncio
import http.client
import io
import math
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import anyio
from aiohttp import web

from minikubelet.server import upgrade
from minikubelet.server.ends import LINGER_SECONDS, MAX_REFUSAL_BYTES, Client, End, News
from minikubelet.server.errors import plain_error
from minikubelet.server.upgrade import Backend, BadBackend

DIAL_SECONDS = 30.0
ANSWER_SECONDS = 30.0
"""For the head of the runtime's answer."""
REFUSAL_SECONDS = 10.0
"""For the body of an answer that refuses."""
_HOP_BY_HOP = frozenset({"connection", "transfer-encoding", "content-length", "keep-alive"})


async def relay(request: web.Request, url: str, idle_seconds: float) -> web.StreamResponse:
    """Carry one request to a URL of CRI until it ends; `idle_seconds` without a byte end it, too.

    0 means no such limit.
    """
    if not upgrade.is_upgrade(request.raw_headers):
        return plain_error("Upgrade request required\n", 500)
    if request.can_read_body:
        return plain_error("cannot upgrade a request that has a body\n", 400)
    try:
        backend = upgrade.backend_of(url)
        async with _dialled(backend) as runtime:
            peer = request.remote or ""
            head = upgrade.request_head(request.method, backend.target, request.raw_headers, peer)
            runtime.transport.write(head)
            status = await _answered(runtime)
            if status == upgrade.SWITCHING_PROTOCOLS:
                return await _joined(request, runtime, idle_seconds)
            return await _refusal(runtime)
    except BadBackend as error:
        return plain_error(f"{error}\n", 500)


class _Taken(web.Response):
    """What a handler returns for a connection that aiohttp no longer has."""

    def __init__(self) -> None:
        super().__init__(status=upgrade.SWITCHING_PROTOCOLS)
        self.force_close()

    async def prepare(self, request: web.BaseRequest) -> None:
        """Write nothing: the runtime's answer was passed on as it was."""

    async def write_eof(self, data: bytes = b"") -> None:
        """Write nothing."""


@asynccontextmanager
async def _dialled(backend: Backend) -> AsyncIterator[End]:
    """Connect; the connection is gone afterwards. Raises BadBackend."""
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context() if backend.tls else None
    try:
        with anyio.fail_after(DIAL_SECONDS):
            _, end = await loop.create_connection(End, backend.host, backend.port, ssl=context)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer in {DIAL_SECONDS:g} s"
        raise BadBackend(f"error dialing backend: {reason}") from None
    end.send_at_once()
    try:
        yield end
    finally:
        end.close()


async def _answered(runtime: End) -> int:
    """Wait for the head of the runtime's answer; return its status. Raises BadBackend."""
    with anyio.move_on_after(ANSWER_SECONDS):
        while upgrade.END_OF_HEAD not in runtime.received:
            if runtime.has_ended:
                raise BadBackend("unexpected EOF")
            if len(runtime.received) > upgrade.MAX_HEAD_BYTES:
                raise BadBackend("the runtime's answer has too long a head")
            await runtime.news.wait()
        # Nothing more is collected than what came with the head.
        runtime.transport.pause_reading()
        status = upgrade.status_of(bytes(runtime.received))
        if upgrade.SWITCHING_PROTOCOLS != status < upgrade.FIRST_ERROR:
            raise BadBackend(f"invalid upgrade response: status code {status}")
        return status
    raise BadBackend(f"the runtime's streaming server gave no answer in {ANSWER_SECONDS:g} s")


async def _refusal(runtime: End) -> web.Response:
    """Return the runtime's refusal as the client gets it."""
    runtime.transport.resume_reading()
    with anyio.move_on_after(REFUSAL_SECONDS):
        while not (runtime.has_ended or upgrade.is_complete(bytes(runtime.received))):
            if len(runtime.received) > MAX_REFUSAL_BYTES:
                break
            await runtime.news.wait()
    answer = http.client.HTTPResponse(cast("Any", _Sock(bytes(runtime.received))))
    try:
        answer.begin()
        body = answer.read()
    except http.client.IncompleteRead as error:
        body = error.partial
    except http.client.HTTPException as error:
        raise BadBackend(f"malformed HTTP response: {error!r}") from None
    headers = [each for each in answer.getheaders() if each[0].lower() not in _HOP_BY_HOP]
    response = web.Response(status=answer.status, reason=answer.reason, body=body)
    response.headers.clear()
    response.headers.extend(headers)
    response.force_close()
    return response


class _Sock:
    """Bytes that the standard library's parser takes for a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        del mode
        return io.BytesIO(self._data)


async def _joined(request: web.Request, runtime: End, idle_seconds: float) -> web.Response:
    """Join both connections and wait until one ends. A cancelled wait cuts the client off."""
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client went away")
    client = Client(request, transport)
    client.send_at_once()
    try:
        news = News()
        client.join(runtime, news)
        runtime.join(client, news)
        client.transport.write(bytes(runtime.received))
        if client.early:
            runtime.transport.write(client.early)
        runtime.transport.resume_reading()
        client.transport.resume_reading()
        await _until_over(client, runtime, news, idle_seconds)
        await _delivered(client, runtime)
        client.close()
    except BaseException:
        client.transport.abort()
        raise
    return _Taken()


async def _until_over(client: End, runtime: End, news: News, idle_seconds: float) -> None:
    """Wait until both directions have ended, a connection is lost, or nothing moves any more."""
    loop = asyncio.get_running_loop()
    while not (
        client.transport.is_closing()
        or runtime.transport.is_closing()
        or (client.has_ended and runtime.has_ended)
    ):
        idle_since = max(client.moved_at, runtime.moved_at)
        left = idle_since + idle_seconds - loop.time() if idle_seconds else math.inf
        if left <= 0:
            return
        with anyio.move_on_after(left):
            await news.wait()


async def _delivered(client: End, runtime: End) -> None:
    """Let each side take what the other sent before it ended, as far as it still listens."""
    client.discard()
    runtime.discard()
    with anyio.move_on_after(LINGER_SECONDS):
        await client.can_write.wait()
