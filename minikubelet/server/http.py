"""The HTTP server: routes, listeners, start and stop. Endpoints stand in their own files."""

import os
from pathlib import Path

import anyio
import structlog
from aiohttp import web
from anyio.abc import TaskStatus

from minikubelet.server.callables import Callables
from minikubelet.server.container_logs import container_logs
from minikubelet.server.healthz import healthz
from minikubelet.server.manifests import manifests
from minikubelet.server.pods import pods

CALLABLES: web.AppKey[Callables] = web.AppKey("callables", Callables)
SHUTDOWN_SECONDS = 2.0

_log = structlog.get_logger("server")


def local_api(callables: Callables) -> web.Application:
    """Return the API of the unix socket."""
    app = web.Application()
    app[CALLABLES] = callables
    app.router.add_get("/healthz", healthz(callables))
    app.router.add_get("/pods", pods(callables))
    app.router.add_get("/manifests", manifests(callables))
    app.router.add_get("/containerLogs/{namespace}/{pod}/{container}", container_logs(callables))
    return app


def health_api(callables: Callables) -> web.Application:
    """Return what answers on the loopback port."""
    app = web.Application()
    app.router.add_get("/healthz", healthz(callables))
    return app


async def serve_socket(
    app: web.Application, path: Path, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Serve on a unix socket that only its owner may open, until cancelled. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    # The mask holds for the instant of bind: nobody else may connect even then.
    before = os.umask(0o177)
    try:
        await web.UnixSite(runner, str(path)).start()
    finally:
        os.umask(before)
    await _until_cancelled(runner, task_status)
    path.unlink(missing_ok=True)


async def serve_port(
    app: web.Application,
    host: str,
    port: int,
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve on a TCP port until cancelled; a port that is taken is told and does without."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        _log.warning("cannot serve healthz, the agent goes on without", error=str(error))
        await runner.cleanup()
        task_status.started()
        return
    await _until_cancelled(runner, task_status)


async def _until_cancelled(runner: web.AppRunner, task_status: TaskStatus[None]) -> None:
    try:
        task_status.started()
        await anyio.sleep_forever()
    finally:
        with anyio.move_on_after(SHUTDOWN_SECONDS, shield=True):
            await runner.cleanup()
