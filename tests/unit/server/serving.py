"""A local API on a real unix socket, made of lambdas; asked through the command line's client."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from minikubelet.cli.client import Agent
from minikubelet.cri.services import Streams
from minikubelet.server.callables import Callables, LogRequest, Target
from minikubelet.server.http import local_api, serve_socket

EMPTY: Mapping[str, Any] = {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": []}


@dataclass
class Log:
    """A log that gives its pieces and then, if it is endless, waits; knows whether it is open."""

    pieces: Sequence[bytes] = ()
    endless: bool = False
    refusal: Exception | None = None
    opened: anyio.Event = field(default_factory=anyio.Event)
    closed: anyio.Event = field(default_factory=anyio.Event)
    requests: list[LogRequest] = field(default_factory=list)

    @asynccontextmanager
    async def read(self, request: LogRequest) -> AsyncIterator[AsyncIterator[bytes]]:
        self.requests.append(request)
        if self.refusal is not None:
            raise self.refusal
        self.opened.set()
        try:
            yield self._pieces()
        finally:
            self.closed.set()

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            yield piece
        if self.endless:
            await anyio.sleep_forever()


@dataclass
class StreamsOf:
    """Answers each question for streams with `url` or `refusal`, and notes it."""

    url: str = "http://127.0.0.1:1/none"
    refusal: Exception | None = None
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def exec(self, target: Target, command: Sequence[str], streams: Streams) -> str:
        return self._answer("exec", target, tuple(command), streams)

    async def attach(self, target: Target, streams: Streams) -> str:
        return self._answer("attach", target, streams)

    async def port_forward(self, target: Target, ports: Sequence[int]) -> str:
        return self._answer("port_forward", target, tuple(ports))

    async def run(self, target: Target, command: Sequence[str]) -> bytes:
        return self._answer("run", target, tuple(command)).encode()

    async def running_pods(self) -> Mapping[str, Any]:
        self._answer("running_pods")
        return EMPTY

    def _answer(self, *question: Any) -> str:
        self.asked.append(question)
        if self.refusal is not None:
            raise self.refusal
        return self.url


def callables(
    *,
    problems: Callable[[], Sequence[str]] = list,
    pods: Callable[[], Mapping[str, Any]] = lambda: EMPTY,
    manifests: Callable[[], Mapping[str, Any]] = lambda: {"manifests": []},
    log: Log | None = None,
    checks: Callable[[], Mapping[str, str]] = lambda: {"ping": ""},
    streams: StreamsOf | None = None,
) -> Callables:
    streams = streams or StreamsOf()

    def read(request: LogRequest) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return (log or Log()).read(request)

    return Callables(
        problems=problems,
        checks=checks,
        pods=pods,
        running_pods=streams.running_pods,
        manifests=manifests,
        configz=lambda: {"kubeletconfig": {"kind": "KubeletConfiguration"}},
        container_logs=read,
        run=streams.run,
        exec=streams.exec,
        attach=streams.attach,
        port_forward=streams.port_forward,
    )


@asynccontextmanager
async def serving(folder: Path, asked: Callables) -> AsyncIterator[Agent]:
    path = folder / "minikubelet.sock"
    async with anyio.create_task_group() as group:
        await group.start(serve_socket, local_api(asked), path)
        yield Agent(path)
        group.cancel_scope.cancel()


async def answer(path: Path, target: str) -> tuple[int, bytes]:
    """The status and the body of one request, without the client of the command line."""
    async with await anyio.connect_unix(path) as stream:
        await stream.send(f"GET {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n".encode())
        received = b""
        async for piece in stream:
            received += piece
    head, _, body = received.partition(b"\r\n\r\n")
    return int(head.split()[1]), body
