"""Order, restarts, hooks and ends of pods on the real runtime.

The agent's longest back-off is a second, so that restarts can be seen.
"""

import os
import re
import signal
import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.cri import messages as m
from tests.containerds import BUSYBOX
from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio

LOG = {"volumeMounts": [{"name": "log", "mountPath": "/log"}]}
IGNORING = "trap '' TERM; while :; do sleep 0.1; done"
REASON = "CrashLoopBackOff"


def prepare(agent: Agent) -> None:
    """Let nothing wait for longer than a second."""
    agent.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


class Log:
    """A file that all containers of a pod write to, one line each time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        self.volumes = [{"name": "log", "hostPath": {"path": str(path)}}]

    @property
    def lines(self) -> list[str]:
        path = self.path / "log"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def log(shared: Agent, request: pytest.FixtureRequest) -> Log:
    return Log(shared.folder / f"log-{request.node.originalname}")


def logging(name: str, then: str = FOREVER, **fields: Any) -> dict[str, Any]:
    """Return a container that writes when it starts; FOREVER also writes its end."""
    trap = ""
    if then == FOREVER:
        trap, then = f"trap 'echo end {name} >> /log/log; exit 0' TERM; ", "sleep 1000 & wait"
    return a_shell(name, f"{trap}echo start {name} >> /log/log; {then}", **LOG, **fields)


def hook(script: str) -> dict[str, Any]:
    return {"exec": {"command": ["/bin/sh", "-c", script]}}


async def waiting(node: Agent, pod: str, name: str) -> dict[str, Any]:
    """Return a container's waiting state."""
    state = (await node.container_status(pod, name)).get("state", {})
    found: dict[str, Any] = state.get("waiting", {})
    return found


# order


async def test_sidecars_start_in_order_and_end_last_in_reverse(node: Agent, log: Log) -> None:
    await node.run(
        "order",
        logging("main"),
        initContainers=[
            logging("init", "sleep 0.1"),
            logging("one", restartPolicy="Always"),
            logging("second-init", "sleep 0.1"),
            logging("two", restartPolicy="Always"),
        ],
        volumes=log.volumes,
    )
    await node.wait_until("all have started", lambda: len(log.lines) == 5)
    node.remove("order.yaml")
    await node.wait_gone("order")
    names = ("init", "one", "second-init", "two", "main")
    assert log.lines == [*(f"start {name}" for name in names), "end main", "end two", "end one"]


async def test_B66_short_containers_start_soon_after_each_other(node: Agent) -> None:
    names = ("a", "b", "c", "d")
    await node.outputs("short", *(a_shell(name, "true") for name in names))
    starts = [
        (await node.client.runtime.container_status(each.id)).started_at / 1e9
        for each in await node.containers("short")
    ]
    assert len(starts) == 4
    assert max(starts) - min(starts) < 2


async def test_a_post_start_hook_holds_the_next_container(node: Agent, log: Log) -> None:
    await node.run(
        "held",
        logging("one", lifecycle={"postStart": {"sleep": {"seconds": 1}}}),
        logging("two"),
        volumes=log.volumes,
    )
    found = [
        await node.client.runtime.container_status(each.id)
        for each in await node.containers("held")
    ]
    first, second = (each.started_at / 1e9 for each in found)
    assert second - first >= 1


# failing starts and restarts


async def test_B24_an_init_container_that_fails_to_start_is_tried_again(
    node: Agent, log: Log
) -> None:
    program = {"name": "init", "image": BUSYBOX, "command": ["/log/program"], **LOG}
    pod = a_manifest("latestart", logging("main"), initContainers=[program], volumes=log.volumes)
    node.write("latestart.yaml", pod)
    reason = "RunContainerError"
    await node.wait_until("it fails", lambda: node.waits("latestart", "init", reason))
    path = log.path / "program"
    path.write_text("#!/bin/sh\necho started >> /log/log\n")
    path.chmod(0o755)
    await node.wait_until("it runs", lambda: node.is_ready("latestart"))
    assert log.lines == ["started", "start main"]


