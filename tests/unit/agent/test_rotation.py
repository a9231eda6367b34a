"""The node's connection while its certificate is missing: who waits, when the agent gives up."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
import trio.testing

from minikubelet.agent.late import LateAPI
from minikubelet.agent.rotation import RotatingIdentity
from minikubelet.config.load import load
from minikubelet.kube.api import API
from minikubelet.kube.client import Connection
from minikubelet.kube.errors import Unavailable
from minikubelet.node.certificates import Held, client_template
from minikubelet.node.certificates_manager import CertificateManager
from minikubelet.node.certificates_store import CertificateStore
from tests.apiserver import MemoryAPI

pytestmark = pytest.mark.anyio
START = 1_700_000_000


@pytest.fixture
def anyio_backend() -> Any:
    return ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0)})


class Clock:
    def monotonic(self) -> float:
        return anyio.current_time()

    def wall_ns(self) -> int:
        return round((START + anyio.current_time()) * 1e9)


class Server(MemoryAPI):
    """A connection to an apiserver in memory."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True


def a_connection() -> tuple[Server, Connection]:
    server = Server()
    server.put("/api/v1/nodes/n1", {"metadata": {"name": "n1"}})
    return server, cast("Connection", server)


class TestLateAPI:
    async def test_a_request_waits_for_the_connection_and_goes_on(self) -> None:
        api, found = LateAPI(), []

        async def ask() -> None:
            found.append(await api.request("GET", "/api/v1/nodes/n1"))

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            await anyio.sleep(20)
            assert found == []
            await api.use(a_connection()[1])
        assert found[0]["metadata"]["name"] == "n1"

    async def test_it_fails_within_its_own_time_as_if_the_server_were_away(self) -> None:
        api, begun = LateAPI(), anyio.current_time()
        with pytest.raises(Unavailable, match="no client certificate yet"):
            await api.request("GET", "/api/v1/nodes/n1", timeout=7)
        assert anyio.current_time() - begun == pytest.approx(7)
        with pytest.raises(Unavailable):
            async with api.watch("/api/v1/nodes", {}, 3):
                pass
        assert anyio.current_time() - begun == pytest.approx(10)

    async def test_a_watch_waits_too(self) -> None:
        api = LateAPI()
        server, connection = a_connection()
        async with anyio.create_task_group() as group:

            async def later() -> None:
                await anyio.sleep(5)
                await api.use(connection)

            group.start_soon(later)
            async with api.watch("/api/v1/nodes", {}, 30) as events:
                server.put("/api/v1/nodes/n2", {"metadata": {"name": "n2"}})
                assert (await events.receive())["object"]["metadata"]["name"] == "n2"

    async def test_an_exchanged_connection_is_closed(self) -> None:
        api = LateAPI()
        old, connection = a_connection()
        await api.use(connection)
        await api.use(a_connection()[1])
        assert old.closed


@asynccontextmanager
async def waiting(
    folder: Path, held: Held | None, *, answers: bool
) -> AsyncIterator[tuple[CertificateManager, list[float]]]:
    """Run the watch over a manager that never gets anything; its end is noted."""
    flags = [f"--cert-dir={folder}", "--kubeconfig=/k", "--hostname-override=n1"]
    identity = RotatingIdentity(load(flags), Clock())

    async def nobody() -> API:
        raise Unavailable("nobody")

    manager = CertificateManager(
        CertificateStore(str(folder), "kubelet-client"),
        lambda: client_template("n1"),
        nobody,
        Clock(),
        lambda: 0.5,
    )
    manager.held, manager.server_answers = held, answers
    begun, ended = anyio.current_time(), []

    async def watch() -> None:
        with pytest.raises(SystemExit, match="no valid client certificate for 5 minutes"):
            await identity._end_when_hopeless(manager)
        ended.append(anyio.current_time() - begun)

    async with anyio.create_task_group() as group:
        group.start_soon(watch)
        yield manager, ended
        group.cancel_scope.cancel()


class TestHopeless:
    async def test_after_five_minutes_without_a_certificate_the_agent_ends(
        self, tmp_path: Path
    ) -> None:
        async with waiting(tmp_path, None, answers=True) as (_, ended):
            await anyio.sleep(290)
            assert ended == []
            await anyio.sleep(30)
            assert len(ended) == 1

    async def test_five_minutes_count_from_the_end_of_the_last_one(self, tmp_path: Path) -> None:
        lasts = 1234
        held = Held(START, START + anyio.current_time() + lasts)
        async with waiting(tmp_path, held, answers=True) as (_, ended):
            await anyio.sleep(lasts + 290)
            assert ended == []
            await anyio.sleep(30)
            assert ended == [pytest.approx(lasts + 300, abs=15)]

    async def test_while_the_server_is_away_the_agent_waits(self, tmp_path: Path) -> None:
        async with waiting(tmp_path, None, answers=False) as (manager, ended):
            await anyio.sleep(5000)
            assert ended == []
            manager.server_answers = True
            await anyio.sleep(15)
            assert len(ended) == 1

    async def test_a_certificate_in_time_is_enough(self, tmp_path: Path) -> None:
        async with waiting(tmp_path, None, answers=True) as (manager, ended):
            await anyio.sleep(250)
            manager.held = Held(START, START + anyio.current_time() + 10_000)
            await anyio.sleep(5000)
            assert ended == []
