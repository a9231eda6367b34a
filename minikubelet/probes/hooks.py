"""One GET as the kubelet makes it for httpGet hooks: `request_of` builds it, `HTTPHooks` sends it.

A hook fails only when no answer comes: any status will do. HTTPS is not verified, proxies are not
used. aiohttp is imported by the first request. Source: kubelet lifecycle/handlers.go,
pkg/probe/http/request.go.
"""

from dataclasses import dataclass, replace
from urllib.parse import quote

from minikubelet.api.pod import Container, HTTPGetAction, IntOrString, Pod
from minikubelet.observe.events import WARNING, EventSink, PodRef

USER_AGENT = "kube-lifecycle/1.36"
MAX_BODY = 10 * 1024
MAX_REDIRECTS = 10
MAX_PORT = 65535

_PLAIN_ANSWERS = frozenset(
    {"WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE"}
)
"""OpenSSL's reasons when plain text answers a TLS greeting."""


@dataclass(frozen=True, slots=True)
class HTTPRequest:
    """A GET request; `headers` keep their order and may repeat a name."""

    scheme: str
    host: str
    port: int
    path: str
    headers: tuple[tuple[str, str], ...]

    @property
    def authority(self) -> str:
        """Host and port as in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def url(self) -> str:
        """The whole URL."""
        path = quote(self.path, safe="/%:@!$&'()*+,;=?~")
        separator = "" if path.startswith("/") else "/"
        return f"{self.scheme}://{self.authority}{separator}{path}"


def request_of(
    action: HTTPGetAction, container: Container, pod_ip: str, user_agent: str = USER_AGENT
) -> HTTPRequest:
    """Return the request of an httpGet action. Raises ValueError for a port or host it lacks."""
    host = action.host or pod_ip
    if not host:
        raise ValueError("failed to find networking container: the pod has no IP")
    headers = [(header.name, header.value) for header in action.http_headers]
    names = {name.lower() for name, _ in headers}
    if "user-agent" not in names:
        headers.append(("User-Agent", user_agent))
    if "accept" not in names:
        headers.append(("Accept", "*/*"))
    # An explicit empty Accept means: none at all.
    headers = [pair for pair in headers if pair[0].lower() != "accept" or pair[1]]
    scheme = (action.scheme or "HTTP").lower()
    port = port_number(action.port, container)
    return HTTPRequest(scheme, host, port, action.path, tuple(headers))


def port_number(port: IntOrString, container: Container) -> int:
    """Return the number of a port given by number or by a name of the container's ports."""
    number: int | None = None
    if isinstance(port, int):
        number = port
    else:
        named = (each.container_port for each in container.ports if each.name == port)
        number = next(named, int(port) if port.isdecimal() else None)
    if number is None:
        raise ValueError(f"couldn't find port: {port} in container {container.name}")
    if not 0 < number <= MAX_PORT:
        raise ValueError(f"invalid port number: {number}")
    return number


class PlainAnswerError(OSError):
    """Raised when a server answered an HTTPS request in plain HTTP."""


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
            await get(request)
        except PlainAnswerError:
            await get(_without_tls(request))
            meta = pod.metadata
            ref = PodRef(meta.namespace, meta.name, meta.uid)
            text = (
                f"request to HTTPS lifecycle hook {request.authority} got HTTP response,"
                " retry with HTTP succeeded"
            )
            self._events.emit(ref, WARNING, "LifecycleHTTPFallback", text)


def _without_tls(request: HTTPRequest) -> HTTPRequest:
    """Return the request in plain HTTP, which must not carry a secret."""
    headers = tuple(pair for pair in request.headers if pair[0].lower() != "authorization")
    return replace(request, scheme="http", headers=headers)


async def get(request: HTTPRequest) -> tuple[int, bytes]:
    """Send one request on a connection of its own; return the status and 10 KiB of body at most.

    Raises PlainAnswerError, or OSError with the transport's error.
    """
    import aiohttp  # noqa: PLC0415  260 modules that a node without such hooks never needs

    own = ("User-Agent", "Accept", "Accept-Encoding")
    try:
        async with (
            aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(ssl=False, force_close=True),
                timeout=aiohttp.ClientTimeout(total=None),
                skip_auto_headers=own,
                auto_decompress=False,
            ) as session,
            session.get(
                request.url, headers=list(request.headers), max_redirects=MAX_REDIRECTS
            ) as reply,
        ):
            return reply.status, await reply.content.read(MAX_BODY)
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if _is_plain_answer(error):
            raise PlainAnswerError(str(error)) from error
        raise OSError(f'Get "{request.url}": {str(error) or type(error).__name__}') from error


def _is_plain_answer(error: BaseException) -> bool:
    seen: BaseException | None = error
    while seen is not None:
        if getattr(seen, "reason", None) in _PLAIN_ANSWERS:
            return True
        seen = getattr(seen, "os_error", None) or seen.__cause__
    return False
