"""/healthz and the checks below it.

On the port it is the kubelet's: named checks, `?exclude=NAME`, `?verbose`; what is wrong is said
only by the check itself. On the local socket and on loopback it tells people all that is wrong.
Source: apiserver pkg/server/healthz/healthz.go.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping

from aiohttp import web

from minikubelet.server.callables import Callables
from minikubelet.server.errors import plain_error

_NOSNIFF = {"X-Content-Type-Options": "nosniff"}


def healthz(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of the local API."""

    async def handle(_request: web.Request) -> web.Response:
        problems = callables.problems()
        if not problems:
            return web.Response(text="ok")
        return web.Response(status=500, text="".join(f"[-]{text}\n" for text in problems))

    return handle


def healthz_checks(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of the port."""

    async def handle(request: web.Request) -> web.Response:
        text, failed = report(callables.checks(), request.query.getall("exclude", []))
        if failed:
            return plain_error(f"{text}healthz check failed\n", 500)
        if "verbose" not in request.query:
            text = "ok"
        else:
            text += "healthz check passed\n"
        return web.Response(text=text, headers=_NOSNIFF)

    return handle


def healthz_check(callables: Callables) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Return the handler of a single check."""

    async def handle(request: web.Request) -> web.Response:
        problem = callables.checks().get(request.match_info["check"])
        if problem is None:
            raise web.HTTPNotFound
        if problem:
            return plain_error(f"internal server error: {problem}\n", 500)
        return web.Response(text="ok")

    return handle


def report(checks: Mapping[str, str], excluded: Collection[str]) -> tuple[str, bool]:
    """Return a line a check, and whether one has failed. Pure."""
    lines = []
    failed = False
    for name, problem in checks.items():
        if name in excluded:
            lines.append(f"[+]{name} excluded: ok\n")
        elif problem:
            failed = True
            lines.append(f"[-]{name} failed: reason withheld\n")
        else:
            lines.append(f"[+]{name} ok\n")
    if unknown := sorted(set(excluded) - set(checks)):
        names = ",".join(f'"{name}"' for name in unknown)
        lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
    return "".join(lines), failed
