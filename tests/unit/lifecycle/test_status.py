"""The whole status of a pod, as far as it is more than the sum of its containers."""

from typing import Any

from minikubelet.api.status import PodCondition, PodStatus
from minikubelet.lifecycle.runtime import PodRuntimeStatus, State
from minikubelet.lifecycle.status import Situation, Verdict, generate, rejected_status
from tests.builders import a_container, a_pod
from tests.unit.lifecycle.builders import record, sandbox

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:05:00Z"
NOTHING = PodRuntimeStatus("uid-1")
RUNS = PodRuntimeStatus("uid-1", sandboxes=(sandbox(),), containers=(record("c"),))
ENDED = PodRuntimeStatus(
    "uid-1", sandboxes=(sandbox(),), containers=(record("c", State.EXITED, code=1),)
)
FOREIGN = PodCondition(type="example.com/gate", status="True")


def conditions(status: PodStatus) -> dict[str, PodCondition]:
    return {condition.type: condition for condition in status.conditions}


def test_conditions_of_others_are_kept_and_times_move_only_with_a_change() -> None:
    pod = a_pod(status={"conditions": [{"type": FOREIGN.type, "status": FOREIGN.status}]})
    first = generate(pod, RUNS, PodStatus(), Situation(), NOW)
    second = generate(pod, ENDED, first, Situation(), LATER)
    assert conditions(second)[FOREIGN.type] == FOREIGN
    moved = {name for name, c in conditions(second).items() if c.last_transition_time == LATER}
    assert moved == {"Ready", "ContainersReady"}


def test_a_readiness_gate_holds_the_pod_until_somebody_opens_it() -> None:
    gate = [{"conditionType": "example.com/gate"}]
    closed = generate(a_pod(readinessGates=gate), RUNS, PodStatus(), Situation(), NOW)
    ready = conditions(closed)["Ready"]
    assert (ready.status, ready.reason) == ("False", "ReadinessGatesNotReady")
    assert ready.message == (
        'corresponding condition of pod readiness gate "example.com/gate" does not exist.'
    )
    opened = a_pod(
        readinessGates=gate, status={"conditions": [{"type": FOREIGN.type, "status": "True"}]}
    )
    assert conditions(generate(opened, RUNS, closed, Situation(), LATER))["Ready"].status == "True"


def test_a_verdict_counts_only_once_nothing_runs() -> None:
    verdict = Verdict("Failed", "Preempting", "why", disruption="told")
    situation = Situation(verdict=verdict)
    running = generate(a_pod(), RUNS, PodStatus(phase="Running"), situation, NOW)
    assert (running.phase, running.reason) == ("Running", "Preempting")
    assert "DisruptionTarget" not in conditions(running)
    ended = generate(a_pod(), ENDED, running, situation, LATER)
    assert (ended.phase, ended.message) == ("Failed", "why")
    target = conditions(ended)["DisruptionTarget"]
    assert (target.reason, target.message) == ("TerminationByKubelet", "told")


def test_a_final_phase_of_the_apiserver_never_flips() -> None:
    pod = a_pod(status={"phase": "Failed"})
    assert generate(pod, RUNS, PodStatus(), Situation(), NOW).phase == "Failed"


def test_resources_of_the_pod_itself_are_shown() -> None:
    own = {"limits": {"cpu": "2"}, "requests": {"cpu": "1", "memory": "64Mi"}}
    status = generate(a_pod(resources=own), RUNS, PodStatus(), Situation(), NOW)
    assert status.resources == own
    assert status.allocated_resources == own["requests"]
    assert generate(a_pod(), RUNS, PodStatus(), Situation(), NOW).resources is None


def test_a_wish_for_other_resources_is_a_condition_while_it_lasts() -> None:
    asked = generate(a_pod(), RUNS, PodStatus(), Situation(resize_refused="no"), NOW)
    pending = conditions(asked)["PodResizePending"]
    assert (pending.reason, pending.message) == ("Infeasible", "no")
    assert "PodResizePending" not in conditions(generate(a_pod(), RUNS, asked, Situation(), LATER))


def test_the_generation_seen_last_is_told_and_never_an_older_one() -> None:
    def at(generation: int, earlier: PodStatus) -> PodStatus:
        pod = a_pod(metadata={"generation": generation})
        return generate(pod, RUNS, earlier, Situation(), NOW)

    status = at(3, PodStatus())
    assert status.observed_generation == 3
    assert {c.observed_generation for c in status.conditions} == {3}
    assert at(2, status).observed_generation == 3


def test_addresses_of_a_sandbox_that_is_gone_stay_readable() -> None:
    situation = Situation(host_ips=("192.0.2.1", "fd00::1"))
    status = generate(a_pod(), RUNS, PodStatus(), situation, NOW)
    assert (status.pod_ip, status.host_ip) == ("10.0.0.2", "192.0.2.1")
    assert [entry.ip for entry in status.host_ips] == ["192.0.2.1", "fd00::1"]
    assert generate(a_pod(), NOTHING, status, situation, LATER).pod_ip == "10.0.0.2"


def test_a_refused_pod_says_why_and_nothing_of_containers() -> None:
    earlier: dict[str, Any] = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    verdict = Verdict("Failed", "OutOfcpu", "Pod was rejected: no room")
    status = rejected_status(a_pod(status=earlier), PodStatus(), verdict, "Burstable", NOW)
    assert status == PodStatus(
        phase="Failed",
        reason="OutOfcpu",
        message="Pod was rejected: no room",
        qos_class="Burstable",
        start_time=NOW,
    )


def test_B27_an_ephemeral_container_that_vanished_has_ended() -> None:
    """Stopped and removed between two looks: it was there, so it isn't made again."""
    pod = a_pod(a_container("c"), ephemeralContainers=[a_container("debug")])
    both = PodRuntimeStatus(
        "uid-1", sandboxes=(sandbox(),), containers=(record("c"), record("debug"))
    )
    first = generate(pod, both, PodStatus(), Situation(), NOW)
    (before,) = first.ephemeral_container_statuses
    (after,) = generate(pod, RUNS, first, Situation(), LATER).ephemeral_container_statuses
    assert after.state.terminated is not None
    assert (after.state.terminated.reason, after.state.terminated.exit_code) == (
        "ContainerStatusUnknown",
        137,
    )
    assert after.container_id == before.container_id
    assert after.restart_count == 0
