"""The URL source against a real server on loopback that answers what a test tells it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest
from aiohttp import web

from minikubelet.sources.http import MAX_SIZE, HTTPSource, without_password
from minikubelet.sources.reports import ManifestReport, MemoryLastGood
from minikubelet.sources.updates import SourceSet
from tests.unit.sources.documents import content_of, pod_document

pytestmark = pytest.mark.anyio

_DEADLINE = 10
LIST = {"apiVersion": "v1", "kind": "PodList"}


@dataclass
class Server:
    """Answers with `body`, `status` and `headers`, and remembers the requests' headers."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    seen: list[web.BaseRequest] = field(default_factory=list)
    url: str = ""
    arrived: anyio.Event = field(default_factory=anyio.Event)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.seen.append(request)
        self.arrived.set()
        self.arrived = anyio.Event()
        return web.Response(body=self.body, status=self.status, headers=self.headers)

    async def requests(self, count: int) -> None:
        """Wait for that many more requests; all but the last are answered and dealt with then."""
        with anyio.fail_after(_DEADLINE):
            for _ in range(count):
                await self.arrived.wait()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    server = Server()
    runner = web.ServerRunner(web.Server(server.handle))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/pods"
    yield server
    await runner.cleanup()


class Running:
    def __init__(self, source: HTTPSource, problems: list[ManifestReport]) -> None:
        self.source = source
        self.problems = problems
        self.sets: list[list[str]] = []
        self.arrived = anyio.Event()

    async def send(self, delivered: SourceSet) -> None:
        assert delivered.source == "http"
        self.sets.append([r.pod.metadata.name for r in delivered.pods])
        self.arrived.set()
        self.arrived = anyio.Event()

    async def until(self, *sets: list[str]) -> None:
        with anyio.fail_after(_DEADLINE):
            for _ in range(len(sets) - len(self.sets)):
                await self.arrived.wait()
        assert self.sets == list(sets)

    def errors(self) -> list[str]:
        return [error for report in self.source.reports() for error in report.errors]


@asynccontextmanager
async def running(
    server: Server,
    store: MemoryLastGood | None = None,
    headers: tuple[tuple[str, str], ...] = (),
) -> AsyncIterator[Running]:
    problems: list[ManifestReport] = []
    source = HTTPSource(
        server.url,
        "node1",
        store or MemoryLastGood(),
        headers=headers,
        check_frequency=0.005,
        on_problem=problems.append,
    )
    harness = Running(source, problems)
    async with anyio.create_task_group() as group:
        await group.start(source.run, harness.send)
        yield harness
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("body", "names"),
    [
        (json.dumps(pod_document("a")).encode(), ["a-node1"]),
        (content_of(pod_document("a")), ["a-node1"]),
        (content_of(pod_document("a"), pod_document("b")), ["a-node1", "b-node1"]),
        (json.dumps({**LIST, "items": [pod_document("a")]}).encode(), ["a-node1"]),
        (json.dumps({**LIST, "items": []}).encode(), []),
    ],
    ids=["json", "yaml", "documents", "list", "empty list"],
)
async def test_what_a_body_may_be(server: Server, body: bytes, names: list[str]) -> None:
    server.body = body
    async with running(server) as source:
        await source.until(names)
        assert source.errors() == []


async def test_headers_are_sent_all_of_them(server: Server) -> None:
    server.body = content_of(pod_document("a"))
    async with running(server, headers=(("X-A", "1"), ("X-A", "2"), ("X-B", "3"))) as source:
        await source.until(["a-node1"])
    assert server.seen[0].headers.getall("X-A") == ["1", "2"]
    assert server.seen[0].headers["X-B"] == "3"


async def test_a_change_is_taken_over(server: Server) -> None:
    server.body = content_of(pod_document("a"))
    async with running(server) as source:
        await source.until(["a-node1"])
        server.body = content_of(pod_document("b"))
        await source.until(["a-node1"], ["b-node1"])


