"""The Node object in time: registration, reports, lease, and what happens when it vanishes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from minikubelet.kube.errors import Conflict, Forbidden, Unavailable, of
from minikubelet.node.facts import NodeImage, NodeSettings, RuntimeFacts
from minikubelet.node.lease import LEASES
from minikubelet.node.manager import NodeManager
from minikubelet.observe.events import Journal
from tests.apiserver import MemoryAPI
from tests.unit.node.test_document import MACHINE, RUNTIME
from tests.unit.pods.harness import jump
from tests.unit.simulated import Clock

pytestmark = pytest.mark.anyio
NODE, LEASE = "/api/v1/nodes/n1", f"{LEASES}/n1"


@dataclass
class Node:
    api: MemoryAPI
    journal: Journal
    facts: list[RuntimeFacts] = field(default_factory=lambda: [RUNTIME])
    manager: NodeManager = field(init=False)

    def tell(self, facts: RuntimeFacts) -> None:
        self.facts[:] = [facts]
        self.manager.changed()

    def ready(self) -> str:
        conditions = self.api.objects[NODE]["status"]["conditions"]
        return next(str(c["status"]) for c in conditions if c["type"] == "Ready")

    def reasons(self) -> list[str]:
        return [event.reason for event in self.journal.all()]


@asynccontextmanager
async def a_node(api: MemoryAPI, **fields: Any) -> AsyncIterator[Node]:
    node = Node(api, Journal(Clock().wall_ns))
    settings = NodeSettings(
        name="n1", hostname="n1", node_ips=("192.0.2.1",), version="v1.36.0", **fields
    )
    node.manager = NodeManager(
        api, settings, MACHINE, lambda: node.facts[0], Clock(), lambda: 0.5, node.journal
    )
    async with anyio.create_task_group() as group:
        group.start_soon(jump)
        await group.start(node.manager.run)
        yield node
        group.cancel_scope.cancel()


def renewals(api: MemoryAPI) -> int:
    return sum(r.path.startswith(LEASES) and r.method in ("PUT", "POST") for r in api.requests)


async def test_it_registers_ready_at_once_and_has_a_lease() -> None:
    api = MemoryAPI()
    async with a_node(api) as node:
        await anyio.sleep(1)
        assert node.ready() == "True"
        lease = api.objects[LEASE]
        assert lease["spec"]["holderIdentity"] == "n1"
        assert (
            lease["metadata"]["ownerReferences"][0]["uid"] == api.objects[NODE]["metadata"]["uid"]
        )
        assert node.reasons()[0] == "Starting"
        assert "NodeReady" in node.reasons()
    assert any(r.path == "/apis/storage.k8s.io/v1/csinodes" for r in api.sent("POST"))


async def test_an_unchanged_node_is_told_every_five_minutes_and_its_lease_every_ten_seconds() -> (
    None
):
    api = MemoryAPI()
    async with a_node(api) as node:
        await anyio.sleep(700)
        assert node.ready() == "True"
    patches = [r for r in api.sent("PATCH") if r.path == f"{NODE}/status"]
    assert len(patches) == 2
    assert set(patches[0].body["status"]) == {"conditions"}
    assert 65 <= renewals(api) <= 72
    assert {r.pool.name for r in patches} == {"HEARTBEAT"}


async def test_a_change_is_told_at_once_and_taken_back() -> None:
    api = MemoryAPI()
    async with a_node(api) as node:
        await anyio.sleep(1)
        node.tell(RuntimeFacts("x://1", problems=("container runtime is down",)))
        await anyio.sleep(0.1)
        assert node.ready() == "False"
        node.tell(RUNTIME)
        await anyio.sleep(0.1)
        assert node.ready() == "True"
        assert node.reasons().count("NodeNotReady") == 1


async def test_what_changed_without_a_word_is_told_with_the_next_look() -> None:
    api = MemoryAPI()
    async with a_node(api) as node:
        await anyio.sleep(1)
        node.facts[:] = [RuntimeFacts(RUNTIME.version, images=(NodeImage(("a:1",), 5),))]
        await anyio.sleep(12)
        assert api.objects[NODE]["status"]["images"] == [{"names": ["a:1"], "sizeBytes": 5}]


async def test_B60_a_node_that_vanishes_is_registered_again() -> None:
    api = MemoryAPI()
    async with a_node(api) as node:
        await anyio.sleep(15)
        first = api.objects[NODE]["metadata"]["uid"]
        api.drop(NODE)
        api.drop(LEASE)
        await anyio.sleep(5)
        second = api.objects[NODE]["metadata"]["uid"]
        assert second != first
        assert node.ready() == "True"
        await anyio.sleep(10)
        assert api.objects[LEASE]["metadata"]["ownerReferences"][0]["uid"] == second


async def test_B60_a_lease_that_went_with_its_node_is_made_again() -> None:
    """Writing it is refused by the precondition of the old one's uid, not because it is missing."""
    api = MemoryAPI()
    async with a_node(api):
        await anyio.sleep(5)
        api.drop(LEASE)
        api.failures.append(Conflict("Precondition failed: UID in precondition", code=409))
        await anyio.sleep(20)
        assert api.objects[LEASE]["spec"]["holderIdentity"] == "n1"


