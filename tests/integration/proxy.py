"""Faults between an agent and the apiserver: two proxies that tests put in front of it.

`Wire` carries bytes and knows no TLS: it delays, cuts, refuses, and stalls without a word, as a
network does. `Front` ends TLS with a certificate of the cluster's CA, carries requests one by one
and answers some of them itself, as an overloaded or upgraded apiserver does. Both run in a thread
of their own, so that tests of any kind, and agents in other processes, can use them.
"""

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar

import aiohttp
from aiohttp import web

from tests.clusters import Cluster, Keys

T = TypeVar("T")
_ROUNDS = 0.01
"""Seconds for an aborted transport to close its socket: that happens in the loop's next rounds."""
_HOP_BY_HOP = {"connection", "host", "keep-alive", "transfer-encoding", "upgrade"}


class _Threaded:
    """An event loop in a thread; subclasses serve on it between `_open` and `_close`."""

    def __init__(self, host: str) -> None:
        self.host = host
        self.port = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def url(self) -> str:
        return f"https://{self.host}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(30)

    async def _open(self) -> None:
        raise NotImplementedError

    async def _close(self) -> None:
        raise NotImplementedError


class Wire(_Threaded):
    """Carries connections to a host and port."""

    def __init__(self, target: tuple[str, int], host: str = "127.0.0.1") -> None:
        super().__init__(host)
        self.target = target
        self.delay = 0.0
        """Seconds that each piece is held up, in both directions."""
        self.accepted = 0
        """Connections ever accepted."""
        self._server: asyncio.Server | None = None
        self._open_pairs: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._flowing = asyncio.Event()
        self._flowing.set()

    @property
    def connections(self) -> int:
        """Connections that are open now."""
        return len(self._open_pairs)

    def stall(self) -> None:
        """From now on nothing passes in either direction; the connections stay open."""
        self._loop.call_soon_threadsafe(self._flowing.clear)

    def resume(self) -> None:
        """Let everything pass, also what was held up."""
        self._loop.call_soon_threadsafe(self._flowing.set)

    def cut(self) -> None:
        """Reset all connections; new ones are welcome."""
        self._run(self._cut())

    def refuse(self) -> None:
        """Reset all connections and refuse new ones."""
        self._run(self._stop_listening())
        self._run(self._cut())

    def accept(self) -> None:
        """Take connections again, on the same port."""
        self._run(self._open())

    async def _open(self) -> None:
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _close(self) -> None:
        await self._stop_listening()
        await self._cut()

    async def _stop_listening(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None

    async def _cut(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()
        pairs = list(self._open_pairs)
        for pair in pairs:
            pair.cancel()
        await asyncio.gather(*pairs, return_exceptions=True)
        await asyncio.sleep(_ROUNDS)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        assert task is not None
        self._open_pairs.add(task)
        self._writers.add(writer)
        other_writer = None
        try:
            other_reader, other_writer = await asyncio.open_connection(*self.target)
            self._writers.add(other_writer)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._carry(reader, other_writer))
                group.create_task(self._carry(other_reader, writer))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # one side is gone: so is the other
        finally:
            for one in (writer, other_writer):
                if one is not None:
                    self._writers.discard(one)
                    one.transport.abort()
            self._open_pairs.discard(task)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            if self.delay:
                await asyncio.sleep(self.delay)
            await self._flowing.wait()
            writer.write(data)
            await writer.drain()
        await self._flowing.wait()
        if writer.can_write_eof():
            writer.write_eof()


@dataclass
class Rule:
    """Answers `status` to the next `times` requests that match."""

    status: int
    matches: Callable[["Seen"], bool]
    times: float
    headers: dict[str, str]
    reason: str


@dataclass(frozen=True)
class Seen:
    """A request that came by, at a monotonic second."""

    second: float
    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    agent: str = ""

    @property
    def is_watch(self) -> bool:
        return self.query.get("watch") == "true"


class Front(_Threaded):
    """Carries requests to the cluster's apiserver, as the owner of `client` if that is given.

    Requests that upgrade their connection (exec) can't pass: use `Wire`.
    """

    def __init__(
        self, cluster: Cluster, client: Keys | None = None, host: str = "127.0.0.1"
    ) -> None:
        super().__init__(host)
        self.requests: list[Seen] = []
        self._cluster = cluster
        self._client = client
        san = f"IP:127.0.0.1,IP:{cluster.machine_address}"
        self._keys = cluster.keys("front", "/CN=front", "serverAuth", san)
        self._rules: list[Rule] = []

    def answer(
        self,
        status: int,
        matches: Callable[[Seen], bool] = lambda _: True,
        *,
        times: float = 1,
        retry_after: int | None = None,
        reason: str = "",
    ) -> None:
        """Answer the next requests that match, instead of carrying them."""
        headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
        self._rules.append(Rule(status, matches, times, headers, reason))

    def forget(self) -> None:
        """Carry everything again."""
        self._rules.clear()

    async def _open(self) -> None:
        upstream = ssl.create_default_context(cafile=str(self._cluster.ca))
        if self._client is not None:
            upstream.load_cert_chain(self._client.certificate, self._client.key)
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=upstream, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        own = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        own.load_cert_chain(self._keys.certificate, self._keys.key)
        application = web.Application(client_max_size=1 << 24)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, self.host, self.port, ssl_context=own).start()
        self.port = self._runner.addresses[0][1]

    async def _close(self) -> None:
        # A polite end of TLS waits for the client, which may be the thread that waits for us.
        for connection in self._runner.server.connections if self._runner.server else ():
            if connection.transport is not None:
                connection.transport.abort()
        await self._runner.cleanup()
        # The handler of a connection that is gone carries on, and keeps one to the apiserver.
        handlers = asyncio.all_tasks() - {asyncio.current_task()}
        for handler in handlers:
            handler.cancel()
        await asyncio.gather(*handlers, return_exceptions=True)
        await self._session.close()
        await asyncio.sleep(_ROUNDS)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        agent = request.headers.get("User-Agent", "")
        seen = Seen(time.monotonic(), request.method, request.path, dict(request.query), agent)
        self.requests.append(seen)
        for rule in self._rules:
            if rule.times > 0 and rule.matches(seen):
                rule.times -= 1
                return _status(rule)
        return await self._carry(request)

    async def _carry(self, request: web.Request) -> web.StreamResponse:
        async with self._session.request(
            request.method,
            self._cluster.server + request.raw_path,
            headers=_end_to_end(request.headers),
            data=await request.read(),
            allow_redirects=False,
        ) as answer:
            response = web.StreamResponse(status=answer.status, headers=_end_to_end(answer.headers))
            with suppress(ConnectionError):  # whoever asked has gone
                await response.prepare(request)
                async for data in answer.content.iter_any():
                    await response.write(data)
            return response


def _status(rule: Rule) -> web.Response:
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": rule.status,
        "reason": rule.reason,
        "message": f"the proxy answers {rule.status}",
    }
    return web.Response(
        status=rule.status,
        headers={"Content-Type": "application/json", **rule.headers},
        body=json.dumps(status),
    )


def _end_to_end(headers: Any) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
