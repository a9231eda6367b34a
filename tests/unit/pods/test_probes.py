"""Probes and the pods they decide about, on the fake runtime: exec probes do what a test says."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.api.status import ContainerStatus
from minikubelet.cri import messages as m
from minikubelet.cri.fake import NEVER, Exec, FakeRuntime, Program
from minikubelet.pods.kit import Limits
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import Node, a_node, eventually

pytestmark = pytest.mark.anyio


def probe(command: str, **fields: Any) -> dict[str, Any]:
    return {"exec": {"command": [command]}, "periodSeconds": 1, "timeoutSeconds": 1} | fields


@dataclass
class Answers:
    """What each command says: an exit code, or more as an Exec."""

    codes: dict[str, int | Exec] = field(default_factory=dict)
    asked: list[tuple[float, str, int]] = field(default_factory=list)
    """When, which command, in which life of its container."""

    def exec(self, config: m.ContainerConfig, command: list[str]) -> int | Exec:
        life = config.metadata.attempt
        self.asked.append((anyio.current_time(), command[0], life))
        return self.codes.get(f"{command[0]}:{life}", self.codes.get(command[0], 0))

    def of(self, command: str, life: int = 0) -> list[float]:
        return [at for at, name, in_life in self.asked if (name, in_life) == (command, life)]


def a_fake(answers: Answers, **programs: Program) -> FakeRuntime:
    fake = FakeRuntime()
    fake.images.add("busybox:1")
    fake.on_start = lambda config: programs.get(config.metadata.name)
    fake.on_exec = answers.exec
    return fake


def main(node: Node) -> ContainerStatus:
    return node.status().container_statuses[0]


def is_ready(node: Node) -> bool:
    return any(c.type == "Ready" and c.status == "True" for c in node.status().conditions)


def messages(node: Node, reason: str) -> list[str]:
    return [event.message for event in node.journal.all() if event.reason == reason]


async def test_readiness_decides_the_ready_condition(tmp_path: Path) -> None:
    answers = Answers({"ready": 1})
    async with a_node(tmp_path, a_fake(answers)) as node:
        readiness = probe("ready", failureThreshold=2)
        node.add(a_pod(a_container("main", readinessProbe=readiness)))
        await eventually(lambda: len(answers.asked) > 3)
        assert (main(node).started, main(node).ready, is_ready(node)) == (True, False, False)
        answers.codes["ready"] = 0
        await eventually(lambda: is_ready(node))
        assert anyio.current_time() - answers.asked[-1][0] < 0.1
        answers.codes["ready"] = Exec(exit_code=2, stdout=b"so", stderr=b"rry")
        await eventually(lambda: not is_ready(node))
        assert main(node).restart_count == 0
        assert messages(node, "Unhealthy")[-1] == "Readiness probe failed: sorry"


async def test_a_failed_liveness_probe_restarts_the_container(tmp_path: Path) -> None:
    answers = Answers({"live:0": 1})
    fake = a_fake(answers)
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("main", livenessProbe=probe("live", failureThreshold=3))))
        await eventually(lambda: main(node).restart_count == 1 and main(node).started is True)
        assert messages(node, "Killing") == [
            "Container main failed liveness probe, will be restarted"
        ]
        assert len(answers.of("live")) == 3
        await eventually(lambda: len(answers.of("live", 1)) > 5)
        assert main(node).restart_count == 1


@pytest.mark.parametrize(
    ("policy", "phase", "text"),
    [
        # Nothing is left of the pod then: it ends as a whole.
        ("Never", "Failed", "Stopping container main"),
        ("OnFailure", "Running", "Container main failed liveness probe, will be restarted"),
    ],
)
async def test_a_failed_probe_goes_by_the_restart_policy(
    tmp_path: Path, policy: str, phase: str, text: str
) -> None:
    answers = Answers({"live:0": 1})
    async with a_node(tmp_path, a_fake(answers)) as node:
        container = a_container("main", livenessProbe=probe("live", failureThreshold=1))
        node.add(a_pod(container, restartPolicy=policy))
        await eventually(lambda: messages(node, "Killing") != [])
        await eventually(lambda: node.status().phase == phase and main(node).container_id != "")
        assert messages(node, "Killing") == [text]


async def test_B35_failures_of_a_dead_container_are_not_held_against_the_next(
    tmp_path: Path,
) -> None:
    answers = Answers({"live:0": 1, "live:1": 1})
    async with a_node(tmp_path, a_fake(answers)) as node:
        node.add(a_pod(a_container("main", livenessProbe=probe("live", failureThreshold=3))))
        await eventually(lambda: len(answers.of("live", 1)) == 2)
        answers.codes["live:1"] = 0
        await anyio.sleep(30)
        assert main(node).restart_count == 1


async def test_B36_a_new_container_is_not_started_before_its_startup_probe(
    tmp_path: Path,
) -> None:
    answers = Answers({"live:0": 0, "up:1": 1})
    async with a_node(tmp_path, a_fake(answers)) as node:
        node.add(
            a_pod(
                a_container(
                    "main",
                    startupProbe=probe("up", failureThreshold=30),
                    livenessProbe=probe("live", failureThreshold=1),
                )
            )
        )
        await eventually(lambda: is_ready(node) and len(answers.of("live")) > 2)
        answers.codes["live:0"] = 1
        await eventually(lambda: len(answers.of("up", 1)) > 5)
        assert (main(node).started, main(node).ready, is_ready(node)) == (False, False, False)
        assert answers.of("live", 1) == []
        answers.codes["up:1"] = 0
        await eventually(lambda: is_ready(node) and len(answers.of("live", 1)) > 1)
        assert min(answers.of("live", 1)) >= max(answers.of("up", 1))
        assert main(node).restart_count == 1


async def test_a_failed_startup_probe_restarts_with_its_own_grace(tmp_path: Path) -> None:
    answers = Answers({"up:0": 1})
    fake = a_fake(answers, main=Program(term_takes=NEVER))
    async with a_node(tmp_path, fake) as node:
        startup = probe("up", failureThreshold=2, terminationGracePeriodSeconds=7)
        node.add(a_pod(a_container("main", startupProbe=startup)))
        await eventually(lambda: messages(node, "Killing") != [])
        killed = anyio.current_time()
        await eventually(lambda: main(node).started is True)
        assert anyio.current_time() - killed == pytest.approx(7, abs=2.5)
        text = "Container main failed startup probe, will be restarted"
        assert messages(node, "Killing") == [text]


async def test_a_sidecar_s_startup_probe_holds_the_next_container(tmp_path: Path) -> None:
    answers = Answers({"up": 1})
    fake = a_fake(answers)
    side = a_container(
        "side", restartPolicy="Always", startupProbe=probe("up", failureThreshold=99)
    )
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("main"), init=(side,)))
        await eventually(lambda: len(answers.asked) > 5)
        assert fake.running() == ["side"]
        answers.codes["up"] = 0
        await eventually(lambda: fake.running() == ["side", "main"], 3)


async def test_a_startup_probe_waits_for_the_post_start_hook(tmp_path: Path) -> None:
    answers = Answers({"hook": Exec(takes=10)})
    container = a_container(
        "main",
        startupProbe=probe("up"),
        lifecycle={"postStart": {"exec": {"command": ["hook"]}}},
    )
    async with a_node(tmp_path, a_fake(answers)) as node:
        node.add(a_pod(container))
        await eventually(lambda: is_ready(node))
        assert answers.of("up")[0] >= answers.of("hook")[0] + 10


@pytest.mark.parametrize("command", ["live", "up"])
async def test_B37_a_command_that_times_out_is_a_failure(tmp_path: Path, command: str) -> None:
    answers = Answers({command: Exec(takes=100)})
    async with a_node(tmp_path, a_fake(answers)) as node:
        kind = {"live": "livenessProbe", "up": "startupProbe"}[command]
        node.add(a_pod(a_container("main", **{kind: probe(command, failureThreshold=2)})))
        await eventually(lambda: main(node).restart_count == 1)
        assert (
            f'command timed out: "{command}" timed out after 1s' in messages(node, "Unhealthy")[0]
        )


async def test_commands_are_expanded_with_literal_values(tmp_path: Path) -> None:
    answers = Answers()
    env = [{"name": "A", "value": "x"}, {"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]  # fmt: skip # noqa: E501
    async with a_node(tmp_path, a_fake(answers)) as node:
        readiness = probe("$(A)-$(B)-$$(A)")
        node.add(a_pod(a_container("main", env=env, readinessProbe=readiness)))
        await eventually(lambda: answers.asked != [])
    assert answers.asked[0][1] == "x-$(B)-$(A)"


# over a restart of the agent


async def test_B23_what_crashes_beside_a_sidecar_after_the_agent_s_restart_is_restarted(
    tmp_path: Path,
) -> None:
    answers = Answers()
    fake = a_fake(answers)
    side = a_container("side", restartPolicy="Always", startupProbe=probe("up", periodSeconds=60))
    pod = a_pod(a_container("main"), init=(side,))
    async with a_node(tmp_path, fake, desired=(pod,)) as node:
        await eventually(lambda: is_ready(node), 200)
    # The startup probe would say no now: it isn't asked again.
    answers.codes["up"] = 1
    fake.on_start = lambda _config: None
    async with a_node(tmp_path, fake, desired=(pod,), limits=Limits(max_restart_delay=1)) as node:
        await eventually(lambda: node.status().phase == "Running")
        (running,) = [c for c in fake.containers.values() if c.config.metadata.name == "main"]
        fake.exit(running.id, 1)
        await eventually(lambda: main(node).restart_count == 1 and is_ready(node))
        assert fake.running() == ["side", "main"]


async def test_ready_and_started_hold_until_the_first_result(tmp_path: Path) -> None:
    answers = Answers()
    fake = a_fake(answers)
    container = a_container(
        "main",
        startupProbe=probe("up"),
        readinessProbe=probe("ready", failureThreshold=1, periodSeconds=5),
    )
    pod = a_pod(container)
    async with a_node(tmp_path, fake, desired=(pod,)) as node:
        await eventually(lambda: is_ready(node))
        await anyio.sleep(3)  # a second after the status was written
        before = node.status().conditions
    answers.asked.clear()
    answers.codes["ready"] = 1
    seen: list[bool] = []
    async with a_node(tmp_path, fake, desired=(pod,)) as node:
        assert node.status().conditions == before
        while not answers.asked:
            seen.append(is_ready(node))
            await anyio.sleep(0.05)
        await eventually(lambda: not is_ready(node), 2)
    assert all(seen)
    assert answers.of("up") == []


async def test_a_container_started_while_the_agent_was_away_is_not_taken_for_the_old_one(
    tmp_path: Path,
) -> None:
    """Its predecessor was ready and started: it has to show it first."""
    answers = Answers()
    fake = a_fake(answers)
    container = a_container("main", startupProbe=probe("up"), readinessProbe=probe("ready"))
    pod = a_pod(container)
    async with a_node(tmp_path, fake, desired=(pod,)) as node:
        await eventually(lambda: is_ready(node))
        first = main(node).container_id
    answers.codes = {"up": 1, "ready": 1}
    (old,) = fake.containers
    async with a_node(tmp_path, fake, desired=(pod,)) as node:
        fake.exit(old, 1)
        await eventually(
            lambda: main(node).container_id != first and main(node).state.running is not None
        )
        assert (main(node).started, main(node).ready) == (False, False)


# the end


async def test_an_ending_pod_s_liveness_isn_t_asked(tmp_path: Path) -> None:
    answers = Answers()
    fake = a_fake(answers, main=Program(term_takes=20))
    container = a_container("main", livenessProbe=probe("live"), readinessProbe=probe("ready"))
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(container))
        await eventually(lambda: is_ready(node) and len(answers.of("live")) > 2)
        answers.codes = {"live": 1, "ready": 1}
        node.registry.remove("uid-1")
        await anyio.sleep(1.5)
        answers.asked.clear()
        await anyio.sleep(5)
        assert answers.of("live") == []
        assert len(answers.of("ready")) >= 4
        # No probe's result may restart it, but the status tells that it isn't ready.
        assert not is_ready(node)
        await eventually(lambda: node.registry.worker("uid-1") is None)
        answers.asked.clear()
        await anyio.sleep(5)
        assert answers.asked == []
    assert fake.script.count("StartContainer") == 1


@pytest.mark.parametrize(
    ("fields", "check"),
    [
        pytest.param({}, lambda asked: asked == [], id="a pod without probes"),
        pytest.param(
            {"readinessProbe": probe("ready")}, lambda asked: len(asked) > 3, id="with one"
        ),
    ],
)
async def test_probes_of_the_same_pod_again(
    tmp_path: Path, fields: dict[str, Any], check: Callable[[object], bool]
) -> None:
    """A pod that comes back under the same uid is probed again."""
    answers = Answers()
    pod = a_pod(a_container("main", **fields))
    async with a_node(tmp_path, a_fake(answers)) as node:
        node.add(pod)
        await eventually(lambda: is_ready(node))
        node.registry.remove("uid-1")
        node.add(pod)
        await eventually(lambda: node.registry.worker("uid-1") is not None and is_ready(node))
        answers.asked.clear()
        await anyio.sleep(5)
        assert check(answers.asked)
