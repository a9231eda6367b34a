"""Who is probed when, on simulated time, with a prober that does what a test says."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import msgspec
import pytest

from minikubelet.api.pod import Pod
from minikubelet.api.status import ContainerStatus, PodStatus
from minikubelet.api.timestamp import NANOSECONDS, rfc3339
from minikubelet.lifecycle.probe_state import ProbeKind
from minikubelet.lifecycle.probes import ProbeResults, Result
from minikubelet.observe.events import PodRef
from minikubelet.probes.attempt import (
    SUCCESS,
    Attempt,
    Outcome,
    Prepared,
    ProbeError,
    Verdict,
    failure,
)
from minikubelet.probes.manager import ProbeManager
from minikubelet.probes.schedule import ROUND_SECONDS
from tests.builders import a_container, a_pod

pytestmark = pytest.mark.anyio

EPOCH = 1_800_000_000
ALMOST = ROUND_SECONDS + 0.001
NO_STATUS = PodStatus()


@pytest.fixture
def anyio_backend(simulated_backend: object) -> object:
    return simulated_backend


class Clock:
    """The loop's time; the wall clock goes along."""

    def monotonic(self) -> float:
        return anyio.current_time()

    def wall_ns(self) -> int:
        return EPOCH * NANOSECONDS + round(anyio.current_time() * NANOSECONDS)


@dataclass
class Node:
    """A manager and what it did. `answer` makes an attempt's outcome, `takes` its seconds."""

    began: float = 0.0
    answer: Callable[[Attempt], Outcome] = lambda _: SUCCESS
    takes: float = 0.0
    made: list[tuple[float, str, str]] = field(default_factory=list)
    prepared: int = 0
    events: list[tuple[str, str, str]] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)
    random: float = 0.5
    manager: ProbeManager = field(init=False)

    def prepare(self, attempt: Attempt) -> Prepared:
        self.prepared += 1
        return Prepared(run=lambda: self._run(attempt))

    async def _run(self, attempt: Attempt) -> Outcome:
        at = anyio.current_time() - self.began
        self.made.append((round(at, 3), attempt.kind.value, attempt.container_id))
        await anyio.sleep(self.takes)
        return self.answer(attempt)

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        assert type_ == "Warning"
        self.events.append((ref.field_path, reason, message))

    def at(self, kind: str) -> list[float]:
        return [when for when, made, _ in self.made if made == kind]

    def observe(self, status: PodStatus, held: frozenset[str] = frozenset()) -> None:
        self.manager.observe("uid-1", status, held)


@asynccontextmanager
async def a_node(**fields: Any) -> AsyncIterator[Node]:
    node = Node(**fields)
    node.began = anyio.current_time()
    node.manager = ProbeManager(
        node,
        node,
        Clock(),
        lambda: node.random,
        lambda uid: node.told.append((anyio.current_time() - node.began, uid)),
    )
    async with anyio.create_task_group() as group:
        await group.start(node.manager.run)
        yield node
        group.cancel_scope.cancel()


def probe(**fields: Any) -> dict[str, Any]:
    return {"tcpSocket": {"port": 1}, "periodSeconds": 10} | fields


def probed(**probes: dict[str, Any]) -> Pod:
    named = {f"{kind}Probe": value for kind, value in probes.items()}
    return a_pod(a_container("main", **named))


def running(
    container_id: str = "a", *, started: bool = True, ago: float = 0.0, name: str = "main"
) -> ContainerStatus:
    at = Clock().wall_ns() - round(ago * NANOSECONDS)
    document = {
        "name": name,
        "containerID": f"x://{container_id}",
        "started": started,
        "state": {"running": {"startedAt": rfc3339(at)}},
    }
    return msgspec.convert(document, ContainerStatus)


def of(*containers: ContainerStatus, ip: str = "10.0.0.2") -> PodStatus:
    return PodStatus(phase="Running", pod_ip=ip, container_statuses=containers)


async def test_a_container_has_the_rest_of_the_period_to_come_up() -> None:
    async with a_node() as node:
        node.manager.add(probed(liveness=probe()), NO_STATUS)
        await anyio.sleep(3)
        node.observe(of(running()))
        await anyio.sleep(28)
    assert node.at("Liveness") == pytest.approx([10, 20, 30], abs=ALMOST)


async def test_readiness_is_asked_for_at_once() -> None:
    async with a_node() as node:
        node.manager.add(probed(readiness=probe()), NO_STATUS)
        await anyio.sleep(3)
        node.observe(of(running()))
        await anyio.sleep(21)
    assert node.at("Readiness") == pytest.approx([3, 13, 23], abs=ALMOST)


@pytest.mark.parametrize(
    ("kind", "first"),
    [pytest.param("liveness", 20, id="at a tick"), pytest.param("readiness", 15, id="at once")],
)
async def test_an_initial_delay_counts_from_the_container_s_start(kind: str, first: float) -> None:
    async with a_node() as node:
        node.manager.add(probed(**{kind: probe(initialDelaySeconds=12)}), NO_STATUS)
        await anyio.sleep(3)
        node.observe(of(running()))
        await anyio.sleep(25)
    assert node.made[0][0] == pytest.approx(first, abs=ALMOST)


