"""The API of the node's own port: its routes, and who may use them.

Every request is authenticated and authorized before anything else, unknown paths, too. The paths
that reach into pods can be switched off. Routes and methods are the kubelet's; so are the texts.
Source: kubelet server/server.go.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog
from aiohttp import web
from aiohttp.typedefs import Middleware

from minikubelet.server.attach import attach
from minikubelet.server.authn import Authenticator, ReviewFailed, Unauthenticated, User
from minikubelet.server.authz import Denied, Review, attributes_of, authorize
from minikubelet.server.callables import Callables
from minikubelet.server.configz import configz
from minikubelet.server.container_logs import container_logs
from minikubelet.server.errors import plain_error
from minikubelet.server.exec import exec_in_container
from minikubelet.server.healthz import healthz_check, healthz_checks
from minikubelet.server.http import Handler, application
from minikubelet.server.pods import pods
from minikubelet.server.port_forward import port_forward
from minikubelet.server.run import run
from minikubelet.server.runningpods import running_pods
from minikubelet.server.tls import ServingTLS

_ANY = "*"
_POD = "/{namespace}/{pod}"
_CONTAINER = _POD + "/{container}"
_ROOTS = re.compile(r"/(healthz|pods|runningpods|run|exec|attach|portForward|containerLogs)(/|$)")
"""First parts of a path that lead somewhere: below them nothing else is a missing page."""
_DEBUG = re.compile(r"/(run|exec|attach|portForward|containerLogs|runningpods|debug/pprof|logs)/.*")

_log = structlog.get_logger("server")


@dataclass(frozen=True, slots=True)
class Access:
    """Who may use the port."""

    node: str
    authenticator: Authenticator
    review: Review
    tls: ServingTLS


def node_api(
    callables: Callables, access: Access, *, idle_seconds: float, debugging: bool = True
) -> web.Application:
    """Return the API. `idle_seconds` end a stream on which nothing moves; 0: never."""
    app = application(_guarded_by(access), _kubelet_texts)
    add = app.router.add_route
    add(_ANY, "/healthz", healthz_checks(callables))
    add(_ANY, "/healthz/{check}", healthz_check(callables))
    for path in ("/pods", "/pods/"):
        add("GET", path, pods(callables))
    if not debugging:
        add(_ANY, f"/{{path:{_DEBUG.pattern[1:]}}}", _debugging_is_off)
        return app
    add(_ANY, "/configz", configz(callables))
    for path in ("/runningpods", "/runningpods/"):
        add("GET", path, running_pods(callables))
    add("GET", f"/containerLogs{_CONTAINER}", container_logs(callables))
    handlers = {
        "/exec": exec_in_container(callables, idle_seconds),
        "/attach": attach(callables, idle_seconds),
    }
    for root, handler in handlers.items():
        _add_both(app, ("GET", "POST"), root + _CONTAINER, handler)
        _add_both(app, ("GET", "POST"), root + _POD + "/{uid}/{container}", handler)
    forward = port_forward(callables, idle_seconds)
    _add_both(app, ("GET", "POST"), f"/portForward{_POD}", forward)
    _add_both(app, ("GET", "POST"), f"/portForward{_POD}/{{uid}}", forward)
    add("POST", f"/run{_CONTAINER}", run(callables))
    add("POST", f"/run{_POD}/{{uid}}/{{container}}", run(callables))
    return app


def _add_both(
    app: web.Application,
    methods: tuple[str, ...],
    path: str,
    handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
) -> None:
    for method in methods:
        app.router.add_route(method, path, handler)


async def _debugging_is_off(_request: web.Request) -> web.Response:
    return plain_error("Debug endpoints are disabled.\n", 405)


def _guarded_by(access: Access) -> Middleware:
    @web.middleware
    async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
        try:
            user = await _user_of(request, access)
        except (Unauthenticated, ReviewFailed) as error:
            _log.info("cannot authenticate a request", path=request.path, error=str(error))
            return plain_error("Unauthorized", 401)
        try:
            await authorize(
                attributes_of(user, request.method, request.path, access.node), access.review
            )
        except Denied as error:
            _log.info("a request is not let in", path=request.path, error=str(error).strip())
            return plain_error(str(error), error.status)
        return await handler(request)

    return check


async def _user_of(request: web.Request, access: Access) -> User:
    transport = request.transport
    connection = transport.get_extra_info("ssl_object") if transport is not None else None
    certificate = access.tls.client_certificate(connection)
    return await access.authenticator.authenticate(
        certificate, request.headers.get("Authorization", "")
    )


@web.middleware
async def _kubelet_texts(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer 404 and 405 with the words of the kubelet's router."""
    try:
        return await handler(request)
    except web.HTTPMethodNotAllowed as error:
        response = web.Response(status=405, text="405: Method Not Allowed")
        response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        return response
    except web.HTTPNotFound:
        if _ROOTS.match(request.path):
            return web.Response(status=404, text="404: Page Not Found")
        return plain_error("404 page not found\n", 404)
