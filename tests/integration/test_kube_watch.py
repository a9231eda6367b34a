"""List and watch against a real kube-apiserver, undisturbed and through faults."""

import statistics
import time
from collections.abc import Iterator

import anyio
import anyio.to_thread
import pytest
from anyio import create_task_group

from minikubelet.kube.api import MERGE_PATCH, core_path
from minikubelet.kube.client import Connection
from minikubelet.kube.kubeconfig import Kubeconfig
from minikubelet.kube.reflector import Timing
from tests.clusters import Cluster
from tests.integration.conftest import Connect, through
from tests.integration.proxy import Front, Wire
from tests.integration.watched import eventually, watching

pytestmark = [pytest.mark.anyio, pytest.mark.root]

SHORT = Timing(shortest=2, longest=2, margin=0.5)


@pytest.fixture
def wire(apiserver: Cluster) -> Iterator[Wire]:
    with Wire((apiserver.address, 6443)) as proxy:
        yield proxy


@pytest.fixture
def front(apiserver: Cluster) -> Iterator[Front]:
    with Front(apiserver, apiserver.admin) as proxy:
        yield proxy


async def create(api: Connection, path: str, name: str) -> None:
    await api.request("POST", path, body={"metadata": {"name": name}})


def lists(front: Front) -> int:
    return sum(seen.method == "GET" and not seen.is_watch for seen in front.requests)


async def test_changes_are_seen(api: Connection, configmaps: str) -> None:
    async with watching(api, configmaps) as watched:
        await watched.until_names()
        await create(api, configmaps, "a")
        await watched.until_names("a")
        patch = {"data": {"x": "1"}}
        await api.request("PATCH", f"{configmaps}/a", body=patch, content_type=MERGE_PATCH)
        await watched.until(lambda w: w.told == 3)
        (document,) = (watched.objects or {}).values()
        assert (document["kind"], document["data"]) == ("ConfigMap", {"x": "1"})
        assert "managedFields" not in document["metadata"]
        await api.request("DELETE", f"{configmaps}/a")
        await watched.until_names()
    assert watched.problems == []


async def test_a_single_object_is_watched_by_its_name(api: Connection, configmaps: str) -> None:
    await create(api, configmaps, "a")
    async with watching(api, configmaps, fieldSelector="metadata.name=b") as watched:
        await watched.until_names()
        await create(api, configmaps, "b")
        await watched.until_names("b")


async def test_a_list_longer_than_a_page_is_whole(
    api: Connection, connected: Connect, config: Kubeconfig, front: Front, configmaps: str
) -> None:
    names = [f"c{number:03}" for number in range(510)]
    async with anyio.create_task_group() as group:
        for name in names:
            group.start_soon(create, api, configmaps, name)
    behind = await connected(through(config, front.url))
    async with watching(behind, configmaps) as watched:
        await watched.until_names(*names)
    assert lists(front) == 2
    assert watched.told == 1


async def test_bookmarks_move_the_version_on(
    api: Connection, connected: Connect, config: Kubeconfig, front: Front, configmaps: str
) -> None:
    behind = await connected(through(config, front.url))

    async def change_elsewhere() -> None:
        body = {"metadata": {"generateName": "elsewhere-"}}
        while True:
            await api.request("POST", core_path("kube-public", "configmaps"), body=body)
            await anyio.sleep(0.5)

    def versions() -> set[str]:
        return {seen.query["resourceVersion"] for seen in front.requests if seen.is_watch}

    # The apiserver sends a bookmark 2 s before the end of a watch, if it has anything new by then.
    timing = Timing(5, 5, 1)
    async with watching(behind, configmaps, timing=timing) as watched, create_task_group() as group:
        await watched.until_names()
        group.start_soon(change_elsewhere)
        await eventually(lambda: len(versions()) > 1, 30)
        group.cancel_scope.cancel()
        assert watched.told == 1
    assert lists(front) == 1
    assert watched.problems == []


async def test_a_restarted_apiserver_is_found_again_and_nothing_is_lost(
    api: Connection, apiserver: Cluster, configmaps: str
) -> None:
    await create(api, configmaps, "a")
    async with watching(api, configmaps) as watched:
        await watched.until_names("a")
        apiserver.kill("kube-apiserver")
        await watched.until(lambda w: bool(w.problems))
        await anyio.to_thread.run_sync(lambda: apiserver.start(minimal=True))
        await api.request("DELETE", f"{configmaps}/a")
        await create(api, configmaps, "b")
        await watched.until_names("b", seconds=20)
        await watched.until(lambda w: w.problems[-1] == "")
    async with api.watch(configmaps, {"resourceVersion": "1"}, 10) as events:
        event = await events.receive()
    # What the restarted server has no memory of: `test_after_410` shows what follows.
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


