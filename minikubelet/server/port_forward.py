"""GET, POST /portForward/NAMESPACE/POD[/UID]: connections into a pod's network.

Source: kubelet server/server.go getPortForward.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from minikubelet.server.callables import Callables, Refused
from minikubelet.server.errors import plain_error, refusal
from minikubelet.server.relay import relay
from minikubelet.server.streams import forwarded_ports
from minikubelet.server.target import query_of, target_of
from minikubelet.server.upgrade import is_websocket


def port_forward(
    callables: Callables, idle_seconds: float
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler."""

    async def handle(request: web.Request) -> web.StreamResponse:
        websocket = is_websocket(request.raw_headers)
        try:
            ports = forwarded_ports(query_of(request), websocket=websocket)
        except ValueError as error:
            return plain_error(str(error), 400)
        try:
            url = await callables.port_forward(target_of(request), ports)
        except Refused as error:
            return refusal(error)
        return await relay(request, url, idle_seconds)

    return handle
