"""The decision tables of the kubelet's kuberuntime_manager_test.go, in our words."""

import pytest

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.actions import ActionInputs, PodActions, compute
from minikubelet.lifecycle.probes import ProbeResults, Result
from minikubelet.lifecycle.runtime import PodRuntimeStatus, State
from minikubelet.lifecycle.steps import KillCause
from tests.builders import a_container, a_pod
from tests.unit.lifecycle.builders import record, sandbox, view

C, R, E, U = State.CREATED, State.RUNNING, State.EXITED, State.UNKNOWN
INIT = a_container("init")
SIDECAR = a_container("side", restartPolicy="Always")


def decide(pod: Pod, status: PodRuntimeStatus, **inputs: object) -> PodActions:
    return compute(pod, status, ActionInputs(**inputs))  # type: ignore[arg-type]  # keywords of a test


def test_an_unknown_pod_gets_a_sandbox_and_all_its_containers() -> None:
    actions = decide(a_pod(a_container("a"), a_container("b")), view(sandboxes=()))
    assert actions.create_sandbox
    assert actions.attempt == 0
    assert actions.regular == ("a", "b")
    assert not actions.changed_sandbox_id


def test_a_running_pod_needs_nothing() -> None:
    assert not decide(a_pod(a_container("a")), view(record("a"))).anything


@pytest.mark.parametrize(
    ("boxes", "attempt", "old"),
    [
        ((sandbox(ready=False),), 1, "s0"),
        ((sandbox("s1", attempt=1), sandbox()), 2, "s1"),
        ((sandbox(ips=()),), 1, "s0"),
        ((sandbox(host=True),), 1, ""),
    ],
    ids=["not ready", "two ready", "without address", "other network namespace"],
)
def test_a_bad_sandbox_is_replaced(boxes: tuple[object, ...], attempt: int, old: str) -> None:
    actions = decide(a_pod(a_container("a")), view(record("a"), sandboxes=boxes))  # type: ignore[arg-type]  # ids name them
    assert (actions.kill_pod, actions.create_sandbox) == (True, True)
    assert (actions.attempt, actions.changed_sandbox_id) == (attempt, old)


def test_a_new_sandbox_starts_from_the_first_init_container() -> None:
    pod = a_pod(a_container("a"), init=(INIT, a_container("init2")))
    actions = decide(
        pod, view(record("init", E), record("a", E), sandboxes=(sandbox(ready=False),))
    )
    assert (actions.init, actions.regular) == (("init",), ())
    assert actions.prune == ("init-0",)


@pytest.mark.parametrize(
    ("policy", "code", "creates"),
    [("Never", 1, False), ("OnFailure", 0, False), ("OnFailure", 1, True), ("Always", 0, True)],
)
def test_a_lost_sandbox_of_ended_containers(policy: str, code: int, creates: bool) -> None:
    pod = a_pod(a_container("a"), restartPolicy=policy)
    actions = decide(pod, view(record("a", E, code=code), sandboxes=(sandbox(ready=False),)))
    assert actions.kill_pod
    assert actions.create_sandbox is creates


@pytest.mark.parametrize(
    ("policy", "state", "code", "starts"),
    [
        ("Always", E, 0, True),
        ("OnFailure", E, 0, False),
        ("OnFailure", E, 1, True),
        ("Never", E, 1, False),
        ("Never", C, 0, True),
        ("Never", U, 0, True),
        ("Always", R, 0, False),
    ],
)
def test_restart_policy(policy: str, state: State, code: int, starts: bool) -> None:
    pod = a_pod(a_container("a"), a_container("stays"), restartPolicy=policy)
    actions = decide(pod, view(record("stays"), record("a", state, code=code)))
    assert actions.regular == (("a",) if starts else ())
    assert [kill.cause for kill in actions.kill] == ([KillCause.UNKNOWN] if state is U else [])


def test_nothing_left_to_run_ends_the_pod_with_its_sidecars() -> None:
    pod = a_pod(a_container("a"), init=(SIDECAR,), restartPolicy="Never")
    actions = decide(pod, view(record("a", E), record("side", hash="old")), hashes={"side": "new"})
    assert actions.kill_pod
    assert actions.starts == ()


def test_a_container_of_another_definition_is_replaced() -> None:
    actions = decide(a_pod(a_container("a")), view(record("a", hash="old")), hashes={"a": "new"})
    assert actions.regular == ("a",)
    (kill,) = actions.kill
    assert kill.message == "Container a definition changed, will be restarted"


def test_B31_a_container_without_change_keeps_running_over_an_upgrade() -> None:
    assert not decide(
        a_pod(a_container("a")), view(record("a", hash="same")), hashes={"a": "same"}
    ).anything


def test_deletion_restarts_nothing() -> None:
    pod = a_pod(a_container("a"), metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})
    assert decide(pod, view(record("a", E, code=1))).starts == ()


