"""The runtime goes away, answers late or loses things; the agent is killed under load."""

import fcntl
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio

LOAD = [f"load-{number}" for number in range(20)]


def logging(path: Path, script: str) -> dict[str, Any]:
    """Return the spec of a pod whose container runs a script with a folder of the node at /log."""
    path.mkdir()
    mounts = [{"name": "log", "mountPath": "/log"}]
    return {
        "containers": [a_shell("main", script, volumeMounts=mounts)],
        "volumes": [{"name": "log", "hostPath": {"path": str(path)}}],
    }


async def ids(agent: Agent, *pods: str) -> dict[str, list[tuple[str, int]]]:
    """Return the ids and attempts of all containers by pod."""
    return {
        pod: [(each.id, each.metadata.attempt) for each in await agent.containers(pod)]
        for pod in pods
    }


async def health(agent: Agent) -> tuple[int, str]:
    status, body = await agent.get("/healthz")
    return status, body.decode()


async def answers(agent: Agent) -> bool:
    """Tell whether the runtime answers this process: its connection comes back by itself, too."""
    try:
        await agent.client.runtime.version()
    except CRIError:
        return False
    return True


async def test_the_runtime_stopped_and_started_again(agent: Agent) -> None:
    """What ran goes on, what ended meanwhile is restarted once, what was added meanwhile starts."""
    log = agent.folder / "log"
    script = (
        f"echo start >> /log/log; if test -e /log/end; then {FOREVER}; fi; "
        "until test -e /log/end; do sleep 0.05; done; echo end >> /log/log"
    )
    await agent.start()
    spec = logging(log, script)
    agent.write("ends.yaml", a_manifest("ends", *spec.pop("containers"), **spec))
    await agent.run("stays", a_shell("main", FOREVER))
    await agent.run("goes", a_shell("main", FOREVER))
    await agent.wait_until("it runs", lambda: agent.is_ready("ends"))
    before = await ids(agent, "stays", "ends")
    await anyio.to_thread.run_sync(agent.containerd.stop)
    try:

        async def said() -> bool:
            status, text = await health(agent)
            return status == 500 and "container runtime is down" in text

        await agent.wait_until("/healthz says so", said)
        assert set(await agent.pods()) == {"stays", "ends", "goes"}
        (log / "end").touch()
        await agent.wait_until("it ends", lambda: "end" in (log / "log").read_text())
        agent.write("new.yaml", a_manifest("new", a_shell("main", FOREVER)))
        agent.remove("goes.yaml")
    finally:
        await anyio.to_thread.run_sync(agent.containerd.start)
        await agent.wait_until("the runtime answers again", lambda: answers(agent))

    async def healthy() -> bool:
        return (await health(agent))[0] == 200

    await agent.wait_until("/healthz is fine again", healthy)
    await agent.wait_until("the new one runs", lambda: agent.is_ready("new"))
    await agent.wait_gone("goes")

    async def restarted() -> bool:
        status = await agent.container_status("ends", "main")
        return bool(status["restartCount"] == 1 and await agent.is_ready("ends"))

    await agent.wait_until("what had ended is restarted", restarted)
    assert (log / "log").read_text().split() == ["start", "end", "start"]
    after = await ids(agent, "stays", "ends")
    assert after["stays"] == before["stays"]
    assert after["ends"][-1][1] == 1
    assert await agent.running("stays") == await agent.running("ends") == ["main"]


def leases(agent: Agent) -> list[Path]:
    """Return the addresses that the network has given out."""
    return list((agent.containerd.folder / "leases").glob("*/10.*"))


@contextmanager
def no_addresses(agent: Agent) -> Iterator[None]:
    """Hold the lock that the address plugin takes: a sandbox's network waits for it."""
    (lock,) = (agent.containerd.folder / "leases").glob("*/lock")
    assert leases(agent) == []
    with lock.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


async def test_B62_sandboxes_that_come_after_the_deadline(agent: Agent) -> None:
    """Time-outs (twice the limit for a sandbox) end in one pod, not in reserved names for ever."""
    agent.settings["runtimeRequestTimeout"] = "1s"
    await agent.start()
    await agent.outputs("first", a_shell("main", "true"))  # makes the lock
    await agent.wait_until("its network is gone", lambda: not leases(agent))
    with no_addresses(agent):
        agent.write("late.yaml", a_manifest("late", a_shell("main", FOREVER)))

        async def told() -> bool:
            return "Failed to create pod sandbox" in (await agent.status("late")).get("message", "")

        await agent.wait_until("the time-out is told", told)
        await anyio.sleep(1)  # another try falls into the same time
    await agent.wait_until("the pod runs", lambda: agent.is_ready("late"))
    ready = [each for each in await agent.sandboxes("late") if each.state == m.SANDBOX_READY]
    assert len(ready) == 1
    assert await agent.running("late") == ["main"]
    agent.remove("late.yaml")
    await agent.wait_gone("late")
    assert leases(agent) == []


