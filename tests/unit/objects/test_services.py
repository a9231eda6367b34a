from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from minikubelet.kube.errors import Unavailable
from minikubelet.objects.services import Services
from tests.apiserver import MemoryAPI
from tests.unit.pods.harness import jump

pytestmark = pytest.mark.anyio

WEB: dict[str, Any] = {
    "metadata": {"name": "web", "namespace": "ns", "labels": {"a": "b"}},
    "spec": {
        "clusterIP": "192.0.2.9",
        "selector": {"a": "b"},
        "ports": [{"name": "http", "port": 80, "targetPort": 8080}],
    },
}
KEPT = {
    "metadata": {"name": "web", "namespace": "ns"},
    "spec": {"clusterIP": "192.0.2.9", "ports": [{"name": "http", "port": 80}]},
}


class Memory:
    def __init__(self, *kept: dict[str, Any], full: bool = False) -> None:
        self.kept: Sequence[dict[str, Any]] = kept
        self.full = full
        self.writes = 0

    async def load(self) -> Sequence[dict[str, Any]]:
        return self.kept

    async def save(self, services: Sequence[dict[str, Any]]) -> None:
        self.writes += 1
        if self.full:
            raise OSError("no space left on device")
        self.kept = services


@asynccontextmanager
async def watching(api: MemoryAPI, memory: Memory | None = None) -> AsyncIterator[Services]:
    services = Services(api)
    services.memory = memory
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        group.start_soon(services.run)
        yield services
        group.cancel_scope.cancel()


async def test_what_is_known_is_kept_without_what_nobody_needs() -> None:
    api, memory = MemoryAPI(), Memory()
    api.put("/api/v1/namespaces/ns/services/web", WEB)
    async with watching(api, memory) as services:
        assert [each["metadata"]["name"] for each in await services.all()] == ["web"]
        await anyio.sleep(1)
    assert list(memory.kept) == [KEPT]


async def test_many_changes_are_few_writes() -> None:
    api, memory = MemoryAPI(), Memory()
    async with watching(api, memory):
        for number in range(50):
            await anyio.sleep(0.5)
            spec = {**WEB["spec"], "clusterIP": f"192.0.2.{number}"}
            api.put("/api/v1/namespaces/ns/services/web", {**WEB, "spec": spec})
        await anyio.sleep(20)
    assert memory.writes <= 4
    assert memory.kept[0]["spec"]["clusterIP"] == "192.0.2.49"


async def test_the_remembered_serve_after_a_moment_of_silence() -> None:
    async with watching(MemoryAPI(always=Unavailable("away")), Memory(KEPT)) as services:
        began = anyio.current_time()
        assert list(await services.all()) == [KEPT]
        assert anyio.current_time() - began == 3
        # Who asks later doesn't wait again.
        assert list(await services.all()) == [KEPT]
        assert anyio.current_time() - began == 3


async def test_without_a_memory_nothing_is_made_up() -> None:
    async with watching(MemoryAPI(always=Unavailable("away")), Memory()) as services:
        with pytest.raises(Unavailable, match="services have not yet been read at least once"):
            await services.all()


async def test_a_full_disk_is_tried_again() -> None:
    api, memory = MemoryAPI(), Memory(full=True)
    api.put("/api/v1/namespaces/ns/services/web", WEB)
    async with watching(api, memory):
        await anyio.sleep(5)
        memory.full = False
        await anyio.sleep(10)
    assert list(memory.kept) == [KEPT]
