"""Raw bytes through the port to a runtime's streaming server, over TLS."""

import asyncio
import gc
import hashlib
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import anyio
import pytest

from tests.unit.server.port import SWITCH, Backend, Port, Talk, a_port, echo, silence
from tests.unit.server.serving import StreamsOf, callables

pytestmark = pytest.mark.anyio

MEGABYTE = 1 << 20
EXEC = "/exec/default/web/app?command=sh&input=1&output=1"


@asynccontextmanager
async def joined(
    folder: Path, talk: Talk = echo, *, idle_seconds: float = 0, head: bytes = SWITCH
) -> AsyncIterator[tuple[Port, Backend]]:
    async with Backend(talk, head).listening() as runtime:
        asked = callables(streams=StreamsOf(runtime.url))
        async with a_port(folder, asked, idle_seconds=idle_seconds) as port:
            yield port, runtime


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def until_back_to(tasks: int, files: int) -> None:
    """Wait until no more tasks and files are there than before."""
    with anyio.fail_after(5):
        while len(asyncio.all_tasks()) > tasks or open_files() > files:
            gc.collect()
            await anyio.sleep(0.01)


async def pump(port: Port, data: bytes) -> bytes:
    """Send everything, read as much back."""
    reader, writer, _ = await port.upgraded(EXEC)

    async def send() -> None:
        for at in range(0, len(data), MEGABYTE):
            writer.write(data[at : at + MEGABYTE])
            await writer.drain()

    async with anyio.create_task_group() as group:
        group.start_soon(send)
        found = await reader.readexactly(len(data))
    writer.close()
    await writer.wait_closed()
    return found


async def test_the_head_is_rewritten_and_the_answer_comes_as_it_was(tmp_path: Path) -> None:
    async with joined(tmp_path) as (port, runtime):
        _, writer, head = await port.upgraded(EXEC)
        assert head == runtime.head
        sent = (
            b"POST /exec/ticket?x=1 HTTP/1.1\r\nHost: node\r\nConnection: Upgrade\r\n"
            b"Upgrade: SPDY/3.1\r\nX-Stream-Protocol-Version: v4.channel.k8s.io\r\n"
            b"X-Forwarded-For: 127.0.0.1\r\n\r\n"
        )
        assert runtime.heads == [sent]
        writer.close()


async def test_thirty_megabytes_both_ways_at_once(tmp_path: Path) -> None:
    data = os.urandom(30 * MEGABYTE)
    async with joined(tmp_path) as (port, _):
        found = await pump(port, data)
    assert hashlib.sha256(found).digest() == hashlib.sha256(data).digest()