async def test_B25_init_containers_run_once_a_sandbox(node: Agent, log: Log) -> None:
    await node.run(
        "initonce",
        logging("main", f"test $(grep -c main /log/log) = 3 || exit 1; {FOREVER}"),
        initContainers=[logging("init", "true")],
        volumes=log.volumes,
    )
    await node.wait_until("the third start", lambda: log.lines.count("start main") == 3)
    assert Counter(log.lines) == {"start init": 1, "start main": 3}
    assert await node.restarts("initonce", "init") == 0


async def test_B30_words_tell_a_completed_from_a_crashed_container(node: Agent) -> None:
    pod = a_manifest("loops", a_shell("completes", "true"), a_shell("crashes", "exit 3"))
    node.write("loops.yaml", pod)
    seen: dict[str, str] = {}

    async def told() -> bool:
        for name in ("completes", "crashes"):
            state = await waiting(node, "loops", name)
            if state.get("reason") == REASON:
                seen[name] = state["message"]
        return len(seen) == 2

    await node.wait_until("both wait", told)
    assert re.search(r"completed with exit code 0, next try at 20\d\d-", seen["completes"])
    assert re.search(r"\(exit code 3, next try at 20\d\d-", seen["crashes"])
    # The longest back-off is a second: by the kubelet's default the third restart takes 30.
    await node.wait_until("three restarts", lambda: node.restarted("loops", "completes", 3), 10)
    assert (await node.status("loops"))["phase"] == "Running"


async def test_restart_policies_of_the_pod(node: Agent, log: Log) -> None:
    once = "echo x >> /log/log; test $(wc -l < /log/log) = 2"
    async with anyio.create_task_group() as group:
        group.start_soon(
            partial(
                node.outputs,
                "onfailure",
                a_shell("main", once, **LOG),
                a_shell("good", "true"),
                restartPolicy="OnFailure",
                volumes=log.volumes,
            )
        )
        group.start_soon(partial(node.outputs, "never", a_shell("main", "exit 3")))
    assert (await node.status("onfailure"))["phase"] == "Succeeded"
    counts = [await node.restarts("onfailure", name) for name in ("main", "good")]
    assert counts == [1, 0]
    assert (await node.status("never"))["phase"] == "Failed"
    assert len(await node.containers("never")) == 1


async def test_restart_rules_of_a_container(node: Agent, log: Log) -> None:
    rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
    script = "echo x >> /log/log; test $(wc -l < /log/log) = 3 && exit 7; exit 42"
    rules = {"restartPolicy": "Never", "restartPolicyRules": [rule]}
    await node.outputs("rules", a_shell("main", script, **rules, **LOG), volumes=log.volumes)
    status = await node.container_status("rules", "main")
    assert status["restartCount"] == 2
    assert status["state"]["terminated"]["exitCode"] == 7


async def test_a_rule_restarts_all_containers_in_the_same_sandbox(node: Agent, log: Log) -> None:
    rule = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [88]}}
    script = f"test $(grep -c main /log/log) = 2 || exit 88; {FOREVER}"
    main = logging("main", script, restartPolicy="Never", restartPolicyRules=[rule])
    init = logging("init", "true")
    pod = a_manifest("together", main, logging("other"), initContainers=[init], volumes=log.volumes)
    node.write("together.yaml", pod)
    await node.wait_until("all start again", lambda: log.lines.count("start other") == 2)
    await node.wait_until("all run", lambda: node.is_ready("together"))
    assert Counter(line for line in log.lines if line.startswith("start")) == {
        "start init": 2,
        "start main": 2,
        "start other": 2,
    }
    assert len(await node.sandboxes("together")) == 1
    counts = [await node.restarts("together", name) for name in ("init", "main", "other")]
    assert counts == [1, 1, 1]


