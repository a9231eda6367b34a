from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
import pytest

from minikubelet.api.record import PodRecord
from minikubelet.api.status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    PodCondition,
    PodIP,
    PodStatus,
)
from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.errors import Unavailable, of
from minikubelet.status.manager import HOLD_MAX, HOLD_SECONDS, StatusManager
from tests.apiserver import MemoryAPI
from tests.builders import a_pod
from tests.unit.pods.harness import jump
from tests.unit.simulated import Clock

pytestmark = pytest.mark.anyio

PATH = kube.pods_path("default", "pod")
PENDING = PodStatus(phase="Pending", qos_class="BestEffort", start_time="2026-01-01T00:00:00Z")
RUNNING = msgspec.structs.replace(PENDING, phase="Running")


@pytest.fixture
def api() -> MemoryAPI:
    return MemoryAPI()


def record_of(document: Document) -> PodRecord:
    return PodRecord(msgspec.convert(document, type(a_pod())), document)


def stored(api: MemoryAPI, uid: str = "uid-1", **fields: Any) -> PodRecord:
    pod: Document = msgspec.to_builtins(a_pod(uid=uid, **fields))
    return record_of(api.put(kube.pods_path("default", pod["metadata"]["name"]), pod))


@asynccontextmanager
async def running(api: MemoryAPI, **fields: Any) -> AsyncIterator[StatusManager]:
    manager = StatusManager(api, Clock(), lambda: 0.5, **fields)
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        await group.start(manager.run)
        yield manager
        group.cancel_scope.cancel()


async def test_a_burst_makes_one_patch(api: MemoryAPI) -> None:
    async with running(api) as manager:
        record = stored(api)
        manager.tell(record, PENDING, static=False)
        ready = PodCondition(type="PodReadyToStartContainers", status="True")
        manager.tell(record, msgspec.structs.replace(PENDING, conditions=(ready,)), static=False)
        manager.tell(record, msgspec.structs.replace(RUNNING, conditions=(ready,)), static=False)
        await anyio.sleep(1)
    assert len(api.sent("PATCH")) == 1
    assert api.objects[PATH]["status"]["phase"] == "Running"
    assert [request.method for request in api.requests] == ["PATCH"]


async def test_what_changes_while_a_patch_is_under_way_goes_with_the_next(api: MemoryAPI) -> None:
    async with running(api) as manager:
        record = stored(api)
        api.gate = anyio.Event()
        manager.tell(record, RUNNING, static=False)
        await anyio.sleep(1)
        for number in range(5):
            status = msgspec.structs.replace(
                RUNNING, pod_ip=f"10.0.0.{number}", pod_ips=(PodIP(ip=f"10.0.0.{number}"),)
            )
            manager.tell(record, status, static=False)
        api.gate.set()
        await anyio.sleep(1)
    assert len(api.sent("PATCH")) == 2
    assert api.objects[PATH]["status"]["podIP"] == "10.0.0.4"


async def test_readiness_goes_out_at_once_and_progress_waits(api: MemoryAPI) -> None:
    async with running(api) as manager:
        record = stored(api)
        manager.tell(record, PENDING, static=False)
        await anyio.sleep(0.1)
        assert api.requests == []
        ready = PodCondition(type="Ready", status="True")
        manager.tell(record, msgspec.structs.replace(RUNNING, conditions=(ready,)), static=False)
        await anyio.sleep(0.01)
        assert len(api.sent("PATCH")) == 1
        manager.tell(record, RUNNING, static=False)
        await anyio.sleep(0.01)
    assert len(api.sent("PATCH")) == 2


async def test_in_a_burst_of_starts_progress_waits_longer(api: MemoryAPI) -> None:
    """Each waits the longer the more do; a pod alone is told of soon, and none waits for ever."""
    async with running(api) as manager:
        records = [stored(api, uid=f"uid-{number}", name=f"p{number}") for number in range(60)]
        for record in records:
            manager.tell(record, PENDING, static=False)
        await anyio.sleep(1.5 * HOLD_SECONDS)
        assert 0 < len(api.sent("PATCH")) < 5
        ready = PodCondition(type="Ready", status="True")
        manager.tell(
            records[-1], msgspec.structs.replace(RUNNING, conditions=(ready,)), static=False
        )
        before = len(api.sent("PATCH"))
        await anyio.sleep(0.01)
        assert len(api.sent("PATCH")) == before + 1
        await anyio.sleep(HOLD_MAX)
        assert len(api.sent("PATCH")) == len(records)


