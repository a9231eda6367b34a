"""List and watch on simulated time, against an apiserver in memory."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise

import anyio
import pytest
from anyio.lowlevel import checkpoint
from structlog.testing import capture_logs

from minikubelet.kube.errors import (
    APIError,
    Forbidden,
    Gone,
    ServerError,
    TooManyRequests,
    Unauthorized,
    Unavailable,
)
from minikubelet.kube.reflector import Objects, Timing, list_watch
from tests.unit.kube.memory import MemoryAPI

pytestmark = pytest.mark.anyio

PATH = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def anyio_backend(simulated_backend: object) -> object:
    return simulated_backend


class Seen:
    """What a receiver was told."""

    def __init__(self) -> None:
        self.sets: list[Objects] = []
        self.problems: list[str] = []

    async def on_set(self, objects: Objects) -> None:
        self.sets.append(objects)

    @property
    def names(self) -> list[list[str]]:
        return [sorted(objects) for objects in self.sets]


@asynccontextmanager
async def reflecting(api: MemoryAPI, *, random: float = 0.5) -> AsyncIterator[Seen]:
    seen = Seen()

    async def run() -> None:
        await list_watch(
            api,
            PATH,
            {"labelSelector": "a=b"},
            seen.on_set,
            on_problem=seen.problems.append,
            timing=Timing(random=lambda: random),
        )

    async with anyio.create_task_group() as group:
        group.start_soon(run)
        await anyio.sleep(0.1)
        yield seen
        group.cancel_scope.cancel()


async def test_the_set_is_told_after_the_list_and_after_each_change() -> None:
    api = MemoryAPI()
    api.put("a")
    async with reflecting(api) as seen:
        api.put("b")
        await anyio.sleep(0.1)
        api.put("b", data={"x": "1"})
        await anyio.sleep(0.1)
        api.delete("a")
        await anyio.sleep(0.1)
    assert seen.names == [
        ["default/a"],
        ["default/a", "default/b"],
        ["default/a", "default/b"],
        ["default/b"],
    ]
    assert "data" not in seen.sets[1]["default/b"]
    assert seen.sets[2]["default/b"]["data"] == {"x": "1"}
    assert api.verbs() == ["list", "watch"]
    assert all(call.query["labelSelector"] == "a=b" for call in api.calls)


async def test_items_of_a_list_look_as_events_do() -> None:
    api = MemoryAPI()
    api.put("a")
    async with reflecting(api) as seen:
        api.put("b")
        await anyio.sleep(0.1)
    for document in seen.sets[-1].values():
        assert (document["apiVersion"], document["kind"]) == ("v1", "ConfigMap")
        assert "managedFields" not in document["metadata"]


async def test_an_empty_list_is_told_too() -> None:
    async with reflecting(MemoryAPI()) as seen:
        pass
    assert seen.sets == [{}]


async def test_pages_make_one_set() -> None:
    api = MemoryAPI(page_size=2)
    for name in "abcde":
        api.put(name)
    async with reflecting(api) as seen:
        pass
    assert seen.names == [[f"default/{name}" for name in "abcde"]]
    assert [call.query.get("continue") for call in api.calls] == [None, "2", "4", None]


async def test_expired_pages_lead_to_a_list_without_pages() -> None:
    api = MemoryAPI(page_size=2, pages_expire=True)
    for name in "abc":
        api.put(name)
    async with reflecting(api) as seen:
        pass
    assert seen.names == [["default/a", "default/b", "default/c"]]
    assert [call.query.get("limit") for call in api.calls[:3]] == ["500", "500", None]


async def test_bookmarks_tell_nobody_but_move_the_version_on() -> None:
    api = MemoryAPI()
    with capture_logs() as logs:
        async with reflecting(api) as seen:
            api.bookmark()
            await anyio.sleep(0.1)
            api.compacted = api.version
            api.send(None)
            await anyio.sleep(1)
    assert logs == []
    assert len(seen.sets) == 1
    assert api.verbs() == ["list", "watch", "watch"]
    assert api.calls[-1].query["resourceVersion"] == str(api.version)
    assert api.calls[-1].query["allowWatchBookmarks"] == "true"


@pytest.mark.parametrize(("random", "seconds"), [(0.0, 40), (0.999, 50)])
async def test_a_watch_ends_after_40_to_50_seconds_and_the_next_goes_on(
    random: float, seconds: int
) -> None:
    api = MemoryAPI()
    async with reflecting(api, random=random) as seen:
        await anyio.sleep(seconds * 2 + 1)
        api.put("a")
        await anyio.sleep(0.1)
    assert api.verbs() == ["list", "watch", "watch", "watch"]
    assert {call.query["timeoutSeconds"] for call in api.calls[1:]} == {str(seconds)}
    assert seen.names == [[], ["default/a"]]
    assert seen.problems == []


async def test_a_connection_that_died_silently_is_noticed_within_a_minute() -> None:
    api = MemoryAPI()
    async with reflecting(api, random=0.999) as seen:
        api.watches[0].go_silent()
        api.put("a")
        await anyio.sleep(60)
        assert seen.names == [[], ["default/a"]]
    assert "list" not in api.verbs()[1:]
    assert seen.problems == []


async def test_a_broken_connection_goes_on_from_the_last_version() -> None:
    api = MemoryAPI()
    async with reflecting(api) as seen:
        api.put("a")
        await anyio.sleep(0.1)
        api.send(Unavailable("reset"))
        api.put("b")
        await anyio.sleep(1)
    assert seen.names == [[], ["default/a"], ["default/a", "default/b"]]
    assert api.verbs() == ["list", "watch", "watch"]
    assert seen.problems == []


@pytest.mark.parametrize("way", ["event", "answer"])
async def test_410_leads_to_a_new_list_at_once_and_tells_only_changes(way: str) -> None:
    api = MemoryAPI()
    async with reflecting(api) as seen:
        for _ in range(2):
            if way == "event":
                api.send({"type": "ERROR", "object": {"kind": "Status", "code": 410}})
            else:
                api.failures.append(Gone("too old", code=410))
                api.send({"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "1"}}})
                await checkpoint()
                api.send(None)
            await anyio.sleep(0.1)
            api.put("a")
            await anyio.sleep(1)
    assert seen.names == [[], ["default/a"], ["default/a"]]
    assert api.verbs().count("list") == 3
    assert seen.problems == []


async def test_a_change_during_a_410_is_found_by_the_list() -> None:
    api = MemoryAPI()
    api.put("a")
    async with reflecting(api) as seen:
        api.watches[0].silent = True
        api.put("b")
        api.delete("a")
        api.watches[0].silent = False
        api.send({"type": "ERROR", "object": {"kind": "Status", "code": 410}})
        await anyio.sleep(0.1)
    assert seen.names == [["default/a"], ["default/b"]]


async def test_endless_410_is_not_answered_by_endless_lists() -> None:
    api = MemoryAPI()
    api.compacted = 1_000_000
    async with reflecting(api):
        await anyio.sleep(600)
    assert api.verbs().count("list") < 40


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("refused"),
        ServerError("broken", code=500),
        Unauthorized("who?", code=401),
        Forbidden("no", code=403),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_failures_are_tried_again_ever_more_slowly_and_told_once(error: APIError) -> None:
    api = MemoryAPI()
    api.put("a")
    api.failures.extend([error] * 10)
    with capture_logs() as logs:
        async with reflecting(api, random=1.0) as seen:
            await anyio.sleep(600)
    seconds = [call.second for call in api.calls]
    pauses = [round(later - sooner, 1) for sooner, later in pairwise(seconds)]
    assert pauses[:10] == [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30, 30, 30]
    assert seen.problems == [error.message, ""]
    assert seen.names == [["default/a"]]
    assert [log["event"] for log in logs if log["log_level"] == "warning"] == [
        "objects may be out of date"
    ]


async def test_retry_after_is_honoured() -> None:
    api = MemoryAPI()
    api.failures.append(TooManyRequests("later", code=429, retry_after=20))
    async with reflecting(api, random=0.0) as seen:
        await anyio.sleep(20)
        assert seen.sets == []
        await anyio.sleep(0.5)
        assert seen.sets == [{}]


async def test_after_an_outage_nodes_come_back_spread_out() -> None:
    firsts = []
    for number in range(8):
        api = MemoryAPI()
        api.failures.extend([Unavailable("refused")] * 8)
        async with reflecting(api, random=number / 8):
            await anyio.sleep(400)
        firsts.append(api.calls[8].second - api.calls[0].second)
    assert max(firsts) - min(firsts) > 30
    assert len({round(first) for first in firsts}) == 8


async def test_after_a_success_the_pauses_are_short_again() -> None:
    api = MemoryAPI()
    async with reflecting(api, random=1.0) as seen:
        for _ in range(2):
            api.failures.extend([Unavailable("refused")] * 3)
            api.send(Unavailable("reset"))
            await anyio.sleep(60)
    assert seen.problems == ["refused", "", "refused", ""]
    seconds = [call.second for call in api.calls if call.verb == "watch"]
    pauses = [round(later - sooner, 1) for sooner, later in pairwise(seconds)]
    assert pauses.count(1.6) == 2


async def test_a_server_that_ends_every_watch_at_once_is_not_overrun() -> None:
    api = MemoryAPI()
    async with reflecting(api):

        async def end_all() -> None:
            while True:
                api.send(None)
                await anyio.sleep(0.01)

        with anyio.move_on_after(600):
            await end_all()
    assert len(api.calls) < 50


async def test_what_has_no_name_is_left_out_and_the_rest_goes_on() -> None:
    api = MemoryAPI()
    api.objects["bad"] = {"metadata": {"resourceVersion": "1"}}
    api.put("a")
    async with reflecting(api) as seen:
        api.send({"type": "ADDED", "object": {"metadata": {"resourceVersion": "999"}}})
        api.put("b")
        await anyio.sleep(0.1)
    assert seen.names == [["default/a"], ["default/a", "default/b"]]


async def test_nonsense_from_the_server_is_a_failure_and_no_end() -> None:
    api = MemoryAPI()
    async with reflecting(api) as seen:
        api.send({"type": "ADDED"})
        await anyio.sleep(0.1)
        assert "no object.metadata" in seen.problems[0]
        await anyio.sleep(2)
        api.put("a")
        await anyio.sleep(0.1)
    assert seen.names == [[], ["default/a"]]
    assert seen.problems[-1] == ""


async def test_it_is_started_once_the_first_list_was_told() -> None:
    api = MemoryAPI()
    api.failures.append(Unavailable("refused"))
    seen = Seen()
    async with anyio.create_task_group() as group:
        await group.start(list_watch_of(api, seen))
        assert seen.sets == [{}]
        group.cancel_scope.cancel()


def list_watch_of(api: MemoryAPI, seen: Seen):  # type: ignore[no-untyped-def]  # noqa: ANN201  TaskGroup.start's own shape
    async def run(*, task_status):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  as above
        await list_watch(api, PATH, {}, seen.on_set, task_status=task_status)

    return run


async def test_watches_that_break_again_and_again_are_told_once() -> None:
    api = MemoryAPI()
    async with reflecting(api) as seen:
        with anyio.move_on_after(100):
            while True:
                api.send(Unavailable("reset"))
                await anyio.sleep(0.01)
        assert seen.problems == ["reset"]
        await anyio.sleep(120)
    assert seen.problems == ["reset", ""]
