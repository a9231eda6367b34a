"""POST /run/NAMESPACE/POD[/UID]/CONTAINER: a command run to its end; its output is the answer.

Source: kubelet server/server.go getRun.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from minikubelet.server.callables import Callables, Refused
from minikubelet.server.errors import refusal
from minikubelet.server.target import target_of


def run(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler. The command is one text, split at each single space."""

    async def handle(request: web.Request) -> web.Response:
        command = request.query.get("cmd", "").split(" ")
        try:
            output = await callables.run(target_of(request), command)
        except Refused as error:
            return refusal(error)
        # JSON is what the kubelet calls it, whatever it is.
        return web.Response(body=output, content_type="application/json")

    return handle
