from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
import pytest

from minikubelet.api.record import PodRecord
from minikubelet.kube.api import Document
from minikubelet.kube.errors import Forbidden, Unavailable
from minikubelet.observe.events import Journal
from minikubelet.status.mirror import Action, MirrorPods, decide, mirror_document
from tests.apiserver import MemoryAPI
from tests.builders import a_pod
from tests.unit.pods.harness import jump

pytestmark = pytest.mark.anyio
PATH = "/api/v1/namespaces/default/pods/web-n1"
NAME = "web-n1_default"


def static(digest: str = "hash-1") -> PodRecord:
    annotations = {"kubernetes.io/config.hash": digest, "kubernetes.io/config.source": "file"}
    pod = a_pod(name="web-n1", uid=digest, metadata={"annotations": annotations})
    return PodRecord(pod, msgspec.to_builtins(pod) | {"future": 1})


def mirror(digest: str = "hash-1", **metadata: Any) -> Document:
    document = mirror_document(static(digest), "n1", "node-uid")
    document["metadata"] |= {"uid": f"mirror-of-{digest}", **metadata}
    return document


@dataclass
class Place:
    """A node's mirror pods with an apiserver that shows them."""

    api: MemoryAPI
    journal: Journal
    node_uid: str = "node-uid"
    mirrors: MirrorPods = field(init=False)

    def changed(self, path: str, document: Document | None) -> None:
        seen = {NAME: document} if document is not None else {}
        self.mirrors.seen(seen)


@asynccontextmanager
async def a_place(api: MemoryAPI, node_uid: str = "node-uid") -> AsyncIterator[Place]:
    place = Place(api, Journal(lambda: 0), node_uid)
    place.mirrors = MirrorPods(api, "n1", lambda: place.node_uid, place.journal)
    api.on_change = place.changed
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        group.start_soon(place.mirrors.run)
        yield place
        group.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("known", "shown", "node_uid", "ready", "expected"),
    [
        pytest.param(static(), None, "u", False, Action.CREATE, id="missing"),
        pytest.param(static(), None, "", True, Action.NOTHING, id="B16-no-node"),
        pytest.param(static(), mirror(), "u", True, Action.NOTHING, id="right"),
        pytest.param(static(), mirror("older"), "u", True, Action.DELETE, id="B15-changed"),
        pytest.param(
            static(), mirror(deletionTimestamp="x"), "u", True, Action.DELETE, id="B14-deleted"
        ),
        pytest.param(None, mirror(), "u", False, Action.NOTHING, id="not-known-yet"),
        pytest.param(None, mirror(), "u", True, Action.DELETE, id="orphan"),
        pytest.param(None, None, "u", True, Action.NOTHING, id="nothing"),
    ],
)
def test_what_a_mirror_pod_needs(
    known: PodRecord | None, shown: Document | None, node_uid: str, ready: bool, expected: Action
) -> None:
    assert decide(known, shown, node_uid, sources_ready=ready) is expected


def test_a_mirror_pod_is_the_static_pod_owned_by_the_node() -> None:
    made = mirror_document(static(), "n1", "node-uid")
    assert made["metadata"]["annotations"]["kubernetes.io/config.mirror"] == "hash-1"
    assert made["metadata"]["ownerReferences"] == [
        {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "node-uid", "controller": True}
    ]
    assert "uid" not in made["metadata"]
    assert made["future"] == 1


async def test_B14_a_deleted_mirror_pod_is_made_again() -> None:
    api = MemoryAPI()
    async with a_place(api) as place:
        place.mirrors.want(static())
        await anyio.sleep(1)
        first = api.objects[PATH]["metadata"]["uid"]
        gone = api.objects[PATH]["metadata"] | {"deletionTimestamp": "2026-01-01T00:00:00Z"}
        api.put(PATH, api.objects[PATH] | {"metadata": gone})
        await anyio.sleep(5)
        assert api.objects[PATH]["metadata"]["uid"] != first
        api.drop(PATH)
        await anyio.sleep(5)
        assert PATH in api.objects


async def test_B15_a_changed_static_pod_gets_a_new_mirror_pod() -> None:
    api = MemoryAPI()
    async with a_place(api) as place:
        place.mirrors.want(static("hash-1"))
        await anyio.sleep(1)
        place.mirrors.want(static("hash-2"))
        await anyio.sleep(5)
        shown = api.objects[PATH]["metadata"]["annotations"]["kubernetes.io/config.mirror"]
        assert shown == "hash-1"  # it is the one that still runs
        place.mirrors.forget("hash-1")
        await anyio.sleep(5)
        shown = api.objects[PATH]["metadata"]["annotations"]["kubernetes.io/config.mirror"]
        assert shown == "hash-2"


async def test_B16_there_are_no_mirror_pods_without_a_node_object() -> None:
    api = MemoryAPI()
    async with a_place(api, node_uid="") as place:
        place.mirrors.want(static())
        await anyio.sleep(60)
        assert api.requests == []
        place.node_uid = "node-uid"
        place.mirrors.look()
        await anyio.sleep(1)
        assert PATH in api.objects


async def test_the_mirror_pod_goes_with_the_static_pod() -> None:
    api = MemoryAPI()
    async with a_place(api) as place:
        place.mirrors.want(static())
        place.mirrors.look(sources_ready=True)
        await anyio.sleep(1)
        place.mirrors.forget("hash-1")
        await anyio.sleep(5)
        assert PATH not in api.objects
        assert api.sent("DELETE")[0].body["gracePeriodSeconds"] == 0


async def test_a_refused_mirror_pod_is_told_once_and_tried_again() -> None:
    api = MemoryAPI(always=Forbidden("namespace is being terminated", code=403))
    async with a_place(api) as place:
        place.mirrors.want(static())
        await anyio.sleep(300)
        assert len(api.requests) < 15
        assert "namespace is being terminated" in place.mirrors.problems[NAME]
        assert [event.reason for event in place.journal.all()] == ["FailedMirrorPod"]
        api.always = None
        await anyio.sleep(61)
        assert PATH in api.objects
        assert place.mirrors.problems == {}


async def test_an_outage_is_no_event() -> None:
    api = MemoryAPI(always=Unavailable("connection refused"))
    async with a_place(api) as place:
        place.mirrors.want(static())
        await anyio.sleep(300)
        assert place.journal.all() == []
