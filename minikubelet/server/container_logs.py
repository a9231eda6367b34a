"""GET /containerLogs/NAMESPACE/POD/CONTAINER with the options of kubectl logs.

The answer begins as soon as the log is found, so that a follower of a silent container knows that
it is connected. Source: kubelet server/server.go getContainerLogs, PodLogOptions in core/v1.
"""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from minikubelet.api import timestamp
from minikubelet.server.callables import Callables, LogRequest, NotFound, NotReady


def container_logs(
    callables: Callables,
) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """Return the handler."""

    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            wanted = log_request(request.match_info, request.query)
        except ValueError as error:
            return web.Response(status=400, text=f"cannot read logs: {error}\n")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        try:
            async with callables.container_logs(wanted) as pieces:
                await response.prepare(request)
                async for piece in pieces:
                    await response.write(piece)
        except NotFound as error:
            return web.Response(status=404, text=f"{error}\n")
        except NotReady as error:
            return web.Response(status=400, text=f"{error}\n")
        return response

    return handle


def log_request(path: Mapping[str, str], query: Mapping[str, str]) -> LogRequest:
    """Read the request. Raises ValueError with the option's name."""
    since_time = query.get("sinceTime", "")
    if since_time and query.get("sinceSeconds"):
        raise ValueError("sinceSeconds and sinceTime exclude each other")
    if since_time:
        try:
            timestamp.parse(since_time)
        except ValueError:
            raise ValueError(
                f"sinceTime: {since_time!r} is no RFC 3339 time such as 2026-01-02T03:04:05Z"
            ) from None
    return LogRequest(
        namespace=path["namespace"],
        pod=path["pod"],
        container=path["container"],
        follow=_flag(query, "follow"),
        previous=_flag(query, "previous"),
        timestamps=_flag(query, "timestamps"),
        tail_lines=_number(query, "tailLines", least=0),
        limit_bytes=_number(query, "limitBytes", least=1),
        since_seconds=_number(query, "sinceSeconds", least=1),
        since_time=since_time,
    )


def _flag(query: Mapping[str, str], name: str) -> bool:
    """Return a truth value; a name alone means yes (apimachinery: conversion of query values)."""
    text = query.get(name, "false").lower()
    if text not in ("true", "false", "1", "0", ""):
        raise ValueError(f"{name}: {text!r} is neither true nor false")
    return text in ("true", "1", "")


def _number(query: Mapping[str, str], name: str, *, least: int) -> int | None:
    text = query.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit()) or int(text) < least:
        raise ValueError(f"{name}: {text!r} is not a number of {least} or more")
    return int(text)
