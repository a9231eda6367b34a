"""The two sides of a connection that is carried: asyncio protocols that feed each other.

Reading stops on one side while the other can't take more. What one side sends before it ends is
delivered to the other. Who comes next: `relay` joins them and waits for their end.
"""

import asyncio
import socket
from typing import cast

from aiohttp import web

LINGER_SECONDS = 30.0
"""For a client to take what the runtime sent before it ended."""
MAX_REFUSAL_BYTES = 1 << 20


class News:
    """Wakes whoever waits for a connection to change."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def tell(self) -> None:
        """Wake them."""
        self._event.set()
        self._event = asyncio.Event()

    async def wait(self) -> None:
        """Wait for the next change."""
        await self._event.wait()


class End(asyncio.Protocol):
    """One side of a connection being carried; until it is joined to another it collects."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self.received = bytearray()
        self.peer: End | None = None
        self.moved_at = 0.0
        """The loop's time of the last byte."""
        self.has_ended = False
        self.news = News()
        self.can_write = asyncio.Event()
        self.can_write.set()
        self._discards = False
        self._cut_off: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Pass on what came, or collect it."""
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
        """Note the end."""
        del exc  # whoever waits sees that the transport is closing
        self.has_ended = True
        self.can_write.set()
        self.news.tell()
        if self._cut_off is not None:
            self._cut_off.cancel()

    def pause_writing(self) -> None:
        """Take no more from the other side."""
        self.can_write.clear()
        if self.peer is not None:
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        """Go on."""
        self.can_write.set()
        if self.peer is not None:
            self.peer.transport.resume_reading()

    def join(self, peer: "End", news: News) -> None:
        """Pass on what comes, from now on."""
        self.peer = peer
        self.news = news
        self.moved_at = asyncio.get_running_loop().time()

    def discard(self) -> None:
        """Throw away what comes, from now on: it has no receiver any more."""
        self.peer = None
        self._discards = True
        self.transport.resume_reading()

    def send_at_once(self) -> None:
        """Let small pieces not wait for more: they are keystrokes."""
        found = self.transport.get_extra_info("socket")
        if found is not None and found.family in (socket.AF_INET, socket.AF_INET6):
            found.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def close(self) -> None:
        """Close, once what was written is delivered; who doesn't take it is cut off."""
        if self._cut_off is None and not self.transport.is_closing():
            loop = asyncio.get_running_loop()
            self._cut_off = loop.call_later(LINGER_SECONDS, self.transport.abort)
            self.transport.close()


class Client(End):
    """The client's side, taken over from aiohttp, which must hear of its end."""

    def __init__(self, request: web.Request, transport: asyncio.Transport) -> None:
        super().__init__()
        self.transport = transport
        self._http = request.protocol
        # What a WebSocket client sent before it was answered; later bytes come here.
        self.early = self._http._message_tail  # noqa: SLF001  aiohttp gives no other way to it
        transport.set_protocol(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell aiohttp, too."""
        super().connection_lost(exc)
        # Where the client left first, this cancels the handler.
        self._http.connection_lost(exc)