async def test_after_410_the_list_is_made_anew(
    api: Connection, connected: Connect, config: Kubeconfig, front: Front, configmaps: str
) -> None:
    behind = await connected(through(config, front.url))
    front.answer(410, lambda seen: seen.is_watch, reason="Expired")
    async with watching(behind, configmaps) as watched:
        await watched.until_names()
        await create(api, configmaps, "a")
        await watched.until_names("a")
    assert lists(front) == 2
    assert watched.problems == []


@pytest.mark.parametrize("status", [500, 429, 403])
async def test_errors_are_told_and_over_with_the_next_good_answer(
    api: Connection,
    connected: Connect,
    config: Kubeconfig,
    front: Front,
    configmaps: str,
    status: int,
) -> None:
    behind = await connected(through(config, front.url))
    front.answer(status, lambda seen: seen.is_watch, times=2)
    async with watching(behind, configmaps) as watched:
        await watched.until(lambda w: w.problems == [f"the proxy answers {status}", ""])
        await create(api, configmaps, "a")
        await watched.until_names("a")
    assert lists(front) == 1


async def test_a_cut_connection_loses_no_change(
    api: Connection, connected: Connect, config: Kubeconfig, wire: Wire, configmaps: str
) -> None:
    behind = await connected(through(config, wire.url))
    async with watching(behind, configmaps) as watched:
        await watched.until_names()
        wire.cut()
        await create(api, configmaps, "a")
        await watched.until_names("a")
    assert watched.problems == []


async def test_an_apiserver_that_is_away_is_told_and_found_again(
    api: Connection, connected: Connect, config: Kubeconfig, wire: Wire, configmaps: str
) -> None:
    behind = await connected(through(config, wire.url))
    async with watching(behind, configmaps) as watched:
        await watched.until_names()
        wire.refuse()
        await watched.until(lambda w: bool(w.problems))
        assert watched.problems[0].startswith(f"cannot reach the apiserver {wire.url}: ")
        await create(api, configmaps, "a")
        wire.accept()
        await watched.until_names("a")
    assert watched.problems[1:] == [""]


async def test_a_connection_that_stalls_silently_is_given_up(
    api: Connection, connected: Connect, config: Kubeconfig, wire: Wire, configmaps: str
) -> None:
    behind = await connected(through(config, wire.url))
    async with watching(behind, configmaps, timing=SHORT) as watched:
        await watched.until_names()
        wire.stall()
        await create(api, configmaps, "a")
        accepted = wire.accepted
        await eventually(lambda: wire.accepted > accepted, SHORT.longest + SHORT.margin + 2)
        wire.resume()
        await watched.until_names("a")


async def test_250_watches_delay_no_patch(api: Connection, configmaps: str) -> None:
    await create(api, configmaps, "patched")

    async def latency() -> float:
        seconds = []
        for number in range(20):
            begun = time.perf_counter()
            await api.request(
                "PATCH",
                f"{configmaps}/patched",
                body={"data": {"x": str(number)}},
                content_type=MERGE_PATCH,
            )
            seconds.append(time.perf_counter() - begun)
        return statistics.median(seconds)

    before = await latency()
    async with anyio.create_task_group() as group:

        async def watch(number: int) -> None:
            async with watching(api, configmaps, fieldSelector=f"metadata.name=o{number}") as w:
                await w.until_names()
                opened.append(number)
                await anyio.sleep_forever()

        opened: list[int] = []
        for number in range(250):
            group.start_soon(watch, number)
        await eventually(lambda: len(opened) == 250, 30)
        during = await latency()
        group.cancel_scope.cancel()
    assert during < before * 2 + 0.02


async def test_what_is_asked_of_the_server(
    connected: Connect, config: Kubeconfig, front: Front, configmaps: str
) -> None:
    behind = await connected(through(config, front.url))
    async with watching(behind, configmaps) as watched:
        await watched.until_names()
        await eventually(lambda: any(seen.is_watch for seen in front.requests))
    first, second = front.requests[:2]
    assert "resourceVersion" not in first.query
    assert 40 <= int(second.query["timeoutSeconds"]) <= 50
    assert second.query["allowWatchBookmarks"] == "true"