async def test_a_killed_process_is_restarted_once(node: Agent) -> None:
    await node.run("killed", a_shell("main", FOREVER))
    before = (await node.containers("killed"))[0].id
    os.kill(await pid_of(node, before), signal.SIGKILL)
    await node.wait_until("it is restarted", lambda: node.restarted("killed", "main", 1))
    await node.wait_until("it runs", lambda: node.is_ready("killed"))
    status = await node.container_status("killed", "main")
    assert status["restartCount"] == 1
    ended = status["lastState"]["terminated"]
    assert (ended["exitCode"], ended["reason"]) == (137, "Error")
    assert ended["containerID"] == f"containerd://{before}"


async def pid_of(node: Agent, container_id: str) -> int:
    """Return the shell of a container, which runs a moment after its start: runc becomes it."""
    await node.wait_until("its process runs", lambda: bool(shells_of(container_id)))
    return shells_of(container_id)[0]


def shells_of(container_id: str) -> list[int]:
    """Return the shells whose cgroup has the container's name."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                cgroups = (folder / "cgroup").read_text()
                command = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if container_id in cgroups and command.startswith(b"/bin/sh"):
                found.append(int(folder.name))
    return found


# hooks


async def test_B29_a_container_that_waits_for_a_hook_says_so(node: Agent) -> None:
    """The hook waits for the second container: a deadlock, which is told and can be ended."""
    start = {"postStart": hook("until nc -z localhost 8080; do sleep 0.1; done")}
    pod = a_manifest(
        "deadlock", a_shell("one", FOREVER, lifecycle=start), a_shell("two", "nc -ll -p 8080")
    )
    node.write("deadlock.yaml", pod)

    async def message() -> str:
        return str((await waiting(node, "deadlock", "two")).get("message", ""))

    async def told() -> bool:
        text = "waiting for the postStart hook of container one"
        return bool(re.match(rf"{text} \([1-9]\d*s\)$", await message()))

    await node.wait_until("the message tells whom it waits for, and for how long", told)
    assert await node.waits("deadlock", "two", "ContainerCreating")
    node.remove("deadlock.yaml")
    await node.wait_gone("deadlock", 10)


async def test_a_failing_post_start_hook_is_the_container_s_end(node: Agent) -> None:
    start = {"postStart": hook("echo told >&2; exit 1")}
    main = a_shell("main", "trap 'exit 4' TERM; sleep 1000 & wait", lifecycle=start)
    pod = a_manifest("badhook", main, restartPolicy="Never")
    node.write("badhook.yaml", pod)
    await node.wait_until("the pod has failed", lambda: node.has_ended("badhook"))
    assert (await node.status("badhook"))["phase"] == "Failed"
    main_status = await node.container_status("badhook", "main")
    assert main_status["state"]["terminated"]["exitCode"] == 4


async def test_B57_a_hook_ends_with_its_process(node: Agent) -> None:
    """A child in the background keeps the hook's pipes open: nobody waits for that."""
    stays = hook("sleep 999 & echo started")
    hooks = {"postStart": stays, "preStop": stays}
    began = time.monotonic()
    await node.run("background", a_shell("main", FOREVER, lifecycle=hooks))
    assert time.monotonic() - began < 10
    began = time.monotonic()
    node.remove("background.yaml")
    await node.wait_gone("background", 10)
    assert time.monotonic() - began < 10


async def test_B33_hook_and_signal_share_one_budget(node: Agent) -> None:
    stop = {"preStop": hook("sleep 1000")}
    await node.run(
        "budget", a_shell("main", IGNORING, lifecycle=stop), terminationGracePeriodSeconds=3
    )
    node.remove("budget.yaml")
    began = time.monotonic()

    async def stopped() -> bool:
        return await node.running("budget") == []

    await node.wait_until("the container is killed", stopped, 15)
    # 3 s for the hook, and the least of 2 s for the signal; counted twice it would be 6 and more.
    assert 3 <= time.monotonic() - began < 5.9
    await node.wait_gone("budget", 10)


# status


