"""Answers that refuse: plain text, as Go's servers write it."""

from aiohttp import web

from minikubelet.server.callables import Refused


def plain_error(text: str, status: int) -> web.Response:
    """Return a refusal whose text stands for itself."""
    return web.Response(status=status, text=text, headers={"X-Content-Type-Options": "nosniff"})


def refusal(error: Refused) -> web.Response:
    """Return what a callable refused, with its own status."""
    response = plain_error(str(error), error.status)
    if error.retry_after is not None:
        response.headers["Retry-After"] = str(error.retry_after)
    return response
