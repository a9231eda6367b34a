"""GET, POST /attach/NAMESPACE/POD[/UID]/CONTAINER: the streams of a container's own process.

Source: kubelet server/server.go getAttach.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from minikubelet.server.callables import Callables, Refused
from minikubelet.server.errors import plain_error, refusal
from minikubelet.server.relay import relay
from minikubelet.server.streams import stream_options
from minikubelet.server.target import query_of, target_of


def attach(
    callables: Callables, idle_seconds: float
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            streams = stream_options(query_of(request))
        except ValueError as error:
            return plain_error(str(error), 400)
        try:
            url = await callables.attach(target_of(request), streams)
        except Refused as error:
            return refusal(error)
        return await relay(request, url, idle_seconds)

    return handle
