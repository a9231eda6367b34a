"""Connections that say nothing, or nothing that makes sense."""

import asyncio
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from tests.unit.server.port import Port, a_port

pytestmark = pytest.mark.anyio


async def dialled(port: Port) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    context = port.authority.client_context(port.admin)
    return await asyncio.open_connection("localhost", port.number, ssl=context)


@pytest.mark.parametrize("said", [b"", b"GET /pods HTTP/1.1\r\nHost: x\r\nX: "])
async def test_whoever_asks_for_nothing_is_let_go(tmp_path: Path, said: bytes) -> None:
    async with a_port(tmp_path, silent_seconds=0.2) as port:
        reader, writer = await dialled(port)
        writer.write(said)
        with anyio.fail_after(5), suppress(ConnectionError):
            assert await reader.read() == b""


async def test_whoever_has_asked_may_stay(tmp_path: Path) -> None:
    async with a_port(tmp_path, silent_seconds=0.2) as port:
        reader, writer = await dialled(port)
        for _ in range(2):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200")
            assert await reader.readexactly(2) == b"ok"
            await anyio.sleep(0.4)
        writer.close()


async def test_what_is_no_request_fills_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with a_port(tmp_path) as port:
        with capture_logs() as logs:
            reader, writer = await dialled(port)
            writer.write(b"GET /" + b"a" * 20000 + b" HTTP/1.1\r\n\r\n")
            assert (await reader.read()).startswith(b"HTTP/1.0 400")
    assert logs == []
    assert caplog.records == []
