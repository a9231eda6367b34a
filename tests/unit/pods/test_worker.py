"""The life of pods on the fake runtime: start, restart, back-off, end, replacement."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.api.pod import Pod
from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.fake import NEVER, EventPolicy, Exec, FakeRuntime, Program
from minikubelet.pods.ending import Kill
from minikubelet.pods.kit import Limits
from minikubelet.pods.worker import Stage
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import a_node, eventually

pytestmark = pytest.mark.anyio
HOOK = {"exec": {"command": ["hook"]}}


def a_fake(**programs: Program) -> FakeRuntime:
    """A runtime with the image; containers of a name behave as their program says."""
    fake = FakeRuntime()
    fake.images.add("busybox:1")
    fake.on_start = lambda config: programs.get(config.metadata.name)
    return fake


async def test_a_pod_runs(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a"), a_container("b")))
        await eventually(lambda: fake.running() == ["a", "b"])
        await eventually(lambda: node.status().phase == "Running")
        status = node.status()
        assert [c.type for c in status.conditions if c.status != "True"] == []
        assert status.pod_ip
        assert status.host_ip == "192.0.2.1"
        assert fake.script.count("RunPodSandbox") == 1
        assert node.reasons().count("Started") == 2


async def test_a_long_pull_hides_no_address(tmp_path: Path) -> None:
    """The sandbox's events are no help: containerd sends them before it lists the sandbox."""
    fake = FakeRuntime(events=EventPolicy(dropped=1))
    fake.script.inject("PullImage", 60.0)
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        await eventually(lambda: node.status().pod_ip != "", 5)
        ready = [c.status for c in node.status().conditions if "ReadyToStart" in c.type]
        assert ready == ["True"]
        assert node.status().phase == "Pending"


async def test_init_containers_run_in_order_then_the_sidecar_stays(tmp_path: Path) -> None:
    fake = a_fake(one=Program(runs_for=1), two=Program(runs_for=1))
    async with a_node(tmp_path, fake) as node:
        init = (
            a_container("one"),
            a_container("side", restartPolicy="Always"),
            a_container("two"),
        )
        node.add(a_pod(a_container("main"), init=init))
        await eventually(lambda: fake.running() == ["side", "main"])
        started = [c.subject for c in fake.script.calls if c.method == "StartContainer"]
        names = [fake.containers[i].config.metadata.name for i in started]
        assert names == ["one", "side", "two", "main"]