async def test_fifty_connections_at_once_leave_nothing_behind(tmp_path: Path) -> None:
    async with joined(tmp_path) as (port, runtime):
        await pump(port, b"warm up")
        tasks, files = len(asyncio.all_tasks()), open_files()
        wrong: list[int] = []

        async def one(number: int) -> None:
            data = bytes([number]) * (MEGABYTE // 4)
            if await pump(port, data) != data:
                wrong.append(number)

        async with anyio.create_task_group() as group:
            for number in range(50):
                group.start_soon(one, number)
        assert wrong == []
        await until_back_to(tasks, files)
        await runtime.all_closed()


class TestEnds:
    async def test_a_client_that_vanishes_ends_handler_and_backend(self, tmp_path: Path) -> None:
        async with joined(tmp_path) as (port, runtime):
            await pump(port, b"warm up")
            tasks, files = len(asyncio.all_tasks()), open_files()
            _, writer, _ = await port.upgraded(EXEC)
            assert runtime.open == 1
            writer.transport.abort()
            await until_back_to(tasks, files)
            await runtime.all_closed()

    async def test_what_the_runtime_sent_before_its_end_is_delivered(self, tmp_path: Path) -> None:
        data = os.urandom(4 * MEGABYTE)

        async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(data)
            await writer.drain()

        async with joined(tmp_path, talk) as (port, _):
            reader, writer, _ = await port.upgraded(EXEC)
            await anyio.sleep(0.2)  # a slow reader: the end is known before the data is taken
            assert await reader.read(-1) == data
            writer.close()

    async def test_the_last_words_reach_a_client_that_talks_on(self, tmp_path: Path) -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(1)
            writer.write(b"exit status 0")
            await writer.drain()

        async with joined(tmp_path, talk) as (port, runtime):
            reader, writer, _ = await port.upgraded(EXEC)

            async def talk_on() -> None:
                try:
                    while True:
                        writer.write(b"x" * 1000)
                        await writer.drain()
                        await asyncio.sleep(0)
                except OSError:
                    return

            async with anyio.create_task_group() as group:
                group.start_soon(talk_on)
                assert await reader.readexactly(13) == b"exit status 0"
                group.cancel_scope.cancel()
            writer.transport.abort()
            await runtime.all_closed()

    async def test_what_the_client_sent_before_its_end_is_delivered(self, tmp_path: Path) -> None:
        data = os.urandom(4 * MEGABYTE)
        found = bytearray()
        done = anyio.Event()

        async def talk(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            await anyio.sleep(0.2)  # a slow reader: the client is gone before all is taken
            while piece := await reader.read(1 << 16):
                found.extend(piece)
            done.set()

        async with joined(tmp_path, talk) as (port, _):
            _, writer, _ = await port.upgraded(EXEC)
            writer.write(data)
            writer.close()
            with anyio.fail_after(10):
                await done.wait()
        assert bytes(found) == data

    async def test_nothing_moves_for_too_long(self, tmp_path: Path) -> None:
        async with joined(tmp_path, idle_seconds=0.3) as (port, runtime):
            reader, writer, _ = await port.upgraded(EXEC)
            for _ in range(4):
                await anyio.sleep(0.15)
                writer.write(b"x")
                assert await reader.readexactly(1) == b"x"
            began = anyio.current_time()
            assert await reader.read(-1) == b""
            assert 0.2 < anyio.current_time() - began < 5
            writer.close()
            await writer.wait_closed()
            await runtime.all_closed()

    async def test_the_agents_end_does_not_wait_for_streams(self, tmp_path: Path) -> None:
        async with joined(tmp_path) as (port, _):
            reader, writer, _ = await port.upgraded(EXEC)
            began = anyio.current_time()
        assert anyio.current_time() - began < 2
        with suppress(ConnectionError):
            assert await reader.read(-1) == b""
        writer.close()


async def test_a_client_that_does_not_read_holds_the_runtime_up(tmp_path: Path) -> None:
    sent = 0

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while True:
            writer.write(b"x" * MEGABYTE)
            await writer.drain()
            sent += 1

    async with joined(tmp_path, talk) as (port, _):
        reader, writer, _ = await port.upgraded(EXEC)
        await anyio.sleep(0.5)
        held = sent
        await anyio.sleep(0.3)
        assert sent == held < 20
        await reader.readexactly((held + 5) * MEGABYTE)
        assert sent > held
        writer.transport.abort()


class TestRefusals:
    async def test_a_plain_request(self, tmp_path: Path) -> None:
        async with joined(tmp_path) as (port, runtime):
            assert await port.answer("POST", EXEC) == (500, "Upgrade request required\n")
            assert runtime.heads == []

    async def test_a_runtime_that_is_away(self, tmp_path: Path) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            url = f"http://127.0.0.1:{closed.getsockname()[1]}/exec/t"
            async with a_port(tmp_path, callables(streams=StreamsOf(url))) as port:
                _, writer, head = await port.upgraded(EXEC)
                assert head.startswith(b"HTTP/1.1 500")
                writer.close()

    @pytest.mark.parametrize(
        ("answer", "status", "body"),
        [
            pytest.param(
                b"HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\nX-A: b\r\n\r\ngone",
                404,
                b"gone",
                id="length",
            ),
            pytest.param(
                b"HTTP/1.1 403 Forbidden\r\nTransfer-Encoding: chunked\r\nX-A: b\r\n\r\n"
                b"4\r\ngone\r\n0\r\n\r\n",
                403,
                b"gone",
                id="chunked",
            ),
            pytest.param(
                b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
                500,
                b"invalid upgrade response: status code 200\n",
                id="no upgrade",
            ),
            pytest.param(
                b"nonsense\r\n\r\n", 500, b'malformed HTTP response "nonsense"\n', id="no HTTP"
            ),
        ],
    )
    async def test_the_runtimes_own(
        self, tmp_path: Path, answer: bytes, status: int, body: bytes
    ) -> None:
        async with joined(tmp_path, silence, head=answer) as (port, _):
            reader, writer, head = await port.upgraded(EXEC)
            assert head.startswith(f"HTTP/1.1 {status} ".encode())
            if status < 500:
                assert b"X-A: b\r\n" in head
            assert await reader.readexactly(len(body)) == body
            writer.close()

    async def test_a_runtime_that_hangs_up(self, tmp_path: Path) -> None:
        async def hang_up(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
            return

        async with joined(tmp_path, hang_up, head=b"HTTP/1.1 1") as (port, _):
            reader, writer, _ = await port.upgraded(EXEC)
            assert await reader.readexactly(15) == b"unexpected EOF\n"
            writer.close()
