"""Heads of upgraded connections, as bytes."""

import pytest

from minikubelet.server.upgrade import (
    Backend,
    BadBackend,
    backend_of,
    is_complete,
    is_upgrade,
    is_websocket,
    request_head,
    status_of,
)

SPDY = [
    (b"Host", b"10.0.0.1:10250"),
    (b"Connection", b"Upgrade"),
    (b"Upgrade", b"SPDY/3.1"),
    (b"X-Stream-Protocol-Version", b"v4.channel.k8s.io"),
    (b"X-Stream-Protocol-Version", b"v3.channel.k8s.io"),
]


@pytest.mark.parametrize(
    ("headers", "upgrade", "websocket"),
    [
        pytest.param(SPDY, True, False, id="spdy"),
        pytest.param(
            [(b"connection", b"keep-alive, Upgrade"), (b"upgrade", b"WebSocket")],
            True,
            True,
            id="ws",
        ),
        pytest.param([(b"Upgrade", b"websocket")], False, False, id="no connection header"),
        pytest.param([(b"Connection", b"close")], False, False, id="plain"),
        pytest.param([], False, False, id="nothing"),
    ],
)
def test_what_is_an_upgrade(
    headers: list[tuple[bytes, bytes]], upgrade: bool, websocket: bool
) -> None:
    assert (is_upgrade(headers), is_websocket(headers)) == (upgrade, websocket)


def test_the_head_goes_on_with_another_path_and_the_clients_host() -> None:
    assert request_head("POST", "/exec/abc", SPDY, "10.0.0.9") == (
        b"POST /exec/abc HTTP/1.1\r\n"
        b"Host: 10.0.0.1:10250\r\n"
        b"Connection: Upgrade\r\n"
        b"Upgrade: SPDY/3.1\r\n"
        b"X-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
        b"X-Stream-Protocol-Version: v3.channel.k8s.io\r\n"
        b"X-Forwarded-For: 10.0.0.9\r\n\r\n"
    )


@pytest.mark.parametrize(
    ("headers", "peer", "lines"),
    [
        pytest.param(
            [(b"X-Forwarded-For", b"1.1.1.1"), (b"x-forwarded-for", b"2.2.2.2")],
            "3.3.3.3",
            [b"X-Forwarded-For: 1.1.1.1, 2.2.2.2, 3.3.3.3"],
            id="folded into one",
        ),
        pytest.param(
            [(b"X-Forwarded-For", b"1.1.1.1")], "", [b"X-Forwarded-For: 1.1.1.1"], id="unix socket"
        ),
        pytest.param([(b"Authorization", b"Bearer x"), (b"A", b"b")], "", [b"A: b"], id="token"),
    ],
)
def test_headers_that_change(
    headers: list[tuple[bytes, bytes]], peer: str, lines: list[bytes]
) -> None:
    head = request_head("GET", "/", headers, peer)
    assert head.split(b"\r\n") == [b"GET / HTTP/1.1", *lines, b"", b""]


@pytest.mark.parametrize(
    ("url", "backend"),
    [
        ("http://127.0.0.1:4000/exec/t", Backend("127.0.0.1", 4000, "/exec/t")),
        (
            "http://127.0.0.1:4000/exec?token=a%20b",
            Backend("127.0.0.1", 4000, "/exec?token=a%20b"),
        ),
        ("https://[::1]:4000/a", Backend("::1", 4000, "/a", tls=True)),
        ("//127.0.0.1:4000/a", Backend("127.0.0.1", 4000, "/a")),
        ("127.0.0.1:4000", Backend("127.0.0.1", 4000, "/")),
        ("http://localhost/a", Backend("localhost", 80, "/a")),
    ],
)
def test_where_a_url_leads(url: str, backend: Backend) -> None:
    assert backend_of(url) == backend


@pytest.mark.parametrize(
    "url",
    ["", "ftp://a/b", "http://a:99999/", "http://a:1/b\r\nX: y", "http://a:1/b c", "http:///x"],
)
def test_a_url_that_leads_nowhere(url: str) -> None:
    with pytest.raises(BadBackend, match="cannot use the runtime's URL"):
        backend_of(url)


@pytest.mark.parametrize(
    ("head", "status"),
    [(b"HTTP/1.1 101 Switching Protocols\r\n", 101), (b"HTTP/1.0 404\r\n\r\n", 404)],
)
def test_the_status_of_an_answer(head: bytes, status: int) -> None:
    assert status_of(head) == status


@pytest.mark.parametrize("head", [b"", b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n", b"HTTP/2 200\r\n"])
def test_an_answer_that_is_none(head: bytes) -> None:
    with pytest.raises(BadBackend, match="malformed HTTP response"):
        status_of(head)


@pytest.mark.parametrize(
    ("answer", "complete"),
    [
        (b"HTTP/1.1 404 x\r\nContent-Length: 3\r\n\r\nabc", True),
        (b"HTTP/1.1 404 x\r\nContent-Length: 3\r\n\r\nab", False),
        (b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n\r\n", True),
        (b"HTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n", False),
        (b"HTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", True),
        (b"HTTP/1.1 404 x\r\n\r\nuntil the end", False),
        (b"HTTP/1.1 404 x\r\nContent-Length: 0\r\n", False),
    ],
)
def test_when_an_answer_is_complete(answer: bytes, complete: bool) -> None:
    assert is_complete(answer) is complete