class TestRestarts:
    async def test_crash_loop_waits_ten_then_twenty_seconds(self, tmp_path: Path) -> None:
        fake = a_fake()
        starts: list[float] = []

        def on_start(_config: object) -> Program:
            starts.append(anyio.current_time())
            return Program(exit_code=1, runs_for=0.5)

        fake.on_start = on_start
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: len(starts) == 4, 120)
            first, second, third, fourth = starts
            assert second - first < 1.5
            assert third - second == pytest.approx(10.5, abs=0.5)
            assert fourth - third == pytest.approx(20.5, abs=0.5)

    async def test_B30_words_tell_a_completed_from_a_crashed_container(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake(a=Program(exit_code=0, runs_for=0.5), b=Program(exit_code=3, runs_for=0.5))
        async with a_node(tmp_path, fake, limits=Limits(max_restart_delay=15)) as node:
            node.add(a_pod(a_container("a"), a_container("b")))
            await eventually(lambda: node.reasons().count("BackOff") >= 2)
            await anyio.sleep(3)
            a, b = node.status().container_statuses
            assert a.state.waiting is not None
            assert b.state.waiting is not None
            assert a.state.waiting.reason == b.state.waiting.reason == "CrashLoopBackOff"
            assert a.state.waiting.message.startswith("back-off 10s restarting failed container=a")
            assert "completed with exit code 0, next try at 20" in a.state.waiting.message
            assert "exit code 3" in b.state.waiting.message
            assert node.status().phase == "Running"

    async def test_never_ends_failed_and_keeps_the_container(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(exit_code=2, runs_for=1))
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a"), restartPolicy="Never"))
            await eventually(lambda: node.worker().stage is Stage.TERMINATED)
            status = node.status()
            assert status.phase == "Failed"
            assert status.container_statuses[0].state.terminated is not None
            assert status.container_statuses[0].state.terminated.exit_code == 2
            assert len(fake.containers) == 1
            assert not any(sandbox.ready for sandbox in fake.sandboxes.values())
            await anyio.sleep(300)
            assert fake.script.count("StartContainer") == 1

    async def test_dead_containers_are_trimmed_to_the_newest(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(exit_code=1, runs_for=0.5))
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: fake.script.count("StartContainer") == 4, 120)
            await anyio.sleep(5)
            assert len(fake.named("a")) <= 2
            assert node.status().container_statuses[0].restart_count == 3

    async def test_B24_a_failed_start_of_an_init_container_is_tried_again(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake(init=Program(runs_for=1))
        fake.script.inject("StartContainer", CRIError("StartContainer", "Unknown", "no"))
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a"), init=(a_container("init"),)))
            await eventually(lambda: node.status().phase == "Pending")
            await eventually(lambda: fake.running() == ["a"])
            assert node.status().init_container_statuses[0].restart_count == 0

    async def test_a_container_that_cannot_start_is_not_tried_in_a_loop(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake()

        def refuse(_config: m.ContainerConfig) -> Program:
            raise CRIError("StartContainer", "Unknown", "no such file")

        fake.on_start = refuse
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a")))
            await anyio.sleep(65)
            # at once, and after 0, 10, 20 seconds
            assert fake.script.count("StartContainer") in (4, 5)
            waiting = node.status().container_statuses[0].state.waiting
            assert waiting is not None
            assert waiting.reason == "CrashLoopBackOff"

    async def test_a_failed_start_waits_for_its_back_off_and_nothing_else(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake()

        def refuse(config: m.ContainerConfig) -> Program | None:
            if config.metadata.name == "a":
                raise CRIError("StartContainer", "Unknown", "no such file")
            return None

        fake.on_start = refuse
        bad_image = a_container("b", image="none:1", imagePullPolicy="Never")
        async with a_node(tmp_path, fake, limits=Limits(max_restart_delay=1)) as node:
            node.add(a_pod(a_container("a"), bad_image))
            await anyio.sleep(10)
            assert 8 <= fake.script.count("StartContainer") <= 12

    async def test_a_start_cut_off_with_the_agent_counts_as_none(self, tmp_path: Path) -> None:
        fake = a_fake()
        cuts = [CRIError("StartContainer", "Canceled", "failed to start: context canceled")]

        def cut_once(_config: m.ContainerConfig) -> Program | None:
            if cuts:
                raise cuts.pop()
            return None

        fake.on_start = cut_once
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a"), restartPolicy="Never"))
            await eventually(lambda: fake.running() == ["a"], 15)
            await eventually(lambda: node.status().phase == "Running")
            assert node.status().container_statuses[0].restart_count == 0
            assert len(fake.named("a")) == 1

    async def test_a_start_that_is_always_cut_off_is_not_tried_in_a_loop(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake()

        def cut(_config: m.ContainerConfig) -> Program | None:
            raise CRIError("StartContainer", "Canceled", "failed to start: context canceled")

        fake.on_start = cut
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a")))
            await anyio.sleep(60)
            assert fake.script.count("StartContainer") <= 10
            waiting = node.status().container_statuses[0].state.waiting
            assert waiting is not None
            assert waiting.reason == "RunContainerError"

    async def test_B32_exited_containers_of_an_earlier_run_are_restarted_by_policy(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake()
        pod = a_pod(a_container("a"))
        async with a_node(tmp_path, fake) as node:
            node.add(pod)
            await eventually(lambda: fake.running() == ["a"])
        fake.exit(fake.named("a")[0].id, 1)
        async with a_node(tmp_path, fake, desired=(pod,)) as node:
            await eventually(lambda: fake.running() == ["a"])
            assert node.status().container_statuses[0].restart_count == 1


async def test_restart_all_containers_counts_on_in_the_same_sandbox(tmp_path: Path) -> None:
    fake = a_fake()
    ends = [Program(exit_code=42, runs_for=1)]

    def on_start(config: m.ContainerConfig) -> Program | None:
        if config.metadata.name == "init":
            return Program(runs_for=0.5)
        return ends.pop() if config.metadata.name == "main" and ends else None

    fake.on_start = on_start
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [42]}}
    main = a_container("main", restartPolicy="Never", restartPolicyRules=[rule])
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(main, a_container("other"), init=(a_container("init"),)))
        await eventually(lambda: fake.script.count("StartContainer") == 6)
        await eventually(lambda: node.status().phase == "Running")
        await eventually(lambda: sorted(fake.running()) == ["main", "other"])
        assert fake.script.count("RunPodSandbox") == 1
        statuses = (*node.status().init_container_statuses, *node.status().container_statuses)
        assert {s.name: s.restart_count for s in statuses} == {"init": 1, "main": 1, "other": 1}


class TestHooks:
    async def test_B29_the_next_container_waits_for_the_hook_and_says_so(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake()
        fake.on_exec = lambda _config, _command: Exec(takes=40)
        async with a_node(tmp_path, fake) as node:
            hooked = a_container("a", lifecycle={"postStart": HOOK})
            node.add(a_pod(hooked, a_container("b")))
            await eventually(lambda: fake.running() == ["a"])
            await anyio.sleep(30)
            assert fake.running() == ["a"]
            waiting = node.status().container_statuses[1].state.waiting
            assert waiting is not None
            assert waiting.reason == "ContainerCreating"
            assert waiting.message.startswith("waiting for the postStart hook of container a (")
            assert node.status().container_statuses[0].ready is False
            await eventually(lambda: fake.running() == ["a", "b"])

    async def test_a_failing_post_start_hook_kills_the_container(self, tmp_path: Path) -> None:
        fake = a_fake()
        fake.on_exec = lambda _config, _command: 1
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a", lifecycle={"postStart": HOOK})))
            await eventually(lambda: "FailedPostStartHook" in node.reasons())
            await eventually(lambda: "Killing" in node.reasons())

    async def test_a_container_may_end_while_its_hook_runs(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(runs_for=5))
        fake.on_exec = lambda _config, _command: Exec(takes=10)
        async with a_node(tmp_path, fake) as node:
            hooked = a_container("a", lifecycle={"postStart": HOOK})
            node.add(a_pod(hooked, a_container("b"), restartPolicy="OnFailure"))
            await eventually(lambda: fake.running() == ["b"])
            assert node.worker().crashes == 0

    async def test_a_pending_hook_survives_a_crash_of_the_agent(self, tmp_path: Path) -> None:
        fake = a_fake()
        fake.on_exec = lambda _config, _command: Exec(takes=5)
        pod = a_pod(a_container("a", lifecycle={"postStart": HOOK}), a_container("b"))
        async with a_node(tmp_path, fake) as node:
            node.add(pod)
            await eventually(lambda: fake.running() == ["a"])
        assert fake.script.count("ExecSync") == 1
        async with a_node(tmp_path, fake, desired=(pod,)) as node:
            await eventually(lambda: fake.running() == ["a", "b"])
            assert fake.script.count("ExecSync") == 2
        async with a_node(tmp_path, fake, desired=(pod,)) as node:
            await anyio.sleep(5)
            assert fake.script.count("ExecSync") == 2


class TestEnd:
    async def test_B33_one_budget_for_hook_and_signal(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(term_takes=NEVER))
        fake.on_exec = lambda _config, _command: Exec(takes=1000)
        async with a_node(tmp_path, fake) as node:
            hooked = a_container("a", lifecycle={"preStop": HOOK})
            node.add(a_pod(hooked, terminationGracePeriodSeconds=5))
            await eventually(lambda: fake.running() == ["a"])
            began = anyio.current_time()
            node.registry.remove("uid-1")
            await eventually(lambda: fake.running() == [])
            # The hook takes the whole budget, two seconds are always left for the signal.
            assert anyio.current_time() - began == pytest.approx(7, abs=0.6)

    async def test_sidecars_end_last_in_reverse_order(self, tmp_path: Path) -> None:
        fake = a_fake(main=Program(term_takes=2))
        async with a_node(tmp_path, fake) as node:
            sides = tuple(a_container(f"side{i}", restartPolicy="Always") for i in (1, 2))
            node.add(a_pod(a_container("main"), init=sides))
            await eventually(lambda: len(fake.running()) == 3)
            names = {c.id: c.config.metadata.name for c in fake.containers.values()}
            node.registry.remove("uid-1")
            await eventually(lambda: node.registry.worker("uid-1") is None)
            stops = [names[c.subject] for c in fake.script.calls if c.method == "StopContainer"]
            assert stops == ["main", "side2", "side1"]

    async def test_a_removed_pod_leaves_nothing(self, tmp_path: Path) -> None:
        fake = a_fake()
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: fake.running() == ["a"])
            began = anyio.current_time()
            node.registry.remove("uid-1")
            await eventually(lambda: node.registry.worker("uid-1") is None)
            assert anyio.current_time() - began < 2
            assert not fake.sandboxes
            assert not fake.containers
            assert node.cgroups.paths == {"/kubepods/besteffort"}
            assert node.volumes.torn_down == ["uid-1"]
            assert list((tmp_path / "minikubelet" / "pods").iterdir()) == []
            assert not (tmp_path / "pods" / "uid-1").exists()

    async def test_a_sandbox_that_died_is_stopped_once_and_removed(self, tmp_path: Path) -> None:
        fake = a_fake()
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: fake.running() == ["a"])
            for number in range(1, 5):
                fake.stop_sandbox(next(s for s in fake.sandboxes.values() if s.ready))
                await eventually(lambda: fake.running() == [])
                await eventually(lambda: fake.running() == ["a"])
                # Only a stop gives back its address and its host ports.
                assert fake.script.count("StopPodSandbox") == number
            await anyio.sleep(120)
            assert fake.script.count("StopPodSandbox") == 4
            # The last container of the sandbox before is kept, and its sandbox with it.
            assert [s.config.metadata.attempt for s in fake.sandboxes.values()] == [3, 4]
            assert len(fake.containers) == 2

    async def test_B68_the_network_is_torn_down_by_one_call(self, tmp_path: Path) -> None:
        fake = a_fake()
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a"), a_container("b")))
            await eventually(lambda: fake.running() == ["a", "b"])
            node.registry.remove("uid-1")
            await eventually(lambda: node.registry.worker("uid-1") is None)
            assert fake.script.count("StopPodSandbox") == 0
            assert fake.script.count("RemovePodSandbox") == 1

    async def test_B69_failed_is_told_only_after_the_last_container_stopped(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake(a=Program(term_takes=20))
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a"), activeDeadlineSeconds=5))
            await eventually(lambda: fake.script.count("StopContainer") == 1)
            await anyio.sleep(10)
            assert fake.running() == ["a"]
            assert node.status().phase == "Running"
            assert node.status().reason == "DeadlineExceeded"
            await eventually(lambda: node.status().phase == "Failed")
            assert fake.running() == []
            assert node.status().reason == "DeadlineExceeded"

    async def test_a_stop_that_fails_is_tried_again_and_no_crash(self, tmp_path: Path) -> None:
        fake = a_fake()
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a"), a_container("b")))
            await eventually(lambda: fake.running() == ["a", "b"])
            fake.script.inject("StopContainer", CRIError("StopContainer", "Unknown", "no"))
            node.registry.remove("uid-1")
            worker = node.worker()
            await eventually(lambda: not fake.sandboxes)
            assert "FailedKillPod" in node.reasons()
            assert worker.crashes == 0
            ends = [c.method for c in fake.script.calls if c.method.startswith("Stop")]
            assert ends == ["StopContainer", "StopContainer", "StopContainer"]

    async def test_a_shorter_grace_interrupts_the_stop(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(term_takes=NEVER))
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a"), terminationGracePeriodSeconds=600))
            await eventually(lambda: fake.running() == ["a"])
            node.registry.remove("uid-1")
            await anyio.sleep(5)
            began = anyio.current_time()
            node.worker().kill(Kill(removed=True, grace=3))
            await eventually(lambda: fake.running() == [])
            assert anyio.current_time() - began < 5

    async def test_the_end_interrupts_a_hook_without_limit(self, tmp_path: Path) -> None:
        fake = a_fake()
        fake.on_exec = lambda _config, _command: Exec(takes=NEVER)
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a", lifecycle={"postStart": HOOK})))
            await eventually(lambda: fake.script.count("ExecSync") == 1)
            node.registry.remove("uid-1")
            await eventually(lambda: node.registry.worker("uid-1") is None)


def an_edit(number: int, **spec: Any) -> Pod:
    return a_pod(a_container("a"), uid=f"uid-{number}", **spec)


class TestReplacement:
    async def test_B12_B34_the_old_instance_ends_with_its_grace_before_the_new_starts(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake(a=Program(term_takes=20))
        async with a_node(tmp_path, fake) as node:
            node.add(an_edit(1))
            await eventually(lambda: fake.running() == ["a"])
            began = anyio.current_time()
            node.registry.remove("uid-1")
            node.add(an_edit(2))
            await anyio.sleep(10)
            assert fake.script.count("RunPodSandbox") == 1
            waiting = node.status("uid-2")
            assert waiting.phase == "Pending"
            assert waiting.message == "waiting for the previous instance of this pod to end"
            await eventually(lambda: fake.script.count("RunPodSandbox") == 2)
            assert anyio.current_time() - began == pytest.approx(20, abs=1)

    async def test_of_several_edits_only_the_last_starts(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(term_takes=5))
        async with a_node(tmp_path, fake) as node:
            node.add(an_edit(1))
            await eventually(lambda: fake.running() == ["a"])
            for number in (2, 3, 4):
                node.registry.remove(f"uid-{number - 1}")
                node.add(an_edit(number))
            await eventually(lambda: node.registry.worker("uid-1") is None)
            await eventually(lambda: fake.running() == ["a"])
            assert [w.uid for w in node.registry.workers] == ["uid-4"]
            documents = {path.stem for path in (tmp_path / "minikubelet" / "pods").iterdir()}
            assert documents == {"uid-4"}
            assert fake.script.count("RunPodSandbox") == 2

    async def test_nothing_stays_of_an_edit_that_never_started(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(term_takes=5))
        async with a_node(tmp_path, fake) as node:
            node.add(an_edit(1))
            node.add(a_pod(a_container("b"), name="other", uid="other"))
            await eventually(lambda: set(fake.running()) == {"a", "b"})
            node.registry.remove("uid-1")
            node.add(an_edit(2))
            node.registry.remove("other")  # its end wakes whoever isn't admitted
            await eventually(lambda: node.registry.worker("other") is None)
            node.registry.remove("uid-2")
            node.add(an_edit(3))
            await eventually(lambda: [w.uid for w in node.registry.workers] == ["uid-3"])
            await eventually(lambda: fake.running() == ["a"])
            documents = {path.stem for path in (tmp_path / "minikubelet" / "pods").iterdir()}
            assert documents == {"uid-3"}

    async def test_B10_removed_and_put_back_runs_again(self, tmp_path: Path) -> None:
        fake = a_fake(a=Program(term_takes=3))
        async with a_node(tmp_path, fake) as node:
            node.add(an_edit(1))
            await eventually(lambda: fake.running() == ["a"])
            node.registry.remove("uid-1")
            await anyio.sleep(1)
            node.add(an_edit(1))
            await eventually(lambda: fake.script.count("RunPodSandbox") == 2)
            await eventually(lambda: fake.running() == ["a"])

    async def test_an_edit_while_the_agent_was_away_replaces_the_old_instance(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake(a=Program(term_takes=5))
        async with a_node(tmp_path, fake) as node:
            node.add(an_edit(1))
            await eventually(lambda: fake.running() == ["a"])
        async with a_node(tmp_path, fake, desired=(an_edit(2),)) as node:
            await anyio.sleep(2)
            assert fake.script.count("RunPodSandbox") == 1
            await eventually(lambda: fake.script.count("RunPodSandbox") == 2)
            assert len(fake.sandboxes) == 1


class TestAdmission:
    async def test_B18_a_refused_static_pod_starts_when_resources_are_free(
        self, tmp_path: Path
    ) -> None:
        fake = a_fake()
        big = {"resources": {"requests": {"cpu": "3"}}}
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a", **big), name="one", uid="uid-1"))
            await eventually(lambda: fake.running() == ["a"])
            node.add(a_pod(a_container("b", **big), name="two", uid="uid-2"))
            await eventually(lambda: node.status("uid-2").reason == "OutOfcpu")
            assert "tried again" in node.status("uid-2").message
            assert "requested: 3000, used: 3000, capacity: 4000" in node.status("uid-2").message
            node.registry.remove("uid-1")
            await eventually(lambda: fake.running() == ["b"], 3)
            assert node.status("uid-2").reason == ""

    async def test_a_host_port_is_given_once(self, tmp_path: Path) -> None:
        fake = a_fake()
        port = {"ports": [{"containerPort": 80, "hostPort": 8080, "protocol": "TCP"}]}
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a", **port), name="one", uid="uid-1"))
            await eventually(lambda: fake.running() == ["a"])
            node.add(a_pod(a_container("b", **port), name="two", uid="uid-2"))
            await eventually(lambda: node.status("uid-2").reason == "NodePorts")


async def test_B59_a_finished_init_container_stays_completed_when_its_record_goes(
    tmp_path: Path,
) -> None:
    fake = a_fake(init=Program(runs_for=0.5))
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a"), init=(a_container("init"),)))
        await eventually(lambda: fake.running() == ["a"])
        await fake.remove_container(fake.named("init")[0].id)
        fake.exit(fake.named("a")[0].id, 1)
        await eventually(lambda: len(fake.named("a")) == 2)
        await anyio.sleep(2)
        status = node.status().init_container_statuses[0]
        assert status.state.terminated is not None
        assert status.state.terminated.exit_code == 0
        assert fake.named("init") == []
        assert node.status().phase == "Running"


async def test_a_failing_volume_blocks_the_pod_before_its_sandbox(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake) as node:
        node.volumes.problem = 'MountVolume.SetUp failed for volume "v" : no'
        node.add(a_pod(a_container("a")))
        await eventually(lambda: node.status().reason == "FailedMount")
        assert fake.script.count("RunPodSandbox") == 0
        node.volumes.problem = ""
        await eventually(lambda: fake.running() == ["a"])
        assert node.status().reason == ""


async def test_a_missing_image_is_told_with_the_kubelets_reason(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a", image="gone:1", imagePullPolicy="Never"), a_container("b")))
        await eventually(lambda: fake.running() == ["b"])
        waiting = node.status().container_statuses[0].state.waiting
        assert waiting is not None
        assert waiting.reason == "ErrImageNeverPull"


async def test_a_crash_among_several_tasks_says_what_went_wrong(tmp_path: Path) -> None:
    fake = a_fake()
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a"), a_container("b")))
        await eventually(lambda: fake.running() == ["a", "b"])
        fake.script.inject("StopContainer", ValueError("a bug"))  # type: ignore[arg-type]  # no CRIError
        node.registry.remove("uid-1")
        await eventually(lambda: not node.registry.workers)
        (text,) = [event.message for event in node.journal.all() if event.reason == "FailedSync"]
        assert "not supported between instances of" in text  # what the fake makes of it


async def test_one_crashing_worker_is_retried_and_harms_no_other(tmp_path: Path) -> None:
    fake = a_fake()
    fake.script.inject("RunPodSandbox", ValueError("a bug"))  # type: ignore[arg-type]  # no CRIError
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a"), name="one", uid="uid-1"))
        await eventually(lambda: node.worker().crashes == 1)
        node.add(a_pod(a_container("b"), name="two", uid="uid-2"))
        await eventually(lambda: fake.running() == ["b"], 3)
        await eventually(lambda: fake.running() == ["b", "a"])


async def test_a_sandbox_that_fails_is_not_tried_in_a_loop(tmp_path: Path) -> None:
    fake = a_fake()
    for number in range(1, 100):
        error = CRIError("RunPodSandbox", "Unknown", "no network")
        fake.script.inject("RunPodSandbox", error, nth=number)
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("a")))
        for _ in range(600):
            await anyio.sleep(0.1)
            node.worker().wake()
        assert fake.script.count("RunPodSandbox") <= 10
        assert node.status().reason == "FailedCreatePodSandBox"
