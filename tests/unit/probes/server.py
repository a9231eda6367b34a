"""A server that is a few bytes on a socket, for tests of probers and hooks."""

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import anyio
import anyio.abc
from anyio.streams.tls import TLSListener

STAY = b"stay"
"""An answer that never comes."""


@dataclass
class Server:
    """Answers each connection with the next reply and remembers what it was asked."""

    port: int
    replies: list[bytes]
    asked: list[bytes] = field(default_factory=list)
    was_asked: anyio.Event = field(default_factory=anyio.Event)

    async def handle(self, stream: anyio.abc.ByteStream) -> None:
        async with stream:
            request = b""
            with suppress(anyio.EndOfStream):
                request = await stream.receive()
            self.asked.append(request)
            self.was_asked.set()
            if not request:
                return
            reply = self.replies.pop(0)
            await stream.send(reply.removesuffix(STAY))
            if reply.endswith(STAY):
                await anyio.sleep_forever()


@asynccontextmanager
async def serving(*replies: bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)  # noqa: S610  not Django's
        server = Server(port, list(replies))
        async with anyio.create_task_group() as group:
            serve = TLSListener(listener, tls, standard_compatible=False) if tls else listener
            group.start_soon(serve.serve, server.handle)
            yield server
            group.cancel_scope.cancel()


async def free_port() -> int:
    """Return a port that nobody listens on."""
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        return int(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610  not Django's
