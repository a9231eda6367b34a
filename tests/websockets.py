"""Exec, attach and port-forward as a WebSocket client of the kubelet speaks them (v4).

Each message is a channel's number and a piece of it. kubectl speaks SPDY instead; for whoever only
carries the bytes it is all the same.
"""

import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

V4 = "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
PIECE = 32 * 1024


@dataclass
class Channels:
    """One connection; what came is kept by channel."""

    connection: aiohttp.ClientWebSocketResponse
    received: dict[int, bytearray] = field(default_factory=dict)

    async def send(self, channel: int, data: bytes) -> None:
        for at in range(0, len(data), PIECE):
            await self.connection.send_bytes(bytes([channel]) + data[at : at + PIECE])

    async def next(self) -> tuple[int, bytes] | None:
        """The next piece, None at the end."""
        message = await self.connection.receive()
        if message.type is not aiohttp.WSMsgType.BINARY:
            return None
        channel, data = message.data[0], message.data[1:]
        self.received.setdefault(channel, bytearray()).extend(data)
        return channel, data

    async def until(self, channel: int, length: int) -> bytes:
        """Read until a channel has so many bytes."""
        while len(self.received.get(channel, b"")) < length:
            assert await self.next() is not None, f"ended early: {self.received}"
        return bytes(self.received[channel][:length])

    def drop(self) -> None:
        """Vanish, without a word of farewell."""
        found = self.connection.get_extra_info("socket")
        assert found is not None
        found.shutdown(socket.SHUT_RDWR)

    async def to_the_end(self) -> Mapping[int, bytes]:
        while await self.next() is not None:
            pass
        return {channel: bytes(data) for channel, data in self.received.items() if data}

    async def status(self) -> dict[str, Any]:
        """The Status object that ends a command."""
        found: dict[str, Any] = json.loads((await self.to_the_end())[ERROR])
        return found


@asynccontextmanager
async def channels(session: aiohttp.ClientSession, path: str) -> AsyncIterator[Channels]:
    """Open a path of the kubelet. Raises WSServerHandshakeError with the answer's status."""
    async with session.ws_connect(path, protocols=(V4,), max_msg_size=0) as connection:
        assert connection.protocol == V4
        yield Channels(connection)


def exit_code(status: Mapping[str, Any]) -> int:
    """The exit code that a Status tells."""
    if status["status"] == "Success":
        return 0
    assert status["reason"] == "NonZeroExitCode", status
    return int(status["details"]["causes"][0]["message"])
