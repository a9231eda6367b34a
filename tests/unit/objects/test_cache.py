from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from minikubelet.kube.errors import Forbidden, NotFound, Unavailable
from minikubelet.objects.cache import CONFIG_MAPS, ObjectCache, Ref
from tests.apiserver import MemoryAPI
from tests.unit.pods.harness import jump

pytestmark = pytest.mark.anyio
REF = Ref(CONFIG_MAPS, "ns", "app")
PATH = "/api/v1/namespaces/ns/configmaps/app"


@asynccontextmanager
async def a_cache(api: MemoryAPI, changed: list[str]) -> AsyncIterator[ObjectCache]:
    cache = ObjectCache(api, changed.append)
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        await group.start(cache.run)
        yield cache
        group.cancel_scope.cancel()


def stored(api: MemoryAPI, **fields: Any) -> None:
    api.put(PATH, {"metadata": {"name": "app", "namespace": "ns"}, "data": {"k": "v"}} | fields)


async def test_an_object_is_read_once_for_all_its_users_and_watched() -> None:
    api, changed = MemoryAPI(), list[str]()
    stored(api)
    async with a_cache(api, changed) as cache:
        for uid in ("a", "b", "c"):
            cache.use(uid, [REF])
            assert (await cache.get(REF))["data"] == {"k": "v"}
        assert len(api.sent("GET")) == 1
        assert changed == []
        stored(api, data={"k": "w"})
        await anyio.sleep(1)
        assert sorted(changed) == ["a", "b", "c"]
        assert (await cache.get(REF))["data"] == {"k": "w"}


async def test_the_last_user_ends_the_watch() -> None:
    api = MemoryAPI()
    stored(api)
    async with a_cache(api, []) as cache:
        cache.use("a", [REF])
        cache.use("b", [REF])
        await cache.get(REF)
        assert len(api.watchers) == 1
        cache.use("a", [])
        await anyio.sleep(1)
        assert len(api.watchers) == 1
        cache.use("b", [])
        await anyio.sleep(1)
        assert api.watchers == []
        with pytest.raises(Unavailable, match="no pod of this node uses it"):
            await cache.get(REF)


async def test_a_missing_object_is_told_and_found_when_it_comes() -> None:
    api, changed = MemoryAPI(), list[str]()
    async with a_cache(api, changed) as cache:
        cache.use("a", [REF])
        with pytest.raises(NotFound, match='configmap "app" not found'):
            await cache.get(REF)
        stored(api)
        await anyio.sleep(1)
        assert changed == ["a"]
        assert (await cache.get(REF))["data"] == {"k": "v"}
        api.drop(PATH)
        await anyio.sleep(1)
        with pytest.raises(NotFound):
            await cache.get(REF)


async def test_an_immutable_object_is_not_watched() -> None:
    api = MemoryAPI()
    stored(api, immutable=True)
    async with a_cache(api, []) as cache:
        cache.use("a", [REF])
        assert (await cache.get(REF))["immutable"]
        await anyio.sleep(300)
        assert api.watchers == []
        assert len(api.requests) == 1
        assert (await cache.get(REF))["immutable"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Unavailable("connection refused"), id="away"),
        pytest.param(Forbidden("no relationship found", code=403), id="forbidden"),
    ],
)
async def test_why_an_object_can_not_be_read_is_told_soon(error: Any) -> None:
    api = MemoryAPI(always=error)
    async with a_cache(api, []) as cache:
        cache.use("a", [REF])
        began = anyio.current_time()
        with pytest.raises(Unavailable, match=str(error)):
            await cache.get(REF)
        assert anyio.current_time() - began < 3
        api.always = None
        stored(api)
        await anyio.sleep(40)
        assert (await cache.get(REF))["data"] == {"k": "v"}


async def test_a_pod_that_was_bound_just_now_waits_for_the_authorizer() -> None:
    refusal = Forbidden("no relationship found", code=403)
    api = MemoryAPI(failures=[refusal])
    stored(api)
    async with a_cache(api, []) as cache:
        cache.use("a", [REF])
        assert (await cache.get(REF))["data"] == {"k": "v"}


async def test_an_outage_keeps_what_was_known() -> None:
    api = MemoryAPI()
    stored(api)
    async with a_cache(api, []) as cache:
        cache.use("a", [REF])
        await cache.get(REF)
        api.always = Unavailable("connection refused")
        await anyio.sleep(600)
        assert (await cache.get(REF))["data"] == {"k": "v"}


async def test_what_was_in_use_before_a_crash_is_watched_again() -> None:
    api, changed = MemoryAPI(), list[str]()
    stored(api)
    cache = ObjectCache(api, changed.append)
    cache.use("a", [REF])
    for _ in range(2):
        async with anyio.create_task_group() as group:
            group.start_soon(jump)
            await group.start(cache.run)
            await anyio.sleep(1)
            stored(api, data={"k": str(api.version)})
            await anyio.sleep(1)
            assert (await cache.get(REF))["data"] == {"k": str(api.version - 1)}
            group.cancel_scope.cancel()
    assert set(changed) == {"a"}
