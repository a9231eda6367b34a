"""Heads of upgraded connections: which request is one, how it goes on to the runtime. Pure.

`relay` reads and writes; here are the bytes. The request goes on with all its headers and its Host,
the path and query become those of the URL that CRI returned, the client's own query is dropped.
Source: apimachinery pkg/util/proxy/upgradeaware.go, pkg/util/httpstream, pkg/util/net/http.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

SWITCHING_PROTOCOLS = 101
FIRST_ERROR = 400
END_OF_HEAD = b"\r\n\r\n"
MAX_HEAD_BYTES = 64 * 1024

RawHeaders = Sequence[tuple[bytes, bytes]]

_PORTS = {"http": 80, "https": 443}


class BadBackend(Exception):
    """The runtime's URL or its answer is of no use; the text is for the client."""


@dataclass(frozen=True, slots=True)
class Backend:
    """Where the runtime serves streams."""

    host: str
    port: int
    target: str
    """Path and query."""
    tls: bool = False


def is_upgrade(headers: RawHeaders) -> bool:
    """Tell whether the client wants the connection for another protocol."""
    return any(b"upgrade" in value.lower() for value in _values(headers, b"connection"))


def is_websocket(headers: RawHeaders) -> bool:
    """Tell whether that protocol is WebSocket."""
    wanted = (value.strip().lower() for value in _values(headers, b"upgrade"))
    return is_upgrade(headers) and b"websocket" in wanted


def backend_of(url: str) -> Backend:
    """Return where a URL of CRI leads; without a scheme it is http. Raises BadBackend."""
    text = url if "://" in url else f"http://{url.removeprefix('//')}"
    try:
        parts = urlsplit(text)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as error:
        raise BadBackend(f"cannot use the runtime's URL {url!r}: {error}") from None
    if not port or not parts.hostname or not text.isascii() or any(c <= " " for c in text):
        raise BadBackend(f"cannot use the runtime's URL {url!r}: expected http://HOST:PORT/PATH")
    target = parts.path or "/"
    return Backend(
        host=parts.hostname,
        port=port,
        tls=parts.scheme == "https",
        target=f"{target}?{parts.query}" if parts.query else target,
    )


def request_head(method: str, target: str, headers: RawHeaders, peer: str) -> bytes:
    """Return the request as the runtime gets it; `peer` is the client's address, empty for none.

    A token is for the kubelet alone and doesn't go on.
    """
    lines = [f"{method} {target} HTTP/1.1".encode("latin-1")]
    forwarded = list(_values(headers, b"x-forwarded-for"))
    dropped = {b"authorization"}
    if peer:
        dropped.add(b"x-forwarded-for")
    lines += [name + b": " + value for name, value in headers if name.lower() not in dropped]
    if peer:
        lines.append(b"X-Forwarded-For: " + b", ".join([*forwarded, peer.encode("latin-1")]))
    return b"\r\n".join(lines) + END_OF_HEAD


def status_of(head: bytes) -> int:
    """Return the status of an answer's head. Raises BadBackend."""
    line = head.partition(b"\r\n")[0]
    version, _, rest = line.partition(b" ")
    code = rest[:3]
    if not version.startswith(b"HTTP/1.") or not code.isdigit():
        text = line[:60].decode("latin-1")
        raise BadBackend(f'malformed HTTP response "{text}"')
    return int(code)


def is_complete(answer: bytes) -> bool:
    """Tell whether an answer with its body is here; one without a stated length never is."""
    head, end, body = answer.partition(END_OF_HEAD)
    if not end:
        return False
    headers = [_split(line) for line in head.split(b"\r\n")[1:]]
    if any(b"chunked" in value.lower() for value in _values(headers, b"transfer-encoding")):
        return body.endswith(b"0\r\n\r\n")
    length = next(iter(_values(headers, b"content-length")), b"")
    return length.isdigit() and len(body) >= int(length)


def _split(line: bytes) -> tuple[bytes, bytes]:
    name, _, value = line.partition(b":")
    return name.strip(), value.strip()


def _values(headers: RawHeaders, name: bytes) -> Iterable[bytes]:
    return (value for each, value in headers if each.lower() == name)