async def test_a_foreign_change_of_the_status_is_set_right(api: MemoryAPI) -> None:
    async with running(api) as manager:
        manager.tell(stored(api, status={"phase": "Running"}), RUNNING, static=False)
        await anyio.sleep(1)
        spoiled = record_of(api.put(PATH, api.objects[PATH] | {"status": {"phase": "Pending"}}))
        manager.tell(spoiled, RUNNING, static=False)
        await anyio.sleep(1)
    assert api.objects[PATH]["status"]["phase"] == "Running"


async def test_news_of_the_object_alone_sends_nothing(api: MemoryAPI) -> None:
    async with running(api) as manager:
        record = stored(api)
        manager.tell(record, RUNNING, static=False)
        await anyio.sleep(1)
        manager.tell(record_of(api.objects[PATH]), RUNNING, static=False)
        manager.tell(record, RUNNING, static=False)  # an older version, seen late
        await anyio.sleep(20)
    assert len(api.requests) == 1


async def test_an_old_apiserver_that_drops_a_field_is_not_asked_again(api: MemoryAPI) -> None:
    class Old(MemoryAPI):
        def put(self, path: str, document: Document) -> Document:
            document.get("status", {}).pop("observedGeneration", None)
            return super().put(path, document)

    old = Old()
    status = msgspec.structs.replace(RUNNING, observed_generation=3)
    async with running(old) as manager:
        record = stored(old)
        for _ in range(5):
            manager.tell(record, status, static=False)
            await anyio.sleep(15)
            record = record_of(old.objects[PATH])
    assert len(old.requests) == 1


async def test_what_somebody_else_wrote_after_a_patch_is_put_right(api: MemoryAPI) -> None:
    ready = PodCondition(type="Ready", status="True")
    status = msgspec.structs.replace(RUNNING, conditions=(ready,))
    async with running(api) as manager:

        def take_it_back(path: str, document: Document | None) -> None:
            api.on_change = lambda _path, _document: None
            assert document is not None
            document["status"]["conditions"] = []
            # Told by the watch before the answer to the patch is there.
            manager.tell(record_of(api.put(path, document)), status, static=False)

        record = stored(api)
        api.on_change = take_it_back
        manager.tell(record, status, static=False)
        await anyio.sleep(2)
    assert [c["type"] for c in api.objects[PATH]["status"]["conditions"]] == ["Ready"]


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(Unavailable("connection refused"), id="away"),
        pytest.param(of(503, "overloaded"), id="5xx"),
        pytest.param(of(429, "slow down", retry_after=3.0), id="429"),
    ],
)
async def test_after_an_outage_each_status_goes_once_as_it_is_by_then(
    api: MemoryAPI, error: Any
) -> None:
    async with running(api) as manager:
        record = stored(api)
        api.always = error
        for number in range(60):
            count = ContainerStatus(
                name="c",
                restart_count=number,
                state=ContainerState(running=ContainerStateRunning()),
            )
            status = msgspec.structs.replace(RUNNING, container_statuses=(count,))
            manager.tell(record, status, static=False)
            await anyio.sleep(5)
        tries = len(api.requests)
        api.always = None
        await anyio.sleep(20)
    assert tries < 60
    assert len(api.requests) == tries + 1
    assert api.objects[PATH]["status"]["containerStatuses"][0]["restartCount"] == 59


async def test_a_namesake_is_never_touched(api: MemoryAPI) -> None:
    async with running(api) as manager:
        record = stored(api)
        stored(api, uid="uid-2")
        manager.tell(record, RUNNING, static=False)
        manager.finished(record)
        await anyio.sleep(60)
    assert api.objects[PATH]["metadata"]["uid"] == "uid-2"
    assert api.objects[PATH]["status"] == {}
    assert len(api.requests) == 1


