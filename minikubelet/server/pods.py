"""GET /pods: a v1 PodList, each pod as an apiserver would show it, status of this moment."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from minikubelet.server.callables import Callables


def pods(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler."""

    async def handle(_request: web.Request) -> web.Response:
        body = msgspec.json.encode(callables.pods())
        return web.Response(body=body, content_type="application/json")

    return handle
