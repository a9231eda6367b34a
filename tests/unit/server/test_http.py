"""The server on a real socket: who may open it, who serves on it, how it ends."""

import asyncio
import socket
import stat
import time
from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from minikubelet.server.callables import NotFound, NotReady
from minikubelet.server.http import (
    SHUTDOWN_SECONDS,
    health_api,
    local_api,
    serve_port,
    serve_socket,
)
from minikubelet.server.listen import CannotListen, private_listener
from tests.unit.server.serving import Log, answer, callables, serving

pytestmark = pytest.mark.anyio


class TestTheSocket:
    async def test_only_its_owner_may_open_it(self, tmp_path: Path) -> None:
        async with serving(tmp_path, callables()) as agent:
            mode = agent.socket_path.stat().st_mode
            assert stat.S_ISSOCK(mode)
            assert stat.S_IMODE(mode) == 0o600

    async def test_its_folder_is_made_and_it_is_removed_at_the_end(self, tmp_path: Path) -> None:
        async with serving(tmp_path / "root", callables()) as agent:
            assert agent.socket_path.exists()
        assert not agent.socket_path.exists()

    async def test_a_leftover_of_a_killed_agent_is_replaced(self, tmp_path: Path) -> None:
        path = tmp_path / "minikubelet.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        async with serving(tmp_path, callables()):
            assert await answer(path, "/healthz") == (200, b"ok")

    async def test_a_second_agent_is_refused_and_the_first_goes_on(self, tmp_path: Path) -> None:
        async with serving(tmp_path, callables()) as agent:
            with pytest.raises(CannotListen, match="another agent runs and serves there"):
                await serve_socket(local_api(callables()), agent.socket_path)
            assert await answer(agent.socket_path, "/healthz") == (200, b"ok")

    async def test_an_agent_that_is_too_busy_to_accept_is_alive(self, tmp_path: Path) -> None:
        path = tmp_path / "minikubelet.sock"
        with socket.socket(socket.AF_UNIX) as busy, socket.socket(socket.AF_UNIX) as waiting:
            busy.bind(str(path))
            busy.listen(0)
            waiting.connect(str(path))
            with pytest.raises(CannotListen, match="another agent"):
                await serve_socket(local_api(callables()), path)

    async def test_the_socket_of_a_successor_is_left_alone(self, tmp_path: Path) -> None:
        async with serving(tmp_path, callables()) as agent:
            agent.socket_path.unlink()
            with socket.socket(socket.AF_UNIX) as successor:
                successor.bind(str(agent.socket_path))
        assert agent.socket_path.exists()

    async def test_a_path_that_is_too_long_names_the_flag(self, tmp_path: Path) -> None:
        path = tmp_path / ("x" * 100) / "minikubelet.sock"
        with pytest.raises(CannotListen, match="at most 107 bytes; choose a shorter --root-dir"):
            await serve_socket(local_api(callables()), path)


