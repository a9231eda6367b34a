"""One HTTP/1.1 GET on a connection of its own, as steps; plain or in TLS that verifies nothing.

Raises OSError with Go's words, `PlainAnswerError` when plain text answered a TLS greeting,
`CutBody` when an answer broke off behind its head. Who calls bounds the time.
"""

import ssl
from collections.abc import Callable, Sequence
from functools import cache
from socket import socket
from typing import Protocol, TypeVar

from minikubelet.probes import sockets
from minikubelet.probes.reply import Reader, Reply
from minikubelet.probes.request import HTTPRequest

_PLAIN_ANSWERS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"}
)
"""OpenSSL's reasons when plain text answers a TLS greeting."""

_T = TypeVar("_T")


class PlainAnswerError(OSError):
    """Raised when a server answered an HTTPS request in plain HTTP."""

    def __init__(self) -> None:
        super().__init__("http: server gave HTTP response to HTTPS client")


async def exchange(
    request: HTTPRequest, encoded: bytes, addresses: Sequence[str], reader: Reader
) -> Reply:
    """Send a request's bytes to one of the addresses and return the reply, read by `reader`.

    Raises OSError, CutBody.
    """
    connected = await sockets.connect(addresses, request.port)
    try:
        if request.scheme == "https":
            return await _converse(_TLS(connected, request.host), encoded, reader)
        return await _converse(_Plain(connected), encoded, reader)
    except EOFError as error:
        raise OSError(str(error)) from error
    except OSError as error:
        if error.errno is None or isinstance(error, ssl.SSLError):
            raise
        # Without the local port: the same trouble is the same event each time.
        text = f"read tcp {request.authority}: {sockets.words(error.errno)}"
        raise OSError(text) from error
    finally:
        connected.close()


async def _converse(stream: "_Stream", encoded: bytes, reader: Reader) -> Reply:
    await stream.send(encoded)
    while (reply := reader.feed(await stream.receive())) is None:
        pass
    return reply


class _Stream(Protocol):
    async def send(self, data: bytes) -> None: ...

    async def receive(self) -> bytes: ...


class _Plain:
    def __init__(self, connected: socket) -> None:
        self._socket = connected

    async def send(self, data: bytes) -> None:
        await sockets.send(self._socket, data)

    async def receive(self) -> bytes:
        return await sockets.receive(self._socket)


class _TLS:
    """OpenSSL between memory and the socket; the handshake comes with the first bytes."""

    def __init__(self, connected: socket, host: str) -> None:
        self._socket = connected
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._session = _context().wrap_bio(self._incoming, self._outgoing, server_hostname=host)

    async def send(self, data: bytes) -> None:
        await self._until_done(self._session.do_handshake)
        await self._until_done(lambda: self._session.write(data))

    async def receive(self) -> bytes:
        try:
            return await self._until_done(lambda: self._session.read(16384))
        except EOFError:
            return b""

    async def _until_done(self, call: Callable[[], _T]) -> _T:
        while True:
            try:
                result = call()
            except ssl.SSLWantReadError:
                await self._flush()
                await self._fill()
            except (ssl.SSLZeroReturnError, ssl.SSLEOFError):
                raise EOFError("EOF") from None
            except ssl.SSLError as error:
                if error.reason in _PLAIN_ANSWERS:
                    raise PlainAnswerError from error
                raise OSError(f"remote error: tls: {error.reason or error}") from error
            else:
                await self._flush()
                return result

    async def _fill(self) -> None:
        data = await sockets.receive(self._socket)
        if data:
            self._incoming.write(data)
        else:
            self._incoming.write_eof()

    async def _flush(self) -> None:
        if self._outgoing.pending:
            await sockets.send(self._socket, self._outgoing.read())


@cache
def _context() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
