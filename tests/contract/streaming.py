"""A streaming server for the in-memory runtime: takes its tickets, speaks WebSocket v4.

It does what the programs of the contract do: a command's planned output, `head -c N` as an echo,
ports that echo or refuse.
"""

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from aiohttp import WSMsgType, web

from minikubelet.cri.fake import Exec, FakeRuntime
from minikubelet.cri.fake_script import Ticket
from tests.websockets import ERROR, STDERR, STDIN, STDOUT, V4

ECHO_PORT, CLOSED_PORT = 8080, 9001
TICK = "while :; do echo tick; sleep 0.1; done"


@asynccontextmanager
async def streaming(fake: FakeRuntime) -> AsyncIterator[None]:
    """Serve the fake's tickets."""

    async def handle(request: web.Request) -> web.StreamResponse:
        ticket = fake.take_ticket(request.path)
        if ticket is None:
            raise web.HTTPNotFound
        socket = web.WebSocketResponse(protocols=(V4,), max_msg_size=0)
        await socket.prepare(request)
        await socket.send_bytes(bytes([STDOUT]))
        await _talk(fake, ticket, socket)
        await socket.close()
        return socket

    app = web.Application()
    app.router.add_route("*", "/{kind}/{token}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.5)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        fake.streaming_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield
    finally:
        await runner.cleanup()


async def _talk(fake: FakeRuntime, ticket: Ticket, socket: web.WebSocketResponse) -> None:
    if ticket.kind == "portforward":
        await _forward(ticket.ports, socket)
    elif ticket.kind == "attach":
        while not socket.closed:
            await socket.send_bytes(bytes([STDOUT]) + b"tick\n")
            await socket.receive()
    elif ticket.command[-1].startswith("head -c "):
        await _echo(int(ticket.command[-1].split()[-1]), socket)
        await _exit(0, socket)
    elif ticket.config is not None:
        result = fake.on_exec(ticket.config, list(ticket.command))
        assert isinstance(result, Exec)
        await socket.send_bytes(bytes([STDOUT]) + result.stdout)
        await socket.send_bytes(bytes([STDERR]) + result.stderr)
        await _exit(result.exit_code, socket)


async def _echo(length: int, socket: web.WebSocketResponse) -> None:
    while length > 0:
        message = await socket.receive()
        if message.type is not WSMsgType.BINARY:
            return
        if message.data[0] == STDIN:
            data = message.data[1:][:length]
            length -= len(data)
            await socket.send_bytes(bytes([STDOUT]) + data)


async def _exit(code: int, socket: web.WebSocketResponse) -> None:
    status: dict[str, object] = {"metadata": {}, "status": "Success"}
    if code:
        cause = {"reason": "ExitCode", "message": str(code)}
        status = {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": [cause]}}
    await socket.send_bytes(bytes([ERROR]) + json.dumps(status).encode())


async def _forward(ports: Sequence[int], socket: web.WebSocketResponse) -> None:
    for index, port in enumerate(ports):
        for channel in (2 * index, 2 * index + 1):
            await socket.send_bytes(bytes([channel]) + port.to_bytes(2, "little"))
        if port == CLOSED_PORT:
            await socket.send_bytes(bytes([2 * index + 1]) + b"connection refused")
    async for message in socket:
        if message.type is WSMsgType.BINARY and len(message.data) > 1:
            await socket.send_bytes(message.data)