class TestTheEnd:
    async def test_a_follower_does_not_hold_it_up(self, tmp_path: Path) -> None:
        log = Log([b"first"], endless=True)
        async with serving(tmp_path, callables(log=log)) as agent:
            stream = await anyio.connect_unix(agent.socket_path)
            await stream.send(b"GET /containerLogs/a/b/c?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
            await log.opened.wait()
            began = time.monotonic()
        assert time.monotonic() - began < SHUTDOWN_SECONDS / 2
        assert log.closed.is_set()
        await stream.aclose()

    async def test_a_stream_that_is_cut_does_not_look_complete(self, tmp_path: Path) -> None:
        log = Log([b"first"], endless=True)
        received = b""
        async with anyio.create_task_group() as group:
            started = anyio.Event()

            async def follow() -> None:
                nonlocal received
                async with await anyio.connect_unix(tmp_path / "minikubelet.sock") as stream:
                    await stream.send(b"GET /containerLogs/a/b/c HTTP/1.1\r\nHost: x\r\n\r\n")
                    try:
                        async for piece in stream:
                            received += piece
                            if b"first" in received:
                                started.set()
                    except anyio.BrokenResourceError:
                        received += b"<reset>"

            async with serving(tmp_path, callables(log=log)):
                group.start_soon(follow)
                await started.wait()
        assert b"first" in received
        assert b"0\r\n\r\n" not in received  # the mark of a complete chunked answer

    async def test_a_client_that_goes_away_leaves_no_task(self, tmp_path: Path) -> None:
        log = Log(endless=True)
        async with serving(tmp_path, callables(log=log)) as agent:
            before = len(asyncio.all_tasks())
            stream = await anyio.connect_unix(agent.socket_path)
            await stream.send(b"GET /containerLogs/a/b/c?follow=true HTTP/1.1\r\nHost: x\r\n\r\n")
            await log.opened.wait()
            assert len(asyncio.all_tasks()) > before
            await stream.aclose()
            with anyio.fail_after(2):
                await log.closed.wait()
                await anyio.wait_all_tasks_blocked()
            assert len(asyncio.all_tasks()) == before


class TestAnswers:
    async def test_health_and_what_is_wrong(self, tmp_path: Path) -> None:
        wrong: list[str] = []
        async with serving(tmp_path, callables(problems=lambda: wrong)) as agent:
            assert await answer(agent.socket_path, "/healthz") == (200, b"ok")
            wrong.append("container runtime is down")
            status, body = await answer(agent.socket_path, "/healthz")
            assert (status, body) == (500, b"[-]container runtime is down\n")

    async def test_an_unexpected_failure_is_told_and_logged(self, tmp_path: Path) -> None:
        def broken() -> dict[str, str]:
            raise RuntimeError("the agent isn't started")

        with capture_logs() as logs:
            async with serving(tmp_path, callables(pods=broken)) as agent:
                status, body = await answer(agent.socket_path, "/pods")
        assert status == 500
        assert body == b"cannot answer: RuntimeError: the agent isn't started\n"
        assert [(entry["event"], entry["path"]) for entry in logs] == [("cannot answer", "/pods")]

    async def test_an_unknown_path_is_404(self, tmp_path: Path) -> None:
        async with serving(tmp_path, callables()) as agent:
            assert (await answer(agent.socket_path, "/nothing"))[0] == 404

    @pytest.mark.parametrize(
        ("refusal", "status"), [(NotFound('pod "a" does not exist'), 404), (NotReady("later"), 400)]
    )
    async def test_refusals_of_logs(self, tmp_path: Path, refusal: Exception, status: int) -> None:
        async with serving(tmp_path, callables(log=Log(refusal=refusal))) as agent:
            found = await answer(agent.socket_path, "/containerLogs/default/a/c")
            assert found == (status, str(refusal).encode())

    async def test_a_silent_log_is_answered_at_once(self, tmp_path: Path) -> None:
        log = Log(endless=True)
        async with (
            serving(tmp_path, callables(log=log)) as agent,
            await anyio.connect_unix(agent.socket_path) as stream,
        ):
            await stream.send(b"GET /containerLogs/a/b/c HTTP/1.1\r\nHost: x\r\n\r\n")
            with anyio.fail_after(2):
                assert (await stream.receive()).startswith(b"HTTP/1.1 200")

    async def test_pods_of_a_full_node_come_quickly(self, tmp_path: Path) -> None:
        pod = {"metadata": {"name": "a" * 50}, "spec": {"containers": [{"name": "c"}] * 3}}
        full = {"kind": "PodList", "items": [pod] * 110}
        async with serving(tmp_path, callables(pods=lambda: full)) as agent:
            began = time.monotonic()
            assert len(await anyio.to_thread.run_sync(lambda: agent.get("/pods")["items"])) == 110
            assert time.monotonic() - began < 1


async def test_one_agent_serves_even_when_its_socket_was_removed(tmp_path: Path) -> None:
    async with serving(tmp_path, callables()) as agent:
        Path(agent.socket_path).unlink()
        with (
            pytest.raises(CannotListen, match="another agent runs"),
            private_listener(Path(agent.socket_path)),
        ):
            pass
    with private_listener(Path(agent.socket_path)):
        pass


class TestThePort:
    async def test_it_serves_health_only(self) -> None:
        async with anyio.create_task_group() as group:
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            await group.start(serve_port, health_api(callables()), "127.0.0.1", port)
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"GET /pods HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert b"404" in await stream.receive()
            group.cancel_scope.cancel()

    async def test_a_taken_port_is_told_and_done_without(self) -> None:
        with socket.socket() as taken, capture_logs() as logs:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            await serve_port(health_api(callables()), "127.0.0.1", taken.getsockname()[1])
        assert [entry["log_level"] for entry in logs] == ["warning"]
