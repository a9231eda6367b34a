"""The port as a client sees it: paths, methods, who may, texts."""

from pathlib import Path

import pytest

from minikubelet.cri.services import Streams
from minikubelet.server.authn import ReviewFailed, User
from minikubelet.server.authz import Attributes
from minikubelet.server.callables import Refused, Target
from tests.unit.server.port import SPDY, Asked, Rules, a_port
from tests.unit.server.serving import Log, StreamsOf, callables

pytestmark = pytest.mark.anyio

POD = Target("ns", "web")
APP = Target("ns", "web", "app")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("PUT", "/healthz", 200),
        ("GET", "/healthz/ping", 200),
        ("GET", "/healthz/nothing", 404),
        ("GET", "/pods", 200),
        ("GET", "/pods/", 200),
        ("HEAD", "/pods", 405),
        ("POST", "/pods", 405),
        ("GET", "/runningpods/", 200),
        ("GET", "/configz", 200),
        ("POST", "/configz", 200),
        ("GET", "/run/ns/web/app", 405),
        ("POST", "/run/ns/web/app?cmd=ls", 200),
        ("POST", "/run/ns/web/uid/app?cmd=ls", 200),
        ("DELETE", "/exec/ns/web/app", 405),
        ("GET", "/exec/ns/web", 404),
        ("GET", "/portforward/ns/web", 404),
        ("GET", "/containerLogs/ns/web/app", 200),
        ("POST", "/containerLogs/ns/web/app", 405),
        ("GET", "/manifests", 404),
        ("GET", "/", 404),
        ("GET", "/cri/exec/x", 404),
    ],
)
async def test_paths_and_methods(tmp_path: Path, method: str, path: str, status: int) -> None:
    async with a_port(tmp_path) as port:
        assert (await port.answer(method, path))[0] == status


@pytest.mark.parametrize(
    ("method", "path", "text"),
    [
        ("GET", "/nothing", "404 page not found\n"),
        ("GET", "/exec/ns", "404: Page Not Found"),
        ("POST", "/pods", "405: Method Not Allowed"),
    ],
)
async def test_the_routers_texts(tmp_path: Path, method: str, path: str, text: str) -> None:
    async with a_port(tmp_path) as port:
        assert (await port.answer(method, path))[1] == text


class TestHealth:
    async def test_verbose_and_excluded(self, tmp_path: Path) -> None:
        checks = {"ping": "", "syncloop": "too late"}
        async with a_port(tmp_path, callables(checks=lambda: checks)) as port:
            lines = "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n"
            assert await port.answer("GET", "/healthz") == (500, lines)
            assert await port.answer("GET", "/healthz?exclude=syncloop") == (200, "ok")
            lines = "[+]ping ok\n[+]syncloop excluded: ok\nhealthz check passed\n"
            answer = await port.answer("GET", "/healthz?verbose&exclude=syncloop")
            assert answer == (200, lines)
            assert await port.answer("GET", "/healthz/ping") == (200, "ok")
            text = "internal server error: too late\n"
            assert await port.answer("GET", "/healthz/syncloop") == (500, text)


DEBUG_PATHS = [
    "/run/a/b/c",
    "/exec/a/b/c",
    "/attach/a/b/c",
    "/portForward/a/b",
    "/containerLogs/a/b/c",
    "/runningpods/",
    "/debug/pprof/heap",
    "/logs/",
]


@pytest.mark.parametrize("path", DEBUG_PATHS)
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_debugging_switched_off(tmp_path: Path, path: str, method: str) -> None:
    async with a_port(tmp_path, debugging=False) as port:
        assert await port.answer(method, path) == (405, "Debug endpoints are disabled.\n")
        assert (await port.answer("GET", "/configz"))[0] == 404
        assert (await port.answer("GET", "/pods"))[0] == 200