async def test_an_unchanged_answer_is_not_asked_for_again(server: Server) -> None:
    server.body = content_of(pod_document("a"))
    server.headers = {"ETag": '"1"', "Last-Modified": "Sun, 29 Nov 2026 16:00:00 GMT"}
    async with running(server) as source:
        await source.until(["a-node1"])
        server.status = 304
        await server.requests(2)
        assert source.errors() == []
        assert source.sets == [["a-node1"]]
    assert "If-None-Match" not in server.seen[0].headers
    assert server.seen[-1].headers["If-None-Match"] == '"1"'
    assert server.seen[-1].headers["If-Modified-Since"] == "Sun, 29 Nov 2026 16:00:00 GMT"


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"", "the body is empty"),
        (200, b" \n", "the body is empty"),
        (200, b"# nothing", "the body holds no pod"),
        (200, b"<html>", "expected an object with kind Pod"),
        (200, b"{", "cannot read YAML"),
        (200, b'{"kind": "Status", "apiVersion": "v1"}', "the body holds no pod"),
        (500, b"oops", "status 500, expected 200"),
        (404, b"", "status 404, expected 200"),
        (304, b"", "status 304, expected 200"),
    ],
)
async def test_B09_a_bad_answer_stays_visible_and_removes_nothing(
    server: Server, status: int, body: bytes, error: str
) -> None:
    good = content_of(pod_document("a"))
    server.body = good
    async with running(server) as source:
        await source.until(["a-node1"])
        server.body = content_of(pod_document("a", dnsPolicy="x"))
        await server.requests(2)
        server.status, server.body = status, body
        await server.requests(3)
        assert error in source.errors()[0]
        assert source.source.reports()[0].pods == ("a-node1_default",)
        assert source.source.reports()[0].last_good
        server.status, server.body = 200, good
        await server.requests(2)
        assert source.errors() == []
        assert source.sets == [["a-node1"]]


async def test_an_explicit_empty_list_removes(server: Server) -> None:
    server.body = content_of(pod_document("a"))
    store = MemoryLastGood()
    async with running(server, store) as source:
        await source.until(["a-node1"])
        server.body = json.dumps({**LIST, "items": []}).encode()
        await source.until(["a-node1"], [])
        await server.requests(2)
    assert store.documents == {}


async def test_one_bad_item_does_not_block_the_others(server: Server) -> None:
    items = [pod_document("a"), pod_document("b", dnsPolicy="x"), pod_document("c")]
    server.body = json.dumps({**LIST, "items": items}).encode()
    async with running(server) as source:
        await source.until(["a-node1", "c-node1"])
        assert "items[1].spec.dnsPolicy: Unsupported value" in source.errors()[0]


async def test_the_last_good_set_runs_after_a_restart_without_the_server(server: Server) -> None:
    server.status = 503
    store = MemoryLastGood({server.url: [pod_document("a")]})
    async with running(server, store) as source:
        await source.until(["a-node1"])
        assert "status 503" in source.errors()[0]


async def test_a_body_has_a_limit(server: Server) -> None:
    server.body = content_of(pod_document("a")) + b"#" * MAX_SIZE
    async with running(server) as source:
        await source.until([])
        assert "larger than 10 MiB" in source.errors()[0]


async def test_nobody_at_the_url_is_an_error(server: Server) -> None:
    server.url = "http://127.0.0.1:1/"
    async with running(server) as source:
        await source.until([])
        assert source.errors()[0].startswith("cannot read pods from http://127.0.0.1:1/: Client")


async def test_a_problem_is_told_once(server: Server) -> None:
    server.status = 500
    async with running(server) as source:
        await server.requests(5)
        assert len(source.problems) == 1


async def test_a_password_is_in_no_report_and_no_origin(server: Server) -> None:
    server.url = server.url.replace("//", "//user:secret@")
    server.body = content_of(pod_document("a", foo=1), pod_document("b", dnsPolicy="x"))
    async with running(server) as source:
        await source.until(["a-node1"])
        assert "secret" not in str(source.source.reports())
        assert "secret" not in str([r.origin for r in source.source._known.manifest.pods])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://u:secret@h:1/p", "http://u:***@h:1/p"),
        ("http://h/p", "http://h/p"),
        ("http://u@h/p", "http://u@h/p"),
    ],
)
def test_a_password_is_never_shown(url: str, shown: str) -> None:
    assert without_password(url) == shown
