"""GET /manifests: what each manifest file and URL holds, and what is wrong with it."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from minikubelet.server.callables import Callables


def manifests(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler."""

    async def handle(_request: web.Request) -> web.Response:
        body = msgspec.json.encode(callables.manifests())
        return web.Response(body=body, content_type="application/json")

    return handle