class TestWhoMay:
    async def test_a_token(self, tmp_path: Path) -> None:
        async def review(token: str) -> User | None:
            return User("jane") if token == "good" else None

        async with a_port(tmp_path, rules=Rules(token_review=review)) as port:
            assert (await port.anonymous("/pods", Authorization="Bearer good"))[0] == 200
            denied = (401, "Unauthorized")
            assert await port.anonymous("/pods", Authorization="Bearer bad") == denied
            assert await port.anonymous("/pods") == denied
            assert await port.anonymous("/nothing") == denied
            assert await port.anonymous("/healthz") == denied

    async def test_an_apiserver_that_is_away(self, tmp_path: Path) -> None:
        async def review(_token: str) -> User | None:
            raise ReviewFailed("connection refused")

        async def may(_attributes: Attributes) -> bool:
            raise ReviewFailed("connection refused")

        async with a_port(tmp_path, rules=Rules(token_review=review, review=may)) as port:
            answer = await port.anonymous("/pods", Authorization="Bearer x")
            assert answer == (401, "Unauthorized")
            text = (
                "Authorization error (user=kube-apiserver-kubelet-client, verb=create, "
                "resource=nodes, subresource=proxy)"
            )
            assert await port.answer("POST", "/run/a/b/c") == (500, text)

    async def test_anonymous_is_asked_for_like_anybody(self, tmp_path: Path) -> None:
        asked = Asked()
        async with a_port(tmp_path, rules=Rules(anonymous=True, review=asked)) as port:
            text = (
                "Forbidden (user=system:anonymous, verb=get, resource=nodes, "
                "subresource(s)=[proxy])\n"
            )
            assert await port.anonymous("/containerLogs/a/b/c") == (403, text)
        (question,) = asked.questions
        assert (question.node, question.user.groups) == ("node1", ("system:unauthenticated",))

    async def test_who_may_not_reaches_no_handler(self, tmp_path: Path) -> None:
        streams = StreamsOf()
        asked = callables(streams=streams)
        async with a_port(tmp_path, asked, rules=Rules(review=Asked())) as port:
            assert (await port.answer("POST", "/exec/ns/web/app?output=1", SPDY))[0] == 403
        assert streams.asked == []


class TestStreams:
    @pytest.mark.parametrize(
        ("path", "question"),
        [
            (
                "/exec/ns/web/app?command=sh&command=-c&command=a%20b%2Bc+d&output=1&error=1",
                ("exec", APP, ("sh", "-c", "a b+c d"), Streams(stdout=True, stderr=True)),
            ),
            (
                "/exec/ns/web/the-uid/app?input=1&tty=1",
                ("exec", Target("ns", "web", "app", "the-uid"), (), Streams(stdin=True, tty=True)),
            ),
            ("/attach/ns/web/app?output=1", ("attach", APP, Streams(stdout=True))),
            ("/portForward/ns/web", ("port_forward", POD, ())),
            (
                "/portForward/ns/web/the-uid",
                ("port_forward", Target("ns", "web", uid="the-uid"), ()),
            ),
        ],
    )
    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_what_is_asked(
        self, tmp_path: Path, method: str, path: str, question: tuple[object, ...]
    ) -> None:
        streams = StreamsOf(refusal=Refused("enough"))
        async with a_port(tmp_path, callables(streams=streams)) as port:
            assert await port.answer(method, path, SPDY) == (500, "enough")
        assert streams.asked == [question]

    @pytest.mark.parametrize(
        ("path", "text"),
        [
            ("/exec/ns/web/app", "you must specify at least 1 of stdin, stdout, stderr"),
            ("/attach/ns/web/app", "you must specify at least 1 of stdin, stdout, stderr"),
        ],
    )
    async def test_bad_options(self, tmp_path: Path, path: str, text: str) -> None:
        async with a_port(tmp_path) as port:
            assert await port.answer("POST", path) == (400, text)

    async def test_a_refusal_may_tell_when_to_come_again(self, tmp_path: Path) -> None:
        streams = StreamsOf(refusal=Refused("busy", 429, retry_after=60))
        async with (
            a_port(tmp_path, callables(streams=streams)) as port,
            port.session(port.admin) as session,
            session.post("/exec/ns/web/app?output=1") as reply,
        ):
            assert (reply.status, reply.headers["Retry-After"]) == (429, "60")

    async def test_run_splits_at_single_spaces(self, tmp_path: Path) -> None:
        streams = StreamsOf(url="out err")
        async with a_port(tmp_path, callables(streams=streams)) as port:
            assert await port.answer("POST", "/run/ns/web/app?cmd=echo%20%20a") == (200, "out err")
        assert streams.asked == [("run", APP, ("echo", "", "a"))]


async def test_logs_come_over_the_port(tmp_path: Path) -> None:
    async with a_port(tmp_path, callables(log=Log([b"one\n", b"two\n"]))) as port:
        assert await port.answer("GET", "/containerLogs/ns/web/app") == (200, "one\ntwo\n")
