"""What a request for streams asks: which of stdin, stdout, stderr, a terminal; which ports. Pure.

Texts are the kubelet's. Source: cri-streaming pkg/streaming/remotecommand/httpstream.go NewOptions,
pkg/streaming/portforward/websocket.go NewV4Options.
"""

from collections.abc import Sequence

from minikubelet.cri.services import Streams

_MAX_PORT = 65535


def stream_options(query: Sequence[tuple[str, str]]) -> Streams:
    """Return the streams that a query asks for; only `1` means yes. Raises ValueError."""
    wanted = {name: value == "1" for name, value in reversed(query)}
    tty = wanted.get("tty", False)
    streams = Streams(
        stdin=wanted.get("input", False),
        stdout=wanted.get("output", False),
        stderr=wanted.get("error", False) and not tty,
        tty=tty,
    )
    if not (streams.stdin or streams.stdout or streams.stderr):
        raise ValueError("you must specify at least 1 of stdin, stdout, stderr")
    return streams


def forwarded_ports(query: Sequence[tuple[str, str]], *, websocket: bool) -> tuple[int, ...]:
    """Return the ports that a WebSocket names; SPDY names them later. Raises ValueError."""
    if not websocket:
        return ()
    texts = [value for name, value in query if name == "port"]
    if not texts:
        raise ValueError('query parameter "port" is required')
    return tuple(port for text in texts for port in _ports(text))


def _ports(text: str) -> list[int]:
    if not text:
        raise ValueError('query parameter "port" cannot be empty')
    ports = []
    for part in text.split(","):
        if not (part.isascii() and part.isdigit()):
            raise ValueError(f'unable to parse "{text}" as a port: {_go_error(part)}invalid syntax')
        if int(part) > _MAX_PORT:
            raise ValueError(
                f'unable to parse "{text}" as a port: {_go_error(part)}value out of range'
            )
        if int(part) < 1:
            raise ValueError(f'port "{text}" must be > 0')
        ports.append(int(part))
    return ports


def _go_error(text: str) -> str:
    return f'strconv.ParseUint: parsing "{text}": '