async def all_ready(agent: Agent) -> bool:
    pods = await agent.pods()
    ready = [
        name
        for name, pod in pods.items()
        for each in pod["status"].get("conditions", ())
        if (each["type"], each["status"]) == ("Ready", "True")
    ]
    return sorted(ready) == sorted(LOAD)


async def has_lost_a_task(agent: Agent) -> bool:
    """Tell whether the runtime says of a container that has ended that it can't be removed."""
    for container in await agent.client.runtime.list_containers():
        try:
            await agent.client.runtime.remove_container(container.id)
        except CRIError as error:
            if "cannot delete running task" in str(error):
                return True
    return False


@pytest.mark.timeout(180)
async def test_B65_an_agent_killed_under_load_starts_nothing_twice(agent: Agent) -> None:
    await agent.start()
    for name in LOAD:
        agent.write(f"{name}.yaml", a_manifest(name, a_shell("main", FOREVER)))

    async def some_run() -> bool:
        return len(await agent.client.runtime.list_containers()) >= len(LOAD) // 3

    await agent.wait_until("some of them run", some_run)
    agent.kill()
    await agent.start()
    await agent.wait_until("all are ready", lambda: all_ready(agent), 60)
    first = await ids(agent, *LOAD)
    for name in LOAD:
        assert await agent.running(name) == ["main"]
        for dead in (await agent.containers(name))[:-1]:
            # The runtime gives a start up when its caller is gone: that one never ran.
            assert (await agent.client.runtime.container_status(dead.id)).reason == "StartError"
        assert len(first[name]) <= 2
    sandboxes = await agent.client.runtime.list_pod_sandbox()
    assert set(Counter(each.metadata.name for each in sandboxes).values()) == {1}
    counts = {name: pod["status"] for name, pod in (await agent.pods()).items()}
    agent.kill()
    await agent.start()
    await agent.wait_until("all are ready", lambda: all_ready(agent))
    assert await ids(agent, *LOAD) == first
    assert {name: pod["status"] for name, pod in (await agent.pods()).items()} == counts
    for name in LOAD:
        agent.remove(f"{name}.yaml")

    async def nothing() -> bool:
        return await agent.pods() == {}

    try:
        await agent.wait_until("all are gone", nothing, 40)
    except AssertionError:
        # containerd 2 may lose sight of a task whose start it gave up with its caller; no call of
        # CRI takes that away, only its own restart.
        if not await has_lost_a_task(agent):
            raise
        await anyio.to_thread.run_sync(agent.containerd.stop)
        await anyio.to_thread.run_sync(agent.containerd.start)
        await agent.wait_until("all are gone", nothing, 40)


async def test_after_a_reboot_pods_start_anew(agent: Agent) -> None:
    """Sandboxes that went while the agent was away are made again, init containers included."""
    await agent.start()
    init = a_shell("init", "echo init")
    await agent.run("web", a_shell("main", FOREVER), initContainers=[init])
    agent.kill()
    for old in await agent.sandboxes("web"):
        await agent.client.runtime.stop_pod_sandbox(old.id)
        await agent.client.runtime.remove_pod_sandbox(old.id)
    await agent.start()

    async def runs() -> bool:
        return await agent.running("web") == ["main"] and await agent.is_ready("web")

    await agent.wait_until("it runs again", runs)
    assert await agent.output("web", "init") == "init\n"
    assert len(await agent.sandboxes("web")) == 1


async def test_a_manifest_that_vanished_while_the_agent_was_away(agent: Agent) -> None:
    """Its pod ends with its own grace."""
    log = agent.folder / "log"
    script = "trap 'sleep 1; echo clean > /log/log; exit 0' TERM; sleep 1000 & wait"
    spec = logging(log, script)
    await agent.start()
    await agent.run("web", *spec.pop("containers"), **spec)
    agent.kill()
    agent.remove("web.yaml")
    await agent.start()
    await agent.wait_gone("web")
    assert (log / "log").read_text() == "clean\n"