class TestInitContainers:
    two = a_pod(a_container("a"), init=(INIT, a_container("init2")))

    @pytest.mark.parametrize(
        ("records", "init", "regular"),
        [
            ((), ("init",), ()),
            ((record("init"),), (), ()),
            ((record("init", C),), ("init",), ()),
            ((record("init", E),), ("init2",), ()),
            ((record("init", E, code=1),), ("init",), ()),
            ((record("init", E, reason="OOMKilled"),), ("init",), ()),
            ((record("init2"), record("init", E)), (), ()),
            ((record("init2", E), record("init", E)), (), ("a",)),
            ((record("a"), record("init2", E), record("init", E)), (), ()),
            ((record("a"),), (), ()),
            ((record("a", E, code=1), record("init2", E), record("init", E)), (), ("a",)),
        ],
        ids=[
            "first", "runs", "B24 created", "next", "failed", "oom", "second runs", "all done",
            "initialized", "records removed by hand", "main ended",
        ],
    )  # fmt: skip
    def test_order(
        self, records: tuple[object, ...], init: tuple[str, ...], regular: tuple[str, ...]
    ) -> None:
        actions = decide(self.two, view(*records))  # type: ignore[arg-type]  # ids name them
        assert (actions.init, actions.regular) == (init, regular)

    def test_a_failure_under_never_ends_the_pod(self) -> None:
        pod = a_pod(a_container("a"), init=(INIT,), restartPolicy="Never")
        assert decide(pod, view(record("init", E, code=1))).kill_pod

    def test_B25_a_finished_init_container_is_not_run_again(self) -> None:
        pod = a_pod(a_container("a"), init=(INIT,))
        assert decide(pod, view(record("a"), record("init", E))).init == ()
        before_the_regular_one = decide(pod, view(record("init", E)))
        assert (before_the_regular_one.init, before_the_regular_one.regular) == ((), ("a",))

    def test_B59_success_is_remembered_while_the_sandbox_lives(self) -> None:
        status = view(record("a", E, code=1))
        actions = decide(self.two, status, completed_init=frozenset({"init", "init2"}))
        assert (actions.init, actions.regular) == ((), ("a",))

    def test_records_of_an_older_sandbox_do_not_count(self) -> None:
        actions = decide(
            self.two,
            view(record("init2", E, sandbox_id="gone"), record("init", E, sandbox_id="gone")),
        )
        assert actions.init == ("init",)
        assert actions.regular == ()
        assert set(actions.prune) == {"init-0", "init2-0"}


class TestSidecars:
    pod = a_pod(a_container("a"), init=(SIDECAR, INIT))

    def test_a_running_sidecar_lets_the_next_one_start(self) -> None:
        assert decide(self.pod, view(record("side"))).init == ("init",)

    def test_B23_a_sidecar_with_startup_probe_does_not_hold_a_restart_of_the_main_container(
        self,
    ) -> None:
        probed = a_container(
            "side", restartPolicy="Always", startupProbe={"exec": {"command": ["x"]}}
        )
        pod = a_pod(a_container("a"), init=(probed,))
        probes = ProbeResults(startup={"side-0": Result.SUCCESS})
        actions = decide(pod, view(record("a", E, code=1), record("side")), probes=probes)
        assert actions.regular == ("a",)

    @pytest.mark.parametrize(
        ("result", "init"), [(None, ()), (Result.SUCCESS, ("init",)), (Result.FAILURE, ("side",))]
    )
    def test_the_startup_probe_gates(self, result: Result | None, init: tuple[str, ...]) -> None:
        probed = a_container(
            "side", restartPolicy="Always", startupProbe={"exec": {"command": ["x"]}}
        )
        pod = a_pod(a_container("a"), init=(probed, INIT))
        probes = ProbeResults(startup={} if result is None else {"side-0": result})
        assert decide(pod, view(record("side")), probes=probes).init == init

    def test_a_dead_sidecar_is_restarted_beside_running_containers(self) -> None:
        status = view(record("a"), record("init", E), record("side", E, code=1))
        assert decide(self.pod, status).init == ("side",)

    def test_a_pending_hook_holds_the_next_container(self) -> None:
        actions = decide(self.pod, view(record("side")), pending_hooks=frozenset({"side-0"}))
        assert (actions.init, actions.hooks) == ((), ("side",))


def test_ephemeral_containers_start_once_and_never_again() -> None:
    pod = a_pod(a_container("a"), ephemeralContainers=[a_container("debug")])
    assert decide(pod, view(record("a"))).ephemeral == ("debug",)
    assert decide(pod, view(record("a"), record("debug", E, code=1))).ephemeral == ()


RESTART_ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}


class TestRestartAllContainers:
    pod = a_pod(
        a_container("a", restartPolicy="Never", restartPolicyRules=[RESTART_ALL]),
        a_container("b"),
        init=(INIT,),
    )

    def test_everything_is_removed_with_the_source_last(self) -> None:
        actions = decide(self.pod, view(record("a", E, code=42), record("b"), record("init", E)))
        assert [item.name for item in actions.reset] == ["b", "init", "a"]
        assert actions.starts == ()

    def test_afterwards_the_pod_starts_anew_in_the_same_sandbox(self) -> None:
        actions = decide(self.pod, view())
        assert (actions.create_sandbox, actions.init) == (False, ("init",))

    def test_another_exit_code_follows_the_policy(self) -> None:
        actions = decide(self.pod, view(record("b"), record("a", E, code=1), record("init", E)))
        assert (actions.reset, actions.regular) == ((), ())


def test_probe_failures_kill_and_restart_by_policy() -> None:
    probe = {"exec": {"command": ["x"]}}
    pod = a_pod(a_container("a", livenessProbe=probe), restartPolicy="Never")
    probes = ProbeResults(liveness={"a-0": Result.FAILURE})
    actions = decide(pod, view(record("a")), probes=probes)
    assert actions.kill_pod
    pod = a_pod(a_container("a", livenessProbe=probe))
    actions = decide(pod, view(record("a")), probes=probes)
    assert actions.kill[0].message == "Container a failed liveness probe, will be restarted"
    assert actions.regular == ("a",)


def test_without_probers_probes_gate_nothing() -> None:
    pod = a_pod(
        a_container("a", startupProbe={"exec": {"command": ["x"]}}),
        init=(
            a_container("side", restartPolicy="Always", startupProbe={"exec": {"command": ["x"]}}),
        ),
    )
    assert decide(pod, view(record("side"))).regular == ("a",)
