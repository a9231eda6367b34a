"""What a query asks of streams and ports."""

import re

import pytest

from minikubelet.cri.services import Streams
from minikubelet.server.streams import forwarded_ports, stream_options

Query = list[tuple[str, str]]


@pytest.mark.parametrize(
    ("query", "streams"),
    [
        ([("input", "1")], Streams(stdin=True)),
        ([("output", "1"), ("error", "1")], Streams(stdout=True, stderr=True)),
        ([("output", "1"), ("error", "1"), ("tty", "1")], Streams(stdout=True, tty=True)),
        ([("output", "1"), ("input", "true")], Streams(stdout=True)),
        ([("output", "1"), ("output", "0")], Streams(stdout=True)),
    ],
)
def test_streams(query: Query, streams: Streams) -> None:
    assert stream_options(query) == streams


@pytest.mark.parametrize(
    "query", [[], [("input", "true")], [("tty", "1"), ("error", "1")], [("output", "0")]]
)
def test_no_stream_at_all(query: Query) -> None:
    with pytest.raises(ValueError, match="you must specify at least 1 of stdin, stdout, stderr"):
        stream_options(query)


@pytest.mark.parametrize(
    ("query", "ports"),
    [
        ([("port", "80")], (80,)),
        ([("port", "80"), ("port", "81,82")], (80, 81, 82)),
        ([("port", "65535"), ("x", "1")], (65535,)),
    ],
)
def test_ports_of_a_websocket(query: Query, ports: tuple[int, ...]) -> None:
    assert forwarded_ports(query, websocket=True) == ports
    assert forwarded_ports(query, websocket=False) == ()


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ([], 'query parameter "port" is required'),
        ([("port", "")], 'query parameter "port" cannot be empty'),
        ([("port", "0")], 'port "0" must be > 0'),
        (
            [("port", "1,x")],
            'unable to parse "1,x" as a port: strconv.ParseUint: parsing "x": invalid syntax',
        ),
        (
            [("port", "65536")],
            'unable to parse "65536" as a port: strconv.ParseUint: parsing "65536": value out of range',  # noqa: E501  Go's own text
        ),
    ],
)
def test_ports_that_are_none(query: Query, text: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        forwarded_ports(query, websocket=True)
