"""The HTTP server: routes, listeners, start and stop. Endpoints stand in their own files.

A client that goes away cancels its handler at once; so does the agent's end, since a follower of a
log would hold it for ever. What a handler didn't expect is logged and answered with status 500.
"""

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware
from anyio.abc import TaskStatus

from minikubelet.server.callables import Callables
from minikubelet.server.container_logs import container_logs
from minikubelet.server.doors import HANDSHAKE_SECONDS, KEEP_ALIVE_SECONDS, SILENT_SECONDS, Doors
from minikubelet.server.healthz import healthz
from minikubelet.server.listen import private_listener, tcp_listener
from minikubelet.server.manifests import manifests
from minikubelet.server.pods import pods

SHUTDOWN_SECONDS = 2.0
_GRACE_SECONDS = 0.5
"""How long aiohttp waits for a handler, three times over: together less than SHUTDOWN_SECONDS."""

_log = structlog.get_logger("server")
_clients = logging.getLogger("minikubelet.clients")
"""What aiohttp says of requests that are none: anybody could fill the log with that."""
_clients.setLevel(logging.CRITICAL)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Scopes(set[anyio.CancelScope]):
    """Scopes of the requests that are being answered."""


_OPEN = web.AppKey("open", _Scopes)
_DOORS = web.AppKey("doors", Doors)


def local_api(callables: Callables) -> web.Application:
    """Return the API of the unix socket."""
    app = application()
    app.router.add_get("/healthz", healthz(callables))
    app.router.add_get("/pods", pods(callables))
    app.router.add_get("/manifests", manifests(callables))
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", container_logs(callables))
    return app


def health_api(callables: Callables) -> web.Application:
    """Return what answers on the loopback port."""
    app = application()
    app.router.add_get("/healthz", healthz(callables))
    return app


async def serve_socket(
    app: web.Application, path: Path, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Serve on a unix socket that only its owner may open, until cancelled. Raises CannotListen."""
    with private_listener(path) as listener:
        runner = await _runner(app)
        await web.SockSite(runner, listener).start()
        await _until_cancelled(runner, task_status)


async def serve_port(
    app: web.Application,
    host: str,
    port: int,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on a TCP port until cancelled; a port that is taken is told and does without."""
    runner = await _runner(app)
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        _log.warning("cannot serve healthz, the agent goes on without", error=str(error))
        await runner.cleanup()
        task_status.started()
        return
    await _until_cancelled(runner, task_status)


def application(*middlewares: Middleware) -> web.Application:
    """Return an application without routes; its requests end with the agent."""
    app = web.Application(middlewares=[_guarded, *middlewares])
    app[_OPEN] = _Scopes()
    app[_DOORS] = Doors()
    app.on_shutdown.append(_cancel_open)
    return app


async def serve_tls(
    app: web.Application,
    host: str,
    port: int,
    context: ssl.SSLContext,
    *,
    silent_seconds: float = SILENT_SECONDS,
    task_status: TaskStatus[int] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve HTTPS until cancelled; `started` tells the port. Raises CannotListen.

    A connection that has asked for nothing after `silent_seconds` is closed.
    """
    with tcp_listener(host, port) as listener:
        runner = await _runner(app)
        doors, make = app[_DOORS], runner.server
        doors.seconds = silent_seconds
        assert make is not None  # noqa: S101  it was set up
        server = await asyncio.get_running_loop().create_server(
            partial(doors.enter, make),
            sock=listener,
            ssl=context,
            ssl_handshake_timeout=HANDSHAKE_SECONDS,
        )
        try:
            await _until_cancelled(runner, task_status, listener.getsockname()[1])
        finally:
            server.close()
            doors.shut()


async def _runner(app: web.Application) -> web.AppRunner:
    runner = web.AppRunner(
        app,
        access_log=None,
        handle_signals=False,
        handler_cancellation=True,
        keepalive_timeout=KEEP_ALIVE_SECONDS,
        logger=_clients,
        shutdown_timeout=_GRACE_SECONDS,
    )
    await runner.setup()
    return runner


async def _until_cancelled(
    runner: web.AppRunner, task_status: TaskStatus[Any], started: object = None
) -> None:
    try:
        task_status.started(started)
        await anyio.sleep_forever()
    finally:
        with anyio.move_on_after(SHUTDOWN_SECONDS, shield=True):
            await runner.cleanup()


@web.middleware
async def _guarded(request: web.Request, handler: Handler) -> web.StreamResponse:
    scopes = request.app[_OPEN]
    request.app[_DOORS].asked(request.protocol)
    with anyio.CancelScope() as scope:
        scopes.add(scope)
        try:
            return await handler(request)
        except web.HTTPException:
            raise
        except ConnectionError:
            _log.debug("the client went away", path=request.path)
        except Exception as error:  # noqa: BLE001  one request's crash is not the agent's
            _log.exception("cannot answer", path=request.path)
            return _aborted(request, f"cannot answer: {type(error).__name__}: {error}\n")
        finally:
            scopes.discard(scope)
    return _aborted(request, "the agent ends\n")


def _aborted(request: web.Request, text: str) -> web.Response:
    """Return an error; a stream that has begun breaks off instead, so that it seems not whole."""
    if request.writer.output_size and request.transport is not None:
        request.transport.abort()
    return web.Response(status=500, text=text)


async def _cancel_open(app: web.Application) -> None:
    scopes = app[_OPEN]
    for scope in list(scopes):
        scope.cancel()
