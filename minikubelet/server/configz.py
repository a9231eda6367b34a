"""/configz: the effective configuration. Source: component-base configz/configz.go."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from minikubelet.server.callables import Callables


def configz(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler."""

    async def handle(_request: web.Request) -> web.Response:
        body = msgspec.json.encode(callables.configz())
        headers = {"X-Content-Type-Options": "nosniff"}
        return web.Response(body=body, content_type="application/json", headers=headers)

    return handle