async def test_B68_the_network_of_a_sandbox_is_torn_down_once(node: Agent) -> None:
    await node.run("stoponce", a_shell("main", FOREVER))
    sandbox = (await node.sandboxes("stoponce"))[0].id
    node.remove("stoponce.yaml")
    await node.wait_gone("stoponce")
    said = (node.containerd.folder / "containerd.log").read_text()
    assert len(re.findall(rf'msg="TearDown network for sandbox \\"{sandbox}\\"', said)) == 1


async def test_B69_a_deadline_fails_the_pod_after_its_last_container(node: Agent) -> None:
    script = "trap 'sleep 1; exit 0' TERM; sleep 1000 & wait"
    await node.run("deadline", a_shell("main", script), activeDeadlineSeconds=2)

    async def ended() -> bool:
        if not await node.has_ended("deadline"):
            return False
        assert await node.running("deadline") == []
        return True

    await node.wait_until("the pod has failed", ended)
    status = await node.status("deadline")
    assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
    main = (await node.container_status("deadline", "main"))["state"]["terminated"]
    assert main["exitCode"] == 0


async def test_images_that_cannot_be_had(node: Agent) -> None:
    def image(name: str, image: str, policy: str) -> dict[str, Any]:
        return {"name": name, "image": image, "imagePullPolicy": policy}

    await_reasons = {
        "never": ("localhost:1/none:1", "Never", {"ErrImageNeverPull"}),
        "pull": ("localhost:1/none:1", "IfNotPresent", {"ErrImagePull", "ImagePullBackOff"}),
        "name": ("localhost/UPPER:1", "IfNotPresent", {"InvalidImageName"}),
    }
    containers = [image(name, each[0], each[1]) for name, each in await_reasons.items()]
    node.write("images.yaml", a_manifest("images", *containers, a_shell("good", FOREVER)))

    async def told() -> bool:
        found = [
            (await waiting(node, "images", name)).get("reason") in reasons
            for name, (_, _, reasons) in await_reasons.items()
        ]
        return all(found)

    await node.wait_until("every reason is told", told)
    await node.wait_until("the good one runs", lambda: runs(node, "images", "good"))
    never = (await waiting(node, "images", "never"))["message"]
    assert never == (
        'Container image "localhost:1/none:1" is not present with pull policy of Never'
    )


async def runs(node: Agent, pod: str, name: str) -> bool:
    return name in await node.running(pod)


async def test_B18_a_refused_pod_runs_when_there_is_room(node: Agent) -> None:
    all_of_it = {"requests": {"cpu": str(os.cpu_count())}}
    await node.run("first", a_shell("main", FOREVER, resources=all_of_it))
    node.write("second.yaml", a_manifest("second", a_shell("main", FOREVER, resources=all_of_it)))

    async def refused() -> bool:
        return (await node.status("second")).get("reason") == "OutOfcpu"

    await node.wait_until("the second is refused", refused)
    message = (await node.status("second"))["message"]
    assert "Node didn't have enough resource: cpu, requested: " in message
    assert "tried again" in message
    assert await node.sandboxes("second") == []
    node.remove("first.yaml")
    # At once: the timer's first try comes after 5 s.
    await node.wait_until("the second runs", lambda: node.is_ready("second"), 4)
    assert (await node.status("second")).get("reason", "") == ""


async def test_a_sandbox_removed_by_someone_else_is_made_again(node: Agent) -> None:
    await node.run("lost", a_shell("main", FOREVER), initContainers=[a_shell("init", "true")])
    old = (await node.sandboxes("lost"))[0]
    await node.client.runtime.stop_pod_sandbox(old.id)
    await node.client.runtime.remove_pod_sandbox(old.id)

    async def renewed() -> bool:
        found = [each for each in await node.sandboxes("lost") if each.state == m.SANDBOX_READY]
        return [each.id for each in found] not in ([], [old.id]) and await node.is_ready("lost")

    await node.wait_until("a new sandbox runs", renewed)
    assert await node.running("lost") == ["main"]
    assert len(await node.containers("lost", "init")) == 1
