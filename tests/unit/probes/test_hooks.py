"""The requests of httpGet hooks, against a server that is a few bytes on a socket."""

from typing import Any

import anyio
import msgspec
import pytest

from minikubelet.api.pod import HTTPGetAction
from minikubelet.observe.events import PodRef
from minikubelet.probes.hooks import HTTPHooks
from minikubelet.probes.request import HTTPRequest, port_number, request_of
from tests.builders import a_pod, decoded_container
from tests.unit.probes.server import serving

pytestmark = pytest.mark.anyio

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
CONTAINER = decoded_container(ports=[{"name": "web", "containerPort": 8080}])


def action(**fields: Any) -> HTTPGetAction:
    return msgspec.convert({"port": 80} | fields, HTTPGetAction)


@pytest.mark.parametrize(
    ("fields", "url"),
    [
        ({}, "http://10.1.0.2:80/"),
        ({"path": "x", "port": "web"}, "http://10.1.0.2:8080/x"),
        ({"path": "/a b?c=d%20e"}, "http://10.1.0.2:80/a%20b?c=d%20e"),
        ({"host": "example.com", "scheme": "HTTPS"}, "https://example.com:80/"),
        ({"host": "fd00::1", "port": "443"}, "http://[fd00::1]:443/"),
    ],
)
def test_B40_the_url_has_the_kubelets_defaults(fields: dict[str, Any], url: str) -> None:
    assert request_of(action(**fields), CONTAINER, "10.1.0.2").url == url


@pytest.mark.parametrize(
    ("headers", "sent"),
    [
        ([], [("User-Agent", "kube-lifecycle/1.36"), ("Accept", "*/*")]),
        (
            [("user-agent", "mine"), ("X-A", "1"), ("X-A", "2")],
            [("user-agent", "mine"), ("X-A", "1"), ("X-A", "2"), ("Accept", "*/*")],
        ),
        ([("Accept", "")], [("User-Agent", "kube-lifecycle/1.36")]),
    ],
)
def test_headers(headers: list[tuple[str, str]], sent: list[tuple[str, str]]) -> None:
    given = [{"name": name, "value": value} for name, value in headers]
    request = request_of(action(httpHeaders=given), CONTAINER, "10.1.0.2")
    assert list(request.headers) == sent


@pytest.mark.parametrize(
    ("port", "message"),
    [
        ("nope", "couldn't find port: nope in container c"),
        (0, "invalid port number: 0"),
        (70000, "invalid port number: 70000"),
        ("70000", "invalid port number: 70000"),
    ],
)
def test_a_port_that_is_none(port: int | str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        port_number(port, CONTAINER)


class Seen:
    """An event sink that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str, str]] = []

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        self.events.append((ref.field_path, type_, reason, message))


async def hook(seen: Seen | None = None, **fields: Any) -> None:
    with anyio.fail_after(10):
        hooks = HTTPHooks(seen or Seen())
        await hooks.http_get(a_pod(), CONTAINER, action(**fields), "127.0.0.1")


async def test_what_is_sent() -> None:
    async with serving(OK) as server:
        headers = [{"name": "Host", "value": "x.example"}]
        await hook(port=server.port, path="/p?q=1", httpHeaders=headers)
    lines = server.asked[0].decode().split("\r\n")
    assert lines[0] == "GET /p?q=1 HTTP/1.1"
    assert sorted(line for line in lines[1:] if line) == [
        "Accept: */*",
        "Connection: close",
        "Host: x.example",
        "User-Agent: kube-lifecycle/1.36",
    ]


@pytest.mark.parametrize("status", [b"404 Not Found", b"500 Oops"])
async def test_any_status_will_do(status: bytes) -> None:
    async with serving(b"HTTP/1.1 " + status + b"\r\nContent-Length: 0\r\n\r\n") as server:
        await hook(port=server.port)


async def test_a_body_without_end_is_not_read_to_its_end() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n"
    async with serving(head + b"x" * 20000) as server:
        await hook(port=server.port)


async def test_redirects_are_followed() -> None:
    redirect = b"HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\n\r\n"
    async with serving(redirect, OK) as server:
        await hook(port=server.port)
    assert server.asked[1].startswith(b"GET /there ")


async def test_too_many_redirects_are_an_error() -> None:
    redirect = b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n"
    async with serving(*[redirect] * 12) as server:
        with pytest.raises(OSError, match="Get "):
            await hook(port=server.port)


async def test_no_answer_is_an_error() -> None:
    async with serving() as server:
        port = server.port
    with pytest.raises(OSError, match=f'Get "http://127.0.0.1:{port}/": '):
        await hook(port=port)


async def test_what_is_no_http_is_an_error() -> None:
    async with serving(b"hello\r\n") as server:
        with pytest.raises(OSError, match="Get "):
            await hook(port=server.port)


async def test_a_bad_port_is_an_error() -> None:
    with pytest.raises(OSError, match="couldn't find port: nope"):
        await hook(port="nope")


async def test_https_falls_back_to_http_without_the_secret() -> None:
    plain = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    seen = Seen()
    async with serving(plain, OK) as server:
        headers = [{"name": "Authorization", "value": "secret"}]
        await hook(seen, port=server.port, scheme="HTTPS", httpHeaders=headers)
    assert server.asked[0][0] == 0x16  # a TLS handshake
    assert server.asked[1].startswith(b"GET / HTTP/1.1")
    assert b"secret" not in server.asked[1]
    assert seen.events == [
        (
            "",
            "Warning",
            "LifecycleHTTPFallback",
            (
                f"request to HTTPS lifecycle hook 127.0.0.1:{server.port} got HTTP response,"
                " retry with HTTP succeeded"
            ),
        )
    ]


def test_an_ipv6_authority_is_bracketed() -> None:
    assert HTTPRequest("http", "::1", 80, "/", ()).authority == "[::1]:80"
