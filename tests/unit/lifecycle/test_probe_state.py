import msgspec
import pytest

from minikubelet.api.pod import Probe
from minikubelet.api.status import ContainerStatus
from minikubelet.lifecycle.probe_state import (
    ProbeKind,
    ProbeState,
    Target,
    after_attempt,
    for_container,
    tick_after,
    tick_from,
    wants_to_run,
)
from minikubelet.lifecycle.probes import Result
from tests.builders import decoded_container

L, R, S = ProbeKind.LIVENESS, ProbeKind.READINESS, ProbeKind.STARTUP
OK, BAD = Result.SUCCESS, Result.FAILURE
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def test_each_kind_has_its_field() -> None:
    container = decoded_container(
        livenessProbe={"periodSeconds": 1},
        readinessProbe={"periodSeconds": 2},
        startupProbe={"periodSeconds": 3},
    )
    periods = [probe.period_seconds for kind in (L, R, S) if (probe := kind.of(container))]
    assert periods == [1, 2, 3]


@pytest.mark.parametrize(
    ("kind", "outcomes", "results"),
    [
        pytest.param(L, [BAD, BAD, BAD], [None, None, BAD], id="failures up to the threshold"),
        pytest.param(R, [BAD, BAD, OK, BAD], [None, None, None, None], id="mixed outcomes"),
        pytest.param(R, [OK, OK], [None, OK], id="successes up to the threshold"),
        pytest.param(
            R, [OK, OK, BAD, BAD, OK, BAD, BAD, BAD, OK, OK], [None, *[OK] * 6, BAD, BAD, OK],
            id="a result stays until the other settles",
        ),
        pytest.param(S, [BAD, BAD, BAD], [None, None, BAD], id="startup fails"),
    ],
)  # fmt: skip
def test_enough_equal_outcomes_settle(
    kind: ProbeKind, outcomes: list[Result], results: list[Result | None]
) -> None:
    probe = Probe(success_threshold=2, failure_threshold=3)
    state, seen = ProbeState("a"), []
    for outcome in outcomes:
        state = after_attempt(state, kind, probe, outcome)
        seen.append(state.result)
    assert seen == results


@pytest.mark.parametrize(
    ("kind", "outcome", "on_hold"),
    [
        (L, BAD, True),
        (L, OK, False),
        (R, BAD, False),
        (R, OK, False),
        (S, BAD, True),
        (S, OK, True),
    ],
)
def test_who_is_asked_no_more(kind: ProbeKind, outcome: Result, on_hold: bool) -> None:
    probe = Probe(success_threshold=1, failure_threshold=1)
    state = after_attempt(ProbeState("a"), kind, probe, outcome)
    assert (state.result, state.on_hold) == (outcome, on_hold)
    target = Target("a", running=True, started=kind is not S)
    assert wants_to_run(state, kind, target) is not on_hold


@pytest.mark.parametrize(
    ("kind", "target", "wants"),
    [
        pytest.param(S, Target("a", running=True), True, id="startup first"),
        pytest.param(S, Target("a", running=True, started=True), False, id="startup once"),
        pytest.param(L, Target("a", running=True), False, id="liveness waits for startup"),
        pytest.param(L, Target("a", running=True, started=True), True, id="liveness"),
        pytest.param(R, Target("a", running=True), False, id="readiness waits for startup"),
        pytest.param(R, Target("a", running=True, started=True), True, id="readiness"),
        pytest.param(R, Target("a", started=True), False, id="not running"),
        pytest.param(R, Target("b", running=True, started=True), False, id="another container"),
    ],
)
def test_whose_turn_it_is(kind: ProbeKind, target: Target, wants: bool) -> None:
    assert wants_to_run(ProbeState("a"), kind, target) is wants


@pytest.mark.parametrize("kind", [L, R, S])
def test_B35_a_new_container_starts_without_counts(kind: ProbeKind) -> None:
    assert for_container(kind, "b", None, deleting=False) == ProbeState("b")


def told(container_id: str = "x://a", **fields: object) -> ContainerStatus:
    document = {"name": "c", "containerID": container_id, "state": RUNNING} | fields
    return msgspec.convert(document, ContainerStatus)


@pytest.mark.parametrize(
    ("kind", "earlier", "result", "on_hold"),
    [
        pytest.param(S, told(started=True), OK, True, id="it was started"),
        pytest.param(S, told(started=False), None, False, id="it was not"),
        pytest.param(S, told("x://old", started=True), None, False, id="another one was started"),
        pytest.param(S, told(started=True, state={}), None, False, id="it did not run"),
        pytest.param(R, told(started=True, ready=True), OK, False, id="it was ready"),
        pytest.param(R, told(started=True, ready=False), None, False, id="it was not ready"),
        pytest.param(R, told("x://old", ready=True), None, False, id="another one was ready"),
        pytest.param(L, told(started=True, ready=True), None, False, id="liveness begins anew"),
    ],
)
def test_what_holds_over_a_restart_of_the_agent(
    kind: ProbeKind, earlier: ContainerStatus, result: Result | None, on_hold: bool
) -> None:
    state = for_container(kind, "a", earlier, deleting=False)
    assert (state.result, state.on_hold) == (result, on_hold)


@pytest.mark.parametrize(
    ("kind", "result", "on_hold"), [(L, None, True), (S, OK, True), (R, None, False)]
)
def test_a_pod_on_its_way_out(kind: ProbeKind, result: Result | None, on_hold: bool) -> None:
    state = for_container(kind, "a", None, deleting=True)
    assert (state.result, state.on_hold) == (result, on_hold)


@pytest.mark.parametrize(
    ("moment", "at_or_after", "after"),
    [(5.0, 7.0, 7.0), (7.0, 7.0, 10.0), (7.5, 10.0, 10.0), (10.0, 10.0, 13.0), (20.0, 22.0, 22.0)],
)
def test_ticks(moment: float, at_or_after: float, after: float) -> None:
    assert tick_from(7.0, 3.0, moment) == at_or_after
    assert tick_after(7.0, 3.0, moment) == after