async def test_startup_goes_first_and_a_held_container_is_left_alone() -> None:
    probes = {kind: probe(periodSeconds=1) for kind in ("startup", "liveness", "readiness")}
    async with a_node() as node:
        node.manager.add(probed(**probes), NO_STATUS)
        node.observe(of(running(started=False)), frozenset({"a"}))
        await anyio.sleep(5)
        assert node.made == []
        node.observe(of(running(started=False)))
        await anyio.sleep(1.5)
        assert {kind for _, kind, _ in node.made} == {"Startup"}
        node.observe(of(running()))
        await anyio.sleep(2)
    assert node.at("Startup") == pytest.approx([5], abs=1 + ALMOST)
    assert node.at("Readiness")[0] == pytest.approx(6.5, abs=ALMOST)
    assert node.at("Liveness")[0] == pytest.approx(7, abs=ALMOST)


async def test_a_result_is_told_once_when_it_settles() -> None:
    verdicts = iter([False, False, False, False, True, True])
    async with a_node(answer=lambda _: SUCCESS if next(verdicts) else failure("no")) as node:
        results = node.manager.add(probed(readiness=probe(failureThreshold=3)), NO_STATUS)
        node.observe(of(running()))
        seen: list[Result | None] = []
        for _ in range(6):
            await anyio.sleep(0.5)
            seen.append(results.readiness.get("a"))
            await anyio.sleep(9.5)
    assert seen == [None, None, Result.FAILURE, Result.FAILURE, Result.SUCCESS, Result.SUCCESS]
    assert [when for when, _ in node.told] == pytest.approx([20, 40], abs=ALMOST)
    assert {uid for _, uid in node.told} == {"uid-1"}
    # One event for each failing attempt, none for success.
    expected = ("spec.containers{main}", "Unhealthy", "Readiness probe failed: no")
    assert node.events == [expected] * 4


async def test_a_result_is_told_as_soon_as_it_is_known() -> None:
    async with a_node(takes=0.3) as node:
        node.manager.add(probed(readiness=probe()), NO_STATUS)
        node.observe(of(running()))
        await anyio.sleep(1)
    (asked,) = node.at("Readiness")
    assert node.told[0][0] == pytest.approx(asked + 0.3, abs=0.001)


async def test_B35_a_new_container_id_starts_from_nothing() -> None:
    liveness = probe(periodSeconds=1, failureThreshold=3)
    async with a_node(answer=lambda _: failure("no")) as node:
        results = node.manager.add(probed(liveness=liveness), NO_STATUS)
        node.observe(of(running("a")))
        await anyio.sleep(1.5)
        assert results.liveness == {}
        node.observe(of(running("b")))
        await anyio.sleep(2)
        assert results.liveness == {}
        await anyio.sleep(1)
        assert results.liveness == {"b": Result.FAILURE}
        # It is on hold until it is replaced.
        count = len(node.made)
        await anyio.sleep(5)
        assert len(node.made) == count
        node.observe(of(running("c")))
        await anyio.sleep(1.1)
        assert node.made[-1][2] == "c"
        assert results.liveness == {}


async def test_B36_results_of_a_dead_container_say_nothing_of_the_next() -> None:
    async with a_node() as node:
        pod = probed(startup=probe(periodSeconds=1), readiness=probe(periodSeconds=1))
        results = node.manager.add(pod, NO_STATUS)
        node.observe(of(running("a", started=False)))
        await anyio.sleep(1.1)
        node.observe(of(running("a")))
        await anyio.sleep(1.1)
        assert (results.startup, results.readiness) == ({"a": Result.SUCCESS},) * 2
        node.observe(of(running("b", started=False)))
        assert (results.startup, results.readiness) == ({}, {})


async def test_a_result_that_comes_too_late_counts_for_nobody() -> None:
    async with a_node(takes=0.5) as node:
        results = node.manager.add(probed(readiness=probe()), NO_STATUS)
        node.observe(of(running("a")))
        await anyio.sleep(0.2)
        node.observe(of(running("b")))
        await anyio.sleep(0.5)
        assert results.readiness == {}
        await anyio.sleep(1)
        assert results.readiness == {"b": Result.SUCCESS}


async def test_an_attempt_without_a_result_is_tried_three_times_and_discarded() -> None:
    def cannot(_: Attempt) -> Outcome:
        raise ProbeError("no such file", state="unknown")

    async with a_node(answer=cannot) as node:
        results = node.manager.add(probed(liveness=probe(failureThreshold=1)), NO_STATUS)
        node.observe(of(running()))
        await anyio.sleep(5)
        assert len(node.made) == 3
    text = "Liveness probe errored and resulted in unknown state: no such file"
    assert node.events == [("spec.containers{main}", "Unhealthy", text)]
    assert results.liveness == {}
    assert node.manager.counts == {(ProbeKind.LIVENESS, "unknown"): 1}


