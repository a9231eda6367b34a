"""GET /healthz: `ok`, or 500 with what is wrong. Source: apiserver pkg/server/healthz."""

from collections.abc import Awaitable, Callable

from aiohttp import web

from minikubelet.server.callables import Callables


def healthz(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler."""

    async def handle(_request: web.Request) -> web.Response:
        problems = callables.problems()
        if not problems:
            return web.Response(text="ok")
        return web.Response(status=500, text="".join(f"[-]{text}\n" for text in problems))

    return handle
