"""Streams of a runtime through the node's own port: TLS, a client certificate, WebSocket v4."""

import asyncio
import gc
import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlencode

import aiohttp
import anyio
import pytest

from minikubelet.agent.streams import refused
from minikubelet.cri.errors import CRIError
from minikubelet.cri.services import RuntimeService, Streams
from minikubelet.server.callables import Target
from tests.contract.conftest import PROGRAMS, SLEEP, Harness
from tests.contract.streaming import CLOSED_PORT, ECHO_PORT, TICK, streaming
from tests.unit.server.port import a_port
from tests.unit.server.serving import StreamsOf, callables
from tests.websockets import STDERR, STDIN, STDOUT, Channels, channels, exit_code

pytestmark = pytest.mark.anyio

LISTEN = f"nc -ll -p {ECHO_PORT} -e cat"
MEGABYTE = 1 << 20
UNKNOWN = "f" * 64

for script in (TICK, LISTEN):
    PROGRAMS.setdefault(script, PROGRAMS[SLEEP])


class Direct(StreamsOf):
    """Streams of a runtime whose ids are given where a client names a container or pod."""

    def __init__(self, runtime: RuntimeService) -> None:
        super().__init__()
        self.runtime = runtime
        self.urls: list[str] = []

    async def exec(self, target: Target, command: Sequence[str], streams: Streams) -> str:
        return await self._url(lambda: self.runtime.exec(target.container, command, streams))

    async def attach(self, target: Target, streams: Streams) -> str:
        return await self._url(lambda: self.runtime.attach(target.container, streams))

    async def port_forward(self, target: Target, ports: Sequence[int]) -> str:
        return await self._url(lambda: self.runtime.port_forward(target.pod, ports))

    async def _url(self, ask: Callable[[], Awaitable[str]]) -> str:
        try:
            self.urls.append(await ask())
        except CRIError as error:
            raise refused(error) from None
        return self.urls[-1]


@asynccontextmanager
async def through(
    harness: Harness, folder: Path
) -> AsyncIterator[tuple[aiohttp.ClientSession, Direct]]:
    """A client of a port that serves this runtime's streams."""
    direct = Direct(harness.runtime)
    async with AsyncExitStack() as stack:
        if harness.fake is not None:
            await stack.enter_async_context(streaming(harness.fake))
        port = await stack.enter_async_context(a_port(folder, callables(streams=direct)))
        yield await stack.enter_async_context(port.session(port.admin)), direct


def exec_path(container_id: str, script: str, *, stdin: bool = False) -> str:
    query = [("command", "/bin/sh"), ("command", "-c"), ("command", script)]
    query += [("output", "1"), ("error", "1"), *([("input", "1")] if stdin else [])]
    return f"/exec/ns/pod/{container_id}?{urlencode(query)}"


async def test_a_command_with_its_output_and_exit_code(harness: Harness, tmp_path: Path) -> None:
    container_id = await harness.start(SLEEP)
    path = exec_path(container_id, "echo out; echo err >&2; exit 4")
    async with through(harness, tmp_path) as (session, _), channels(session, path) as command:
        status = await command.status()
        assert exit_code(status) == 4
        assert command.received[STDOUT] == b"out\n"
        assert command.received[STDERR] == b"err\n"


async def test_twenty_megabytes_both_ways(harness: Harness, tmp_path: Path) -> None:
    container_id = await harness.start(SLEEP)
    data = os.urandom(20 * MEGABYTE)
    path = exec_path(container_id, f"head -c {len(data)}", stdin=True)
    async with through(harness, tmp_path) as (session, _), channels(session, path) as command:
        async with anyio.create_task_group() as group:
            group.start_soon(command.send, STDIN, data)
            status = await command.status()
        assert exit_code(status) == 0
        found = hashlib.sha256(command.received[STDOUT]).hexdigest()
        assert found == hashlib.sha256(data).hexdigest()


async def test_attach_hears_the_container(harness: Harness, tmp_path: Path) -> None:
    container_id = await harness.start(TICK)
    path = f"/attach/ns/pod/{container_id}?output=1&error=1"
    async with through(harness, tmp_path) as (session, _), channels(session, path) as attached:
        assert await attached.until(STDOUT, 5) == b"tick\n"


