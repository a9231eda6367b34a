"""GET /runningpods/: what runs, as the runtime has it. Source: kubelet server.go getRunningPods."""

from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from minikubelet.server.callables import Callables, Refused
from minikubelet.server.errors import refusal


def running_pods(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler."""

    async def handle(_request: web.Request) -> web.Response:
        try:
            found = await callables.running_pods()
        except Refused as error:
            return refusal(error)
        return web.Response(body=msgspec.json.encode(found), content_type="application/json")

    return handle