async def test_B60_without_registration_a_vanished_node_stops_its_lease() -> None:
    api = MemoryAPI()
    api.put(NODE, {"metadata": {"name": "n1", "uid": "u1"}})
    async with a_node(api, register=False):
        await anyio.sleep(25)
        assert renewals(api) >= 2
        assert api.objects[NODE]["status"]["conditions"]
        api.drop(NODE)
        before = renewals(api)
        await anyio.sleep(100)
        assert renewals(api) == before
        assert NODE not in api.objects


async def test_B61_a_restart_of_the_agent_never_shows_the_node_unready() -> None:
    api = MemoryAPI()
    async with a_node(api):
        await anyio.sleep(30)
    seen: list[str] = []

    def watch(path: str, document: Any) -> None:
        if path == NODE and document is not None:
            seen.extend(
                c["status"] for c in document["status"]["conditions"] if c["type"] == "Ready"
            )

    api.on_change = watch
    async with a_node(api) as node:
        await anyio.sleep(700)
        assert set(seen) == {"True"}
        assert "NodeReady" not in node.reasons()


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(Unavailable("connection refused"), id="away"),
        pytest.param(of(500, "etcd"), id="500"),
        pytest.param(Forbidden("no", code=403), id="forbidden-and-absent"),
    ],
)
async def test_registration_is_tried_until_it_works(refusal: Any) -> None:
    api = MemoryAPI(always=refusal)
    async with a_node(api) as node:
        await anyio.sleep(120)
        assert NODE not in api.objects
        assert len(api.sent("POST")) < 40
        api.always = None
        await anyio.sleep(40)
        assert node.ready() == "True"


async def test_after_an_outage_the_lease_resumes_by_itself() -> None:
    api = MemoryAPI()
    async with a_node(api):
        await anyio.sleep(15)
        api.always = Unavailable("connection refused")
        await anyio.sleep(300)
        before = api.objects[LEASE]["spec"]["renewTime"]
        api.always = None
        await anyio.sleep(15)
        assert api.objects[LEASE]["spec"]["renewTime"] > before


async def test_a_lease_written_by_somebody_else_is_taken_back() -> None:
    api = MemoryAPI()
    async with a_node(api):
        await anyio.sleep(5)
        api.drop(LEASE)
        await anyio.sleep(12)
        assert api.objects[LEASE]["spec"]["holderIdentity"] == "n1"


async def test_a_rebooted_machine_is_told_once() -> None:
    api = MemoryAPI()
    status = {"nodeInfo": {"bootID": "an-older-boot"}}
    api.put(NODE, {"metadata": {"name": "n1", "uid": "u1"}, "status": status})
    async with a_node(api) as node:
        await anyio.sleep(60)
        assert node.reasons().count("Rebooted") == 1


async def test_a_cordon_is_an_event_and_so_is_its_end() -> None:
    api = MemoryAPI()
    async with a_node(api) as node:
        await anyio.sleep(1)
        for value in (True, True, False):
            api.put(NODE, {**api.objects[NODE], "spec": {"unschedulable": value}})
            await anyio.sleep(1)
        reasons = [reason for reason in node.reasons() if reason.endswith("Schedulable")]
        assert reasons == ["NodeNotSchedulable", "NodeSchedulable"]
