"""The GET of httpGet hooks.

A hook fails only when no answer comes: any status will do. HTTPS is not verified, proxies are not
used. Source: kubelet lifecycle/handlers.go.
"""

from dataclasses import replace

from minikubelet.api.pod import Container, HTTPGetAction, Pod
from minikubelet.observe.events import WARNING, EventSink, PodRef
from minikubelet.probes.exchange import PlainAnswerError, exchange
from minikubelet.probes.reply import CutBody, Reader, Reply
from minikubelet.probes.request import MAX_REDIRECTS, HTTPRequest, request_of
from minikubelet.probes.sockets import addresses_of
from minikubelet.probes.steps import drive

_SECRETS = frozenset({"authorization", "cookie", "www-authenticate", "host"})
"""Headers that are meant for the first host only."""


class HTTPHooks:
    """Makes the requests of httpGet hooks. Who calls bounds the time."""

    def __init__(self, events: EventSink) -> None:
        self._events = events

    async def http_get(
        self, pod: Pod, container: Container, action: HTTPGetAction, pod_ip: str
    ) -> None:
        """Make a hook's request. Raises OSError with the text of what kept an answer away."""
        try:
            request = request_of(action, container, pod_ip)
        except ValueError as error:
            raise OSError(str(error)) from error
        try:
            await _get(request)
        except PlainAnswerError:
            await _get(_without_tls(request))
            meta = pod.metadata
            ref = PodRef(meta.namespace, meta.name, meta.uid)
            text = (
                f"request to HTTPS lifecycle hook {request.authority} got HTTP response,"
                " retry with HTTP succeeded"
            )
            self._events.emit(ref, WARNING, "LifecycleHTTPFallback", text)


async def _get(request: HTTPRequest) -> None:
    try:
        await _follow(request)
    except CutBody:
        return  # the answer's head came
    except PlainAnswerError:
        raise
    except OSError as error:
        raise OSError(f'Get "{request.url}": {error}') from error


async def _follow(request: HTTPRequest) -> Reply:
    """Make a request and follow redirects, wherever they lead."""
    current = request
    for _ in range(MAX_REDIRECTS):
        addresses = await addresses_of(current.host)
        reply = await drive(exchange(current, current.encode(), addresses, Reader()))
        following = current.following(reply.status, reply.headers.get("location", ""))
        if following is None:
            return reply
        if following.host != request.host:
            kept = (pair for pair in following.headers if pair[0].lower() not in _SECRETS)
            following = replace(following, headers=tuple(kept))
        current = following
    raise OSError(f"stopped after {MAX_REDIRECTS} redirects")


def _without_tls(request: HTTPRequest) -> HTTPRequest:
    """Return the request in plain HTTP, which must not carry a secret."""
    headers = tuple(pair for pair in request.headers if pair[0].lower() != "authorization")
    return replace(request, scheme="http", headers=headers)
