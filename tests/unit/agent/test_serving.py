"""The port out of the configuration: certificate, questions to the apiserver, refusals to start."""

import dataclasses
import ssl
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.abc import ObjectReceiveStream

from minikubelet.agent.serving import (
    ACCESS_REVIEWS,
    TOKEN_REVIEWS,
    access_review,
    serve_node_api,
    token_review,
)
from minikubelet.config.config import Config
from minikubelet.config.load import load
from minikubelet.kube import errors
from minikubelet.kube.api import JSON, REQUEST_SECONDS, Document, Pool
from minikubelet.server.authn import ReviewFailed, User
from minikubelet.server.authz import Attributes
from minikubelet.server.listen import CannotListen
from tests.unit.server.pki import SERVER, Authority
from tests.unit.server.port import Port
from tests.unit.server.serving import callables

pytestmark = pytest.mark.anyio
on_asyncio = pytest.mark.parametrize("anyio_backend", ["asyncio"])
"""For what needs aiohttp; the rest of this folder runs on simulated time."""

AWAY = errors.Unavailable("connection refused")


@dataclass
class Reviews:
    """An apiserver that reviews: answers in turn, an error is raised; the last one stays."""

    answers: list[Document | errors.APIError]
    asked: list[tuple[str, str, Any]] = field(default_factory=list)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        pool: Pool = Pool.REST,
        timeout: float = REQUEST_SECONDS,
    ) -> Document:
        self.asked.append((method, path, body))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, errors.APIError):
            raise answer
        return answer

    def watch(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> AbstractAsyncContextManager[ObjectReceiveStream[Document]]:
        raise NotImplementedError


class TestReviews:
    async def test_a_token(self) -> None:
        status = {"authenticated": True, "user": {"username": "jane", "groups": ["devs"]}}
        api = Reviews([{"status": status}])
        assert await token_review(api)("secret") == User("jane", groups=("devs",))
        ((method, path, body),) = api.asked
        assert (method, path) == ("POST", TOKEN_REVIEWS)
        assert (body["kind"], body["spec"]) == ("TokenReview", {"token": "secret"})

    @pytest.mark.parametrize("status", [{"allowed": True}, {"allowed": False}, {}, None])
    async def test_an_access(self, status: Document | None) -> None:
        api = Reviews([{"status": status}])
        user = User("jane", "7", ("devs",), (("k", ("v",)),))
        found = await access_review(api)(Attributes(user, "create", "proxy", "n1"))
        assert found is bool(status and status.get("allowed"))
        ((_, path, body),) = api.asked
        assert path == ACCESS_REVIEWS
        assert body["spec"] == {
            "user": "jane",
            "uid": "7",
            "groups": ["devs"],
            "extra": {"k": ["v"]},
            "resourceAttributes": {
                "verb": "create",
                "version": "v1",
                "resource": "nodes",
                "subresource": "proxy",
                "name": "n1",
            },
        }

    async def test_a_moment_without_an_apiserver_is_waited_for(self) -> None:
        api = Reviews([AWAY, errors.ServerError("hiccup"), {"status": {"authenticated": False}}])
        began = anyio.current_time()
        assert await token_review(api)("x") is None
        assert 1.25 <= anyio.current_time() - began <= 1.5

    async def test_a_longer_one_is_not(self) -> None:
        api = Reviews([AWAY])
        with pytest.raises(ReviewFailed, match="connection refused"):
            await token_review(api)("x")
        assert len(api.asked) == 5

    async def test_a_refusal_is_final(self) -> None:
        api = Reviews([errors.Forbidden("nodes may not review")])
        with pytest.raises(ReviewFailed, match="nodes may not review"):
            await access_review(api)(Attributes(User("a"), "get", "proxy", "n1"))
        assert len(api.asked) == 1


def configured(folder: Path, *flags: str) -> Config:
    return load(
        [
            f"--root-dir={folder}/root",
            f"--cert-dir={folder}/pki",
            "--hostname-override=localhost",
            "--address=127.0.0.1",
            "--port=1",  # replaced below: a configured port can't be 0
            *flags,
        ]
    )


async def started(group: Any, config: Config, api: Reviews | None = None) -> int:
    assert config.server is not None
    settings = dataclasses.replace(config.server, port=0)
    number: int = await group.start(
        serve_node_api, config, settings, callables(), api, ("127.0.0.1",)
    )
    return number


@on_asyncio
async def test_a_self_signed_port_for_anybody(tmp_path: Path) -> None:
    flags = ["--anonymous-auth", "--authentication-token-webhook=false"]
    config = configured(tmp_path, *flags, "--authorization-mode=AlwaysAllow")
    made = ""
    for _ in range(2):
        await a_self_signed_port(tmp_path, config)
        before, made = made, (tmp_path / "pki" / "kubelet.crt").read_text()
    assert before == made  # kept for the next start


async def a_self_signed_port(tmp_path: Path, config: Config) -> None:
    async with anyio.create_task_group() as group:
        number = await started(group, config)
        context = ssl.create_default_context(cafile=str(tmp_path / "pki" / "kubelet.crt"))
        stream = await anyio.connect_tcp(
            "127.0.0.1", number, tls=True, ssl_context=context, tls_hostname="localhost"
        )
        await stream.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert (await stream.receive()).startswith(b"HTTP/1.1 200 OK")
        await stream.aclose()
        group.cancel_scope.cancel()


@on_asyncio
async def test_the_apiserver_is_asked_once_for_many_requests(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    serving = authority.sign("node", usage=SERVER)
    config = configured(
        tmp_path,
        "--kubeconfig=/etc/kubernetes/kubelet.conf",
        f"--client-ca-file={authority.file}",
        f"--tls-cert-file={serving.cert}",
        f"--tls-private-key-file={serving.key}",
    )
    api = Reviews([{"status": {"allowed": True}}])
    async with anyio.create_task_group() as group:
        number = await started(group, config, api)
        assert config.server is not None
        port = Port(number, authority, authority.sign("jane", "devs"), None)  # type: ignore[arg-type]  # not used
        for _ in range(3):
            assert (await port.answer("GET", "/pods"))[0] == 200
        group.cancel_scope.cancel()
    ((_, path, body),) = api.asked
    assert path == ACCESS_REVIEWS
    assert body["spec"]["user"] == "jane"
    assert body["spec"]["groups"] == ["devs", "system:authenticated"]
    assert body["spec"]["resourceAttributes"]["name"] == "localhost"


@on_asyncio
@pytest.mark.parametrize(
    ("flags", "text"),
    [
        (["--tls-cert-file=/no/such.crt", "--tls-private-key-file=/no/such.key"], "/no/such.crt"),
        (["--client-ca-file=/no/such/ca.crt"], "No such file"),
        (["--kubeconfig=/etc/kubelet.conf", "--authorization-mode=Webhook"], "no apiserver to ask"),
        (["--address=192.0.2.1"], "192.0.2.1"),
    ],
)
async def test_what_can_not_be_served_is_told(tmp_path: Path, flags: list[str], text: str) -> None:
    open_to_all = ["--authentication-token-webhook=false", "--authorization-mode=AlwaysAllow"]
    config = configured(tmp_path, "--anonymous-auth", *open_to_all, *flags)
    with pytest.raises(BaseExceptionGroup) as group:
        async with anyio.create_task_group() as tasks:
            await started(tasks, config)
    (error,) = group.value.exceptions
    assert isinstance(error, CannotListen)
    assert text in str(error)