async def test_a_crash_of_a_prober_ends_only_the_attempt() -> None:
    async with a_node(answer=lambda _: 1 // 0) as node:
        node.manager.add(probed(liveness=probe(periodSeconds=1)), NO_STATUS)
        node.observe(of(running()))
        await anyio.sleep(3.5)
        assert len(node.made) >= 3


async def test_a_warning_is_a_success_with_an_event() -> None:
    async with a_node(answer=lambda _: Outcome(Verdict.WARNING, "elsewhere")) as node:
        results = node.manager.add(probed(readiness=probe()), NO_STATUS)
        node.observe(of(running()))
        await anyio.sleep(1)
    assert results.readiness == {"a": Result.SUCCESS}
    text = "Readiness probe warning: elsewhere"
    assert node.events == [("spec.containers{main}", "ProbeWarning", text)]


async def test_a_tick_that_passes_during_an_attempt_is_made_up_for() -> None:
    async with a_node(takes=2.5) as node:
        node.manager.add(probed(readiness=probe(periodSeconds=2)), NO_STATUS)
        node.observe(of(running()))
        await anyio.sleep(9)
    # Ticks at 0, 2, 4, 6, …: one is behind each attempt.
    assert node.at("Readiness") == pytest.approx([0, 2.5, 5, 7.5], abs=2 * ALMOST)


async def test_after_a_restart_first_looks_are_spread_over_a_period() -> None:
    ready = msgspec.structs.replace(running(ago=100), ready=True)
    async with a_node(random=0.7) as node:
        node.manager.add(probed(readiness=probe(), liveness=probe()), of(ready))
        node.observe(of(ready))
        await anyio.sleep(15)
    assert node.at("Readiness") == pytest.approx([7], abs=ALMOST)
    assert node.at("Liveness") == pytest.approx([7], abs=ALMOST)


async def test_what_is_not_known_to_be_ready_is_asked_at_once_after_a_restart() -> None:
    async with a_node(random=0.7) as node:
        node.manager.add(probed(readiness=probe(), liveness=probe()), NO_STATUS)
        node.observe(of(running(ago=100)))
        await anyio.sleep(15)
    assert node.at("Readiness") == pytest.approx([0, 10], abs=ALMOST)
    assert node.at("Liveness") == pytest.approx([7], abs=ALMOST)


async def test_long_after_a_restart_nothing_is_spread() -> None:
    async with a_node(random=0.7) as node:
        await anyio.sleep(20)
        node.manager.add(probed(readiness=probe()), NO_STATUS)
        node.observe(of(running(ago=100)))
        await anyio.sleep(5)
    assert node.at("Readiness") == pytest.approx([20], abs=ALMOST)


async def test_what_is_remembered_counts_until_the_first_result() -> None:
    ready = msgspec.structs.replace(running(ago=100), ready=True)
    probes = {"startup": probe(), "readiness": probe(failureThreshold=1)}
    async with a_node(answer=lambda _: failure("no")) as node:
        results = node.manager.add(probed(**probes), of(ready))
        assert results == ProbeResults(
            readiness={"a": Result.SUCCESS}, startup={"a": Result.SUCCESS}
        )
        node.observe(of(ready))
        await anyio.sleep(1)
        assert results.readiness == {"a": Result.SUCCESS}
        await anyio.sleep(10)
    assert results.readiness == {"a": Result.FAILURE}
    assert node.at("Startup") == []


async def test_liveness_stops_when_the_pod_ends_readiness_goes_on() -> None:
    sidecar = a_container("side", restartPolicy="Always", livenessProbe=probe(periodSeconds=1))
    main = a_container(
        "main", livenessProbe=probe(periodSeconds=1), readinessProbe=probe(periodSeconds=1)
    )
    async with a_node() as node:
        node.manager.add(a_pod(main, init=(sidecar,)), NO_STATUS)
        status = of(running("m"))
        side = (running("s", name="side"),)
        node.observe(msgspec.structs.replace(status, init_container_statuses=side))
        await anyio.sleep(1.5)
        node.made.clear()
        node.manager.ending("uid-1")
        await anyio.sleep(2)
        kept = {(kind, container) for _, kind, container in node.made}
        assert kept == {("Readiness", "m"), ("Liveness", "s")}
        node.manager.remove("uid-1")
        node.made.clear()
        await anyio.sleep(3)
        assert node.made == []


async def test_an_end_during_an_attempt_is_quiet() -> None:
    async with a_node(takes=1, answer=lambda _: failure("no")) as node:
        results = node.manager.add(probed(readiness=probe(failureThreshold=1)), NO_STATUS)
        node.observe(of(running()))
        await anyio.sleep(0.5)
        node.manager.remove("uid-1")
        await anyio.sleep(5)
    assert (node.events, node.told, results.readiness) == ([], [], {})


async def test_a_callable_is_made_once_for_an_address() -> None:
    async with a_node() as node:
        node.manager.add(probed(readiness=probe(periodSeconds=1)), NO_STATUS)
        node.observe(of(running()))
        await anyio.sleep(3.5)
        assert node.prepared == 1
        node.observe(of(running(), ip="10.0.0.3"))
        await anyio.sleep(1)
        assert node.prepared == 2
