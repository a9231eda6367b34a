"""The GET of an httpGet action, as the kubelet makes it: address, path, headers, bytes.

Source: kubelet pkg/probe/http/request.go, net/http for the order of headers.
"""

from dataclasses import dataclass, replace
from urllib.parse import quote, urljoin, urlsplit

from minikubelet.api.pod import Container, HTTPGetAction, IntOrString

HOOK_AGENT = "kube-lifecycle/1.36"
PROBE_AGENT = "kube-probe/1.36"
MAX_PORT = 65535
MAX_REDIRECTS = 10
DEFAULT_PORTS = {"http": 80, "https": 443}

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_SAFE = "/%:@!$&'()*+,;=?~"


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
        return authority(self.host, self.port)

    @property
    def target(self) -> str:
        """Path and query as they are sent."""
        path = quote(self.path.partition("#")[0], safe=_SAFE)
        return path if path.startswith("/") else f"/{path}"

    @property
    def url(self) -> str:
        """The whole URL."""
        return f"{self.scheme}://{self.authority}{self.target}"

    def encode(self) -> bytes:
        """Return the request's bytes; a Host header of its own takes the address' place."""
        host, agent, others = self.authority, "", []
        for name, value in self.headers:
            match name.lower():
                case "host":
                    host = value or host
                case "user-agent":
                    agent = agent or value
                case "connection" | "content-length" | "transfer-encoding":
                    pass  # the connection is ours to end, and there is no body
                case _:
                    others.append(f"{name}: {value}")
        lines = [f"GET {self.target} HTTP/1.1", f"Host: {host}"]
        if agent:
            lines.append(f"User-Agent: {agent}")
        lines += [*others, "Connection: close", "", ""]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape")

    def redirected(self, location: str) -> "HTTPRequest":
        """Return the request that a redirect leads to, all headers kept. Raises ValueError."""
        parts = urlsplit(urljoin(self.url, location))
        if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f'unsupported protocol scheme "{parts.scheme}"')
        port = parts.port or DEFAULT_PORTS[parts.scheme]
        path = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
        return replace(self, scheme=parts.scheme, host=parts.hostname, port=port, path=path)

    def following(self, status: int, location: str) -> "HTTPRequest | None":
        """Return the request that an answer asks for instead; None when it asks for none.

        Raises OSError for a location that is none.
        """
        if status not in _REDIRECTS or not location:
            return None
        try:
            return self.redirected(location)
        except ValueError as error:
            raise OSError(f'failed to parse Location header "{location}": {error}') from error


def authority(host: str, port: int) -> str:
    """Return host and port as in a URL: IPv6 in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def request_of(
    action: HTTPGetAction, container: Container, pod_ip: str, user_agent: str = HOOK_AGENT
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
