"""The node's port on a real socket with TLS, and stand-ins for a runtime's streaming server."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import aiohttp
import anyio

from minikubelet.server.authn import Authenticator, TokenReview
from minikubelet.server.authz import Attributes, Review, allow_all
from minikubelet.server.callables import Callables
from minikubelet.server.http import serve_tls
from minikubelet.server.node_api import Access, node_api
from minikubelet.server.tls import KeyPair, ServingTLS
from tests.unit.server.pki import SERVER, Authority, Pair
from tests.unit.server.serving import callables

SPDY = {"Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
ADMIN = ("kube-apiserver-kubelet-client", "system:masters")


@dataclass
class Port:
    """A port that listens; `admin` may do everything by its certificate."""

    number: int
    authority: Authority
    admin: Pair
    tls: ServingTLS

    @property
    def url(self) -> str:
        return f"https://localhost:{self.number}"

    @asynccontextmanager
    async def session(self, pair: Pair | None = None) -> AsyncIterator[aiohttp.ClientSession]:
        context = self.authority.client_context(pair)
        connector = aiohttp.TCPConnector(ssl=context)
        async with aiohttp.ClientSession(self.url, connector=connector) as session:
            yield session

    async def answer(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        *,
        pair: Pair | None = None,
    ) -> tuple[int, str]:
        """The status and the body of one request; the admin's unless said otherwise."""
        async with (
            self.session(pair or self.admin) as session,
            session.request(method, path, headers=headers) as reply,
        ):
            return reply.status, await reply.text()

    async def anonymous(self, path: str, **headers: str) -> tuple[int, str]:
        """The same without a certificate."""
        async with self.session() as session, session.get(path, headers=headers) as reply:
            return reply.status, await reply.text()

    async def upgraded(self, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
        """Ask for SPDY; return the streams and the head of the answer."""
        reader, writer = await asyncio.open_connection(
            "localhost", self.number, ssl=self.authority.client_context(self.admin), limit=1 << 20
        )
        lines = [f"POST {path} HTTP/1.1", "Host: node", *(f"{k}: {v}" for k, v in SPDY.items())]
        writer.write(
            (
                "\r\n".join([*lines, "X-Stream-Protocol-Version: v4.channel.k8s.io"]) + "\r\n\r\n"
            ).encode()
        )
        return reader, writer, await reader.readuntil(b"\r\n\r\n")


@dataclass(frozen=True)
class Rules:
    """Who may use a port."""

    token_review: TokenReview | None = None
    anonymous: bool = False
    review: Review = allow_all


@asynccontextmanager
async def a_port(
    folder: Path,
    asked: Callables | None = None,
    *,
    rules: Rules | None = None,
    idle_seconds: float = 0,
    debugging: bool = True,
    min_version: str = "",
    silent_seconds: float = 30,
) -> AsyncIterator[Port]:
    rules = rules or Rules()
    authority = Authority(folder)
    serving = authority.sign("node", usage=SERVER)
    tls = ServingTLS(
        lambda: KeyPair(serving.cert, serving.key),
        client_ca_file=str(authority.file),
        min_version=min_version,
    )
    authenticator = Authenticator(rules.token_review, anonymous=rules.anonymous, ttl=120)
    access = Access("node1", authenticator, rules.review, tls)
    app = node_api(asked or callables(), access, idle_seconds=idle_seconds, debugging=debugging)
    async with anyio.create_task_group() as group:
        serve = partial(serve_tls, silent_seconds=silent_seconds)
        number = await group.start(serve, app, "127.0.0.1", 0, tls.context())
        yield Port(number, authority, authority.sign(*ADMIN), tls)
        group.cancel_scope.cancel()


@dataclass
class Asked:
    """A review that lets nobody in and notes what was asked."""

    questions: list[Attributes] = field(default_factory=list)

    async def __call__(self, attributes: Attributes) -> bool:
        self.questions.append(attributes)
        return False


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"


@dataclass
class Backend:
    """A runtime's streaming server: takes the head, answers `head`, then talks."""

    talk: Talk
    head: bytes = SWITCH
    heads: list[bytes] = field(default_factory=list)
    open: int = 0
    url: str = ""
    _idle: anyio.Event = field(default_factory=anyio.Event)

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Backend"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/exec/ticket?x=1"
        async with server:
            yield self

    async def all_closed(self) -> None:
        """Wait until every connection has ended."""
        with anyio.fail_after(5):
            await self._idle.wait()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open += 1
        self._idle = anyio.Event()
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(self.head)
            await self.talk(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):
            writer.close()
        finally:
            self.open -= 1
            if not self.open:
                self._idle.set()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()


async def silence(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    await reader.read(1)
