"""One connection to a runtime's socket: unary calls and streams, with gRPC's errors as our own.

Owns the channel, each call's deadline, and what cancellation means. A call that creates, starts or
removes something is *shielded*: grpc.aio cancels an RPC whose awaiting task is cancelled, and the
runtime would then undo it half-way, or finish it with nobody to hear the new id. Knows nothing of
CRI's messages: `client` and the event sources are next. It runs on asyncio only, as grpc.aio does.
An idle connection sends nothing and wakes nobody up.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Protocol, Self, TypeVar

import anyio
import anyio.lowlevel
import grpc
import grpc.aio
from google.protobuf.message import Message

from minikubelet.cri.errors import (
    AlreadyExists,
    CRIError,
    DeadlineExceeded,
    NotFound,
    Unavailable,
    Unimplemented,
)

MAX_MESSAGE_BYTES = 16 << 20  # kubelet: cri-client pkg/remote_runtime.go maxMsgSize
_RECONNECT_MS = 3000
_OPTIONS = [
    # Go's servers refuse the percent-encoded path that gRPC makes of a unix socket.
    ("grpc.default_authority", "localhost"),
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 1000),
    ("grpc.max_reconnect_backoff_ms", _RECONNECT_MS),
    ("grpc.enable_http_proxy", 0),
    ("grpc.enable_retries", 0),
]
_KINDS: dict[str, type[CRIError]] = {
    "NotFound": NotFound,
    "AlreadyExists": AlreadyExists,
    "DeadlineExceeded": DeadlineExceeded,
    "Unavailable": Unavailable,
    "Unimplemented": Unimplemented,
}
# A stream's refusal arrives right after the reply to a later call, if at all.
_REFUSAL_SECONDS = 0.05

Reply = TypeVar("Reply")
Made_co = TypeVar("Made_co", covariant=True)


class ReplyType(Protocol[Made_co]):
    """A generated message class."""

    def FromString(self, data: bytes, /) -> Made_co:  # noqa: N802  protobuf's name
        """Decode one message."""


def target_of(endpoint: str) -> str:
    """Return gRPC's name of a kubelet endpoint: a path or `unix://` plus a path."""
    path = endpoint.removeprefix("unix://")
    if not path.startswith("/"):
        raise ValueError(f"cannot use {endpoint!r} as an endpoint: give unix:///path/to/the.sock")
    return f"unix://{path}"


class Connection:
    """A channel to one socket. Must be made inside a running asyncio loop."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self._channel = grpc.aio.insecure_channel(target_of(endpoint), options=_OPTIONS)
        self._methods: dict[str, Any] = {}

    async def call(
        self,
        path: str,
        request: Message,
        reply_type: ReplyType[Reply],
        *,
        timeout: float | None,
        shielded: bool = False,
    ) -> Reply:
        """Make one unary call; `timeout` in seconds, None for no limit."""
        method = self._methods.get(path)
        if method is None:
            method = self._channel.unary_unary(path, _serialize, reply_type.FromString)
            self._methods[path] = method
        with anyio.CancelScope(shield=shielded):
            try:
                reply: Reply = await method(request, timeout=timeout)
            except grpc.aio.AioRpcError as error:
                raise error_of(path, error.code().name, error.details() or "") from None
            except asyncio.CancelledError:
                await _explain_cancellation(path)
                raise
        return reply

    @asynccontextmanager
    async def stream(
        self,
        path: str,
        request: bytes,
        decode: Callable[[bytes], Reply],
        roundtrip: Callable[[], Any],
    ) -> AsyncIterator[AsyncIterator[Reply]]:
        """Open a server stream; entering returns once the server has taken the request.

        Servers written in Go send nothing before the first message, so no acknowledgement exists.
        Instead `roundtrip` makes a call on the same connection: requests are taken in order, so
        when its reply is here the stream's handler has been started, or has refused and its status
        is here, too. What remains open is the time of that handler's first lines; whoever
        subscribes lists after entering and repairs by a slow relist anyway.
        A cancelled `anext` ends the stream: read it in a task of its own.
        """
        call = self._channel.unary_stream(path, None, decode)(request)
        try:
            await roundtrip()
            with anyio.move_on_after(_REFUSAL_SECONDS):
                await _raise_status(path, call)
            yield _messages(path, call)
        except grpc.aio.AioRpcError as error:
            raise error_of(path, error.code().name, error.details() or "") from None
        finally:
            call.cancel()

    async def close(self) -> None:
        """Close the channel; calls under way are cancelled."""
        await self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with anyio.CancelScope(shield=True):
            await self.close()


def _serialize(message: Message) -> bytes:
    return message.SerializeToString()


async def _messages(path: str, call: Any) -> AsyncIterator[Any]:
    try:
        async for message in call:
            yield message
    except grpc.aio.AioRpcError as error:
        raise error_of(path, error.code().name, error.details() or "") from None
    except asyncio.CancelledError:
        await _explain_cancellation(path)
        raise


async def _explain_cancellation(path: str) -> None:
    """Raise what a CancelledError out of grpc.aio stands for, unless it is asyncio's own.

    For a cancelled scope grpc.aio raises a new one, which anyio doesn't know for its own and lets
    pass through the scope. For a channel that is closed meanwhile it raises one, too.
    """
    await anyio.lowlevel.checkpoint_if_cancelled()
    task = asyncio.current_task()
    if task is not None and not task.cancelling():
        raise error_of(path, "UNAVAILABLE", "the connection was closed")


async def _raise_status(path: str, call: Any) -> None:
    code = await call.code()  # known when the stream has ended
    if code is not grpc.StatusCode.OK:
        raise error_of(path, code.name, await call.details() or "")


def error_of(path: str, code: str, text: str) -> CRIError:
    """Return the error of a failed call; `code` is gRPC's name as in DEADLINE_EXCEEDED."""
    call = path.rpartition("/")[2]
    # Go spells this one its own way (google.golang.org/grpc/codes/code_string.go).
    name = "Canceled" if code == "CANCELLED" else code.title().replace("_", "")
    kind = _KINDS.get(name, CRIError)
    # containerd and CRI-O report a name that is taken without a code of its own.
    if kind is CRIError and "name" in text and "is reserved" in text:
        kind = AlreadyExists
    return kind(call, name, text)