async def test_an_answer_that_makes_no_sense_is_one_pod_s_trouble() -> None:
    class Strange(MemoryAPI):
        async def request(self, method: str, path: str, **options: Any) -> Document:
            await super().request(method, path, **options)
            return {"metadata": None, "status": 5}

    api = Strange()
    async with running(api) as manager:
        for uid in ("uid-1", "uid-2"):
            manager.tell(stored(api, uid=uid, name=uid), RUNNING, static=False)
            await anyio.sleep(60)
    assert {request.path.split("/")[-2] for request in api.requests} == {"uid-1", "uid-2"}


async def test_an_empty_answer_is_none(api: MemoryAPI) -> None:
    class Empty(MemoryAPI):
        answers = 0

        async def request(self, method: str, path: str, **options: Any) -> Document:
            answer = await super().request(method, path, **options)
            self.answers += 1
            return {} if self.answers == 1 else answer

    api = Empty()
    failed = msgspec.structs.replace(RUNNING, phase="Failed")
    async with running(api) as manager:
        record = stored(api, metadata={"deletionTimestamp": "2026-01-01T00:00:30Z"})
        manager.tell(record, failed, static=False)
        manager.finished(record)
        await anyio.sleep(60)
    assert PATH not in api.objects


@pytest.mark.parametrize(
    ("code", "text", "requests"),
    [
        pytest.param(
            422, 'Pod "pod" is invalid: metadata.uid: Invalid value: "uid-1"', 1, id="422"
        ),
        pytest.param(409, "Precondition failed: UID in precondition: uid-1, UID in", 1, id="409"),
        pytest.param(409, "the object has been modified; please apply your changes", 2, id="race"),
    ],
)
async def test_only_a_namesake_makes_a_status_pointless(
    api: MemoryAPI, code: int, text: str, requests: int
) -> None:
    api.failures = [of(code, text)]
    async with running(api) as manager:
        manager.tell(stored(api), RUNNING, static=False)
        await anyio.sleep(60)
    assert len(api.requests) == requests


async def test_the_object_of_a_deleted_pod_goes_after_its_last_status(api: MemoryAPI) -> None:
    failed = msgspec.structs.replace(RUNNING, phase="Failed")
    async with running(api) as manager:
        record = stored(api, metadata={"deletionTimestamp": "2026-01-01T00:00:30Z"})
        manager.tell(record, RUNNING, static=False)
        await anyio.sleep(60)
        assert [request.method for request in api.requests] == ["PATCH"]
        manager.tell(record, failed, static=False)
        manager.finished(record)
        await anyio.sleep(1)
    assert [request.method for request in api.requests] == ["PATCH", "PATCH", "DELETE"]
    assert api.requests[-1].body["gracePeriodSeconds"] == 0
    assert api.requests[-1].body["preconditions"] == {"uid": "uid-1"}
    assert PATH not in api.objects


async def test_a_pod_that_ended_by_itself_goes_when_it_is_deleted_later(api: MemoryAPI) -> None:
    ended = msgspec.structs.replace(RUNNING, phase="Succeeded")
    async with running(api) as manager:
        record = stored(api)
        manager.tell(record, ended, static=False)
        manager.finished(record)
        await anyio.sleep(60)
        assert PATH in api.objects
        api.objects[PATH]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"
        manager.tell(record_of(api.objects[PATH]), ended, static=False)
        await anyio.sleep(1)
    assert PATH not in api.objects


async def test_a_static_pod_s_status_goes_to_the_mirror_that_shows_it(api: MemoryAPI) -> None:
    static = a_pod(metadata={"annotations": {"kubernetes.io/config.hash": "uid-1"}})
    record = PodRecord(static, msgspec.to_builtins(static))
    mirrors: dict[str, Document] = {}
    async with running(api, mirror_of=mirrors.get) as manager:
        manager.tell(record, RUNNING, static=True)
        await anyio.sleep(1)
        assert api.requests == []
        for uid, shown in (("m1", "an-older-one"), ("m2", "uid-1"), ("m3", "uid-1")):
            metadata = {"annotations": {"kubernetes.io/config.mirror": shown}}
            mirrors["pod_default"] = dict(stored(api, uid=uid, metadata=metadata).raw)
            manager.mirrors_changed(mirrors)
            await anyio.sleep(1)
    assert [request.body["metadata"]["uid"] for request in api.requests] == ["m2", "m3"]
    assert api.objects[PATH]["status"]["phase"] == "Running"
