"""Which pod or container a request is about, and what its query says."""

from urllib.parse import parse_qsl

from aiohttp import web

from minikubelet.server.callables import Target


def target_of(request: web.Request) -> Target:
    """Return what the path names."""
    path = request.match_info
    return Target(
        path["namespace"], path["pod"], path.get("container", ""), uid=path.get("uid", "")
    )


def query_of(request: web.Request) -> list[tuple[str, str]]:
    """Return the query in order; a plus is a space, empty values are kept."""
    return parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True)
