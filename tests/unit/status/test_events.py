from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from minikubelet.kube.errors import Forbidden, Unavailable
from minikubelet.observe.events import NORMAL, WARNING, PodRef, node_ref
from minikubelet.status.correlate import Correlator, News
from minikubelet.status.events import QUEUE, APIEvents
from tests.apiserver import MemoryAPI
from tests.unit.pods.harness import jump
from tests.unit.simulated import Clock

pytestmark = pytest.mark.anyio
REF = PodRef("ns", "web", "uid-1", "spec.containers{c}")
EVENTS = "/api/v1/namespaces/ns/events"


@asynccontextmanager
async def sending(api: MemoryAPI, **fields: Any) -> AsyncIterator[APIEvents]:
    sink = APIEvents(api, "n1", Clock(), lambda: 0.5, **fields)
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        group.start_soon(sink.run)
        yield sink
        group.cancel_scope.cancel()


async def test_an_event_has_the_kubelet_s_shape() -> None:
    api = MemoryAPI()
    async with sending(api) as sink:
        sink.emit(REF, NORMAL, "Started", "Container started")
        sink.emit(node_ref("n1"), NORMAL, "Starting", "Starting kubelet.")
        await anyio.sleep(1)
    first, second = (request.body for request in api.sent("POST"))
    assert first["involvedObject"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "ns",
        "name": "web",
        "uid": "uid-1",
        "fieldPath": "spec.containers{c}",
    }
    assert first["source"] == {"component": "kubelet", "host": "n1"}
    assert (first["type"], first["reason"], first["count"]) == ("Normal", "Started", 1)
    assert first["metadata"]["name"].startswith("web.")
    # What `kubectl describe node` asks for: the name in place of a uid.
    node = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1"}
    assert second["involvedObject"] == node
    assert second["metadata"]["namespace"] == "default"


async def test_a_repeat_raises_the_count_of_the_event_there_is() -> None:
    api = MemoryAPI()
    async with sending(api) as sink:
        for _ in range(4):
            sink.emit(REF, WARNING, "BackOff", "Back-off")
            await anyio.sleep(10)
    events = [d for path, d in api.objects.items() if path.startswith(EVENTS)]
    assert len(events) == 1
    assert events[0]["count"] == 4
    assert events[0]["lastTimestamp"] > events[0]["firstTimestamp"]


async def test_an_event_that_has_expired_is_made_again() -> None:
    api = MemoryAPI()
    async with sending(api) as sink:
        sink.emit(REF, WARNING, "BackOff", "Back-off")
        await anyio.sleep(1)
        for path in list(api.objects):
            api.drop(path)
        sink.emit(REF, WARNING, "BackOff", "Back-off")
        await anyio.sleep(1)
    assert [document["count"] for document in api.objects.values()] == [1]


async def test_events_of_an_outage_come_later_and_nobody_waits() -> None:
    api = MemoryAPI(always=Unavailable("connection refused"))
    async with sending(api) as sink:
        for number in range(5):
            sink.emit(REF, NORMAL, f"R{number}", "text")
        await anyio.sleep(60)
        assert len(api.requests) < 12
        api.always = None
        await anyio.sleep(30)
    assert len(api.objects) == 5


async def test_repeats_of_an_outage_are_one_request_with_their_count() -> None:
    api = MemoryAPI(always=Unavailable("connection refused"))
    async with sending(api) as sink:
        for _ in range(7):
            sink.emit(REF, WARNING, "BackOff", "Back-off")
            sink.emit(REF, WARNING, "Unhealthy", "Readiness probe failed: ")
            await anyio.sleep(2)
        api.always = None
        begin = len(api.requests)
        await anyio.sleep(30)
    assert sorted(document["count"] for document in api.objects.values()) == [7, 7]
    # One that was on its way already, and one for all the others.
    assert len(api.requests) - begin == 4


async def test_a_full_queue_drops_and_counts() -> None:
    api = MemoryAPI(always=Unavailable("connection refused"))
    async with sending(api) as sink:
        for number in range(QUEUE + 7):
            sink.emit(PodRef("ns", f"p{number}", "u"), NORMAL, "R", "text")
        assert sink.dropped == 7


async def test_a_refused_event_is_not_tried_again() -> None:
    api = MemoryAPI(failures=[Forbidden("namespace is being terminated", code=403)])
    async with sending(api) as sink:
        sink.emit(REF, NORMAL, "A", "text")
        sink.emit(REF, NORMAL, "B", "text")
        await anyio.sleep(60)
    assert [request.body["reason"] for request in api.requests] == ["A", "B"]


async def test_the_rate_is_kept() -> None:
    api = MemoryAPI()
    async with sending(api, qps=2.0, burst=3) as sink:
        for number in range(13):
            sink.emit(PodRef("ns", f"p{number}", "u"), NORMAL, "R", "text")
        await anyio.sleep(1.1)
        assert len(api.requests) in (4, 5)
        await anyio.sleep(4)
        assert len(api.requests) == 13


def news(message: str = "text", reason: str = "R") -> News:
    return News(REF, WARNING, reason, message, 0)


def test_many_similar_events_are_combined() -> None:
    correlator = Correlator()
    taken = [correlator.take(news(f"m{number}"), 1.0) for number in range(14)]
    assert all(taken)
    combined = {id(sent) for sent in taken[9:]}
    assert len(combined) == 1
    last = taken[-1]
    assert last is not None
    assert (last.message, last.count) == ("(combined from similar events): m13", 5)


def test_similar_events_far_apart_are_not_combined() -> None:
    correlator = Correlator()
    for number in range(30):
        sent = correlator.take(news(f"m{number}"), number * 700.0)
        assert sent is not None
        assert sent.message == f"m{number}"


def test_a_flood_about_one_object_is_cut_and_trickles_on() -> None:
    correlator = Correlator()
    taken = [correlator.take(news(reason=f"R{n}"), 0.0) is not None for n in range(40)]
    assert sum(taken) == 25
    assert correlator.take(news(), 299.0) is None
    assert correlator.take(news(), 601.0) is not None
