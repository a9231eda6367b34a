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
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import cast

import anyio
from aiohttp import web

from minikubelet.server import upgrade
from minikubelet.server.errors import plain_error
from minikubelet.server.upgrade import Backend, BadBackend

DIAL_SECONDS = 30.0
ANSWER_SECONDS = 30.0
"""For the head of the runtime's answer."""
REFUSAL_SECONDS = 10.0
"""For the body of an answer that refuses."""
LINGER_SECONDS = 30.0
"""For a client to take what the runtime sent before it ended."""
MAX_REFUSAL_BYTES = 1 << 20
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


class _News:
    """Wakes whoever waits for a connection to change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        await self._event.wait()


class _End(asyncio.Protocol):
    """One side of a connection being carried; until it is joined to another it collects."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.peer: _End | None = None
        self.moved_at = 0.0
        """The loop's time of the last byte."""
        self.has_ended = False
        self.news = _News()
        self.can_write = asyncio.Event()
        self.can_write.set()
        self._discards = False
        self._cut_off: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.peer is not None:
            self.moved_at = asyncio.get_running_loop().time()
            if not self.peer.transport.is_closing():
                self.peer.transport.write(data)
        elif not self._discards:
            self.received += data
            if len(self.received) > MAX_REFUSAL_BYTES:
                self.transport.pause_reading()
            self.news.tell()

    def eof_received(self) -> bool:
        """End this direction; tell asyncio whether the other may stay."""
        self.has_ended = True
        self.news.tell()
        peer = self.peer
        if (
            peer is None
            or peer.transport.is_closing()
            or not (self.transport.can_write_eof() and peer.transport.can_write_eof())
        ):
            return False
        peer.transport.write_eof()
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        del exc  # whoever waits sees that the transport is closing
        self.has_ended = True
        self.can_write.set()
        self.news.tell()
        if self._cut_off is not None:
            self._cut_off.cancel()

    def pause_writing(self) -> None:
        self.can_write.clear()
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        self.can_write.set()
        if self.peer is not None:
            self.peer.transport.resume_reading()

    def join(self, peer: "_End", news: _News) -> None:
        """Pass on what comes, from now on."""
        self.peer = peer
        self.news = news
        self.moved_at = asyncio.get_running_loop().time()

    def discard(self) -> None:
        """Throw away what comes, from now on: it has no receiver any more."""
        self.peer = None
        self._discards = True
        self.transport.resume_reading()

    def close(self) -> None:
        """Close, once what was written is delivered; who doesn't take it is cut off."""
        if self._cut_off is None and not self.transport.is_closing():
            loop = asyncio.get_running_loop()
            self._cut_off = loop.call_later(LINGER_SECONDS, self.transport.abort)
            self.transport.close()


class _Client(_End):
    """The client's side, taken over from aiohttp, which must hear of its end."""

    def __init__(self, request: web.Request, transport: asyncio.Transport) -> None:
        super().__init__()
        self.transport = transport
        self._http = request.protocol
        # What a WebSocket client sent before it was answered; later bytes come here.
        self.early = self._http._message_tail  # noqa: SLF001  aiohttp gives no other way to it
        transport.set_protocol(self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # Where the client left first, this cancels the handler.
        self._http.connection_lost(exc)


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
async def _dialled(backend: Backend) -> AsyncIterator[_End]:
    """Connect; the connection is gone afterwards. Raises BadBackend."""
    loop = asyncio.get_running_loop()
    context = ssl.create_default_context() if backend.tls else None
    try:
        with anyio.fail_after(DIAL_SECONDS):
            _, end = await loop.create_connection(_End, backend.host, backend.port, ssl=context)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer in {DIAL_SECONDS:g} s"
        raise BadBackend(f"error dialing backend: {reason}") from None
    _without_delay(end.transport)
    try:
        yield end
    finally:
        end.close()


async def _answered(runtime: _End) -> int:
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


async def _refusal(runtime: _End) -> web.Response:
    """Return the runtime's refusal as the client gets it."""
    runtime.transport.resume_reading()
    with anyio.move_on_after(REFUSAL_SECONDS):
        while not (runtime.has_ended or upgrade.is_complete(bytes(runtime.received))):
            if len(runtime.received) > MAX_REFUSAL_BYTES:
                break
            await runtime.news.wait()
    answer = http.client.HTTPResponse(cast("socket.socket", _Sock(bytes(runtime.received))))
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


async def _joined(request: web.Request, runtime: _End, idle_seconds: float) -> web.Response:
    """Join both connections and wait until one ends. A cancelled wait cuts the client off."""
    transport = request.transport
    if transport is None or transport.is_closing():
        raise ConnectionResetError("the client went away")
    client = _Client(request, transport)
    _without_delay(client.transport)
    try:
        news = _News()
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


async def _until_over(client: _End, runtime: _End, news: _News, idle_seconds: float) -> None:
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


async def _delivered(client: _End, runtime: _End) -> None:
    """Let each side take what the other sent before it ended, as far as it still listens."""
    client.discard()
    runtime.discard()
    with anyio.move_on_after(LINGER_SECONDS):
        await client.can_write.wait()


def _without_delay(transport: asyncio.BaseTransport) -> None:
    """Send small pieces at once: they are keystrokes."""
    found = transport.get_extra_info("socket")
    if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
        found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