async def test_fifty_forwarded_connections_at_once(harness: Harness, tmp_path: Path) -> None:
    sandbox_id = await harness.sandbox()
    await harness.start(LISTEN, sandbox_id)
    wrong: list[int] = []
    async with through(harness, tmp_path) as (session, _):
        await until_it_listens(session, sandbox_id)
        tasks, files = len(asyncio.all_tasks()), open_files()

        async def one(number: int, forwarded: Channels) -> None:
            data = bytes([number]) * 100_000
            await forwarded.send(0, data)
            # Two bytes tell the port first, one byte was to see whether it listens.
            if (await forwarded.until(0, 3 + len(data)))[3:] != data:
                wrong.append(number)

        path = f"/portForward/ns/{sandbox_id}?port={ECHO_PORT}"
        async with AsyncExitStack() as stack, anyio.create_task_group() as group:
            opened = []
            for _ in range(50):
                forwarded = await stack.enter_async_context(channels(session, path))
                # nc takes two newcomers at a time.
                await forwarded.send(0, b"x")
                await forwarded.until(0, 3)
                opened.append(forwarded)
            for number, forwarded in enumerate(opened):
                group.start_soon(one, number, forwarded)
        assert wrong == []
        with anyio.fail_after(10):
            while len(asyncio.all_tasks()) > tasks + 2 or open_files() > files + 2:
                gc.collect()
                await anyio.sleep(0.05)


async def test_B58_a_port_that_refuses_ends_its_stream_only(
    harness: Harness, tmp_path: Path
) -> None:
    sandbox_id = await harness.sandbox()
    await harness.start(LISTEN, sandbox_id)
    async with through(harness, tmp_path) as (session, _):
        await until_it_listens(session, sandbox_id)
        path = f"/portForward/ns/{sandbox_id}?port={CLOSED_PORT}&port={ECHO_PORT}"
        async with channels(session, path) as forwarded:
            await forwarded.until(1, 2 + len("connection refused"))
            assert b"refused" in forwarded.received[1]
            await forwarded.send(2, b"still here")
            assert (await forwarded.until(2, 12))[2:] == b"still here"


class TestRefusals:
    async def test_a_ticket_is_good_for_one_connection(
        self, harness: Harness, tmp_path: Path
    ) -> None:
        container_id = await harness.start(SLEEP)
        async with through(harness, tmp_path) as (session, direct):
            async with channels(session, exec_path(container_id, "true")) as command:
                assert exit_code(await command.status()) == 0
            asked = StreamsOf(direct.urls[0])
            (tmp_path / "again").mkdir()
            async with (
                a_port(tmp_path / "again", callables(streams=asked)) as port,
                port.session(port.admin) as other,
            ):
                with pytest.raises(aiohttp.WSServerHandshakeError) as error:
                    async with channels(other, exec_path(container_id, "true")):
                        pass
                assert error.value.status == 404

    async def test_an_unknown_container(self, harness: Harness, tmp_path: Path) -> None:
        async with through(harness, tmp_path) as (session, _):
            with pytest.raises(aiohttp.WSServerHandshakeError) as error:
                async with channels(session, exec_path(UNKNOWN, "true")):
                    pass
            assert error.value.status == 404

    async def test_what_the_runtime_checks_itself(self, harness: Harness) -> None:
        container_id = await harness.start(SLEEP)
        for streams in (Streams(), Streams(stdout=True, stderr=True, tty=True)):
            with pytest.raises(CRIError) as error:
                await harness.runtime.exec(container_id, ["true"], streams)
            assert error.value.code == "InvalidArgument"

    async def test_a_container_that_has_ended(self, harness: Harness) -> None:
        container_id = await harness.start("exit 0")
        await harness.exited(container_id)
        with pytest.raises(CRIError, match="container is in CONTAINER_EXITED state"):
            await harness.runtime.exec(container_id, ["true"], Streams(stdout=True))
        with pytest.raises(CRIError):
            await harness.runtime.port_forward(UNKNOWN, [80])


async def until_it_listens(session: aiohttp.ClientSession, sandbox_id: str) -> None:
    """Wait until the echo in a pod answers."""
    with anyio.fail_after(10):
        while True:
            path = f"/portForward/ns/{sandbox_id}?port={ECHO_PORT}"
            async with channels(session, path) as forwarded:
                await forwarded.send(0, b"x")
                while await forwarded.next() is not None:
                    if len(forwarded.received.get(0, b"")) > 2:
                        return
                    if len(forwarded.received.get(1, b"")) > 2:
                        break
            await anyio.sleep(0.05)


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))
