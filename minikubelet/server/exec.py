"""GET, POST /exec/NAMESPACE/POD[/UID]/CONTAINER: a command in a container, its streams upgraded.

Source: kubelet server/server.go getExec.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from minikubelet.server.callables import Callables, Refused
from minikubelet.server.errors import plain_error, refusal
from minikubelet.server.relay import relay
from minikubelet.server.streams import stream_options
from minikubelet.server.target import query_of, target_of


def exec_in_container(
    callables: Callables, idle_seconds: float
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler."""

    async def handle(request: web.Request) -> web.StreamResponse:
        query = query_of(request)
        try:
            streams = stream_options(query)
        except ValueError as error:
            return plain_error(str(error), 400)
        command = [value for name, value in query if name == "command"]
        try:
            url = await callables.exec(target_of(request), command, streams)
        except Refused as error:
            return refusal(error)
        return await relay(request, url, idle_seconds)

    return handle
