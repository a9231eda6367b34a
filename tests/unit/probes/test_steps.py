"""Exchanges that belong to no event loop: within a task, and many in one."""

import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from minikubelet.probes.sockets import connect, is_address, receive, send
from minikubelet.probes.steps import Flight, OutOfTime, Reactor, drive, readable
from tests.unit.probes.server import STAY, serving

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


async def ask(port: int, text: bytes = b"hi") -> bytes:
    connected = await connect(["127.0.0.1"], port)
    try:
        await send(connected, text)
        return await receive(connected)
    except OutOfTime:
        return b"too late"
    finally:
        connected.close()


@asynccontextmanager
async def reacting() -> AsyncIterator[Reactor]:
    reactor = Reactor()
    async with anyio.create_task_group() as group:
        group.start_soon(reactor.run)
        yield reactor
        group.cancel_scope.cancel()


class Results:
    def __init__(self, expected: int) -> None:
        self.seen: list[object] = []
        self._expected = expected
        self._all = anyio.Event()

    def __call__(self, result: object) -> None:
        self.seen.append(result)
        if len(self.seen) == self._expected:
            self._all.set()

    async def all(self) -> list[object]:
        with anyio.fail_after(10):
            await self._all.wait()
        return self.seen


async def test_one_within_a_task() -> None:
    async with serving(b"hello") as server:
        assert await drive(ask(server.port)) == b"hello"
    assert server.asked == [b"hi"]


async def test_a_time_limit_is_raised_inside() -> None:
    async with serving(STAY) as server:
        assert await drive(ask(server.port), 0.05) == b"too late"


async def test_a_cancelled_exchange_closes_its_socket() -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  as short as it gets
    async with serving(STAY) as server:
        with anyio.move_on_after(0.05):
            await drive(ask(server.port))
    assert len(os.listdir("/proc/self/fd")) <= before  # noqa: PTH208  as above


async def test_hundreds_in_one_task() -> None:
    results = Results(300)
    async with serving(*[b"hello"] * 300) as server, reacting() as reactor:
        for _ in range(300):
            reactor.start(Flight(ask(server.port), results))
        assert set(await results.all()) == {b"hello"}


async def test_one_is_over_time_the_others_go_on() -> None:
    late, others = Results(1), Results(2)
    async with serving(STAY, b"hello", b"hello") as server, reacting() as reactor:
        slow = Flight(ask(server.port), late)
        reactor.start(slow)
        await anyio.sleep(0.05)
        reactor.start(Flight(ask(server.port), others))
        reactor.expire(slow)
        assert await late.all() == [b"too late"]
        # The descriptor is another's now: what is over can't be ended again.
        reactor.start(Flight(ask(server.port), others))
        reactor.expire(slow)
        assert await others.all() == [b"hello", b"hello"]
    assert late.seen == [b"too late"]


async def test_an_error_is_the_result() -> None:
    async def refused() -> bytes:
        return await ask(1)

    results = Results(1)
    async with reacting() as reactor:
        reactor.start(Flight(refused(), results))
        (error,) = await results.all()
    assert isinstance(error, OSError)
    assert str(error) == "dial tcp 127.0.0.1:1: connect: connection refused"


async def test_what_is_under_way_at_the_end_is_closed() -> None:
    ours, theirs = socket.socketpair()
    ours.settimeout(0)
    ends: list[str] = []

    async def waiting() -> None:
        try:
            await readable(ours)
        finally:
            ends.append("closed")

    async with reacting() as reactor:
        reactor.start(Flight(waiting(), lambda _: ends.append("result")))
        await anyio.sleep(0.01)
    assert ends == ["closed"]
    ours.close()
    theirs.close()


@pytest.mark.parametrize(
    ("host", "expected"), [("10.0.0.1", True), ("fd00::1", True), ("localhost", False), ("", False)]
)
def test_addresses(host: str, expected: bool) -> None:
    assert is_address(host) is expected
