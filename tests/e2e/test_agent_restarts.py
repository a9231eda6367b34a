"""What the agent knew of containers outlives it: completed, started, ready."""

import os
import signal

import pytest

from minikubelet.agent.agent import STATE_FOLDER
from tests.e2e.agent import FOREVER, Agent, a_shell
from tests.e2e.test_lifecycle import pid_of, prepare
from tests.e2e.test_probes import MOUNT, SCRATCH, always, shell

pytestmark = pytest.mark.anyio


async def test_B59_a_removed_init_container_stays_completed(agent: Agent) -> None:
    """Also when the agent or the regular container is started anew."""
    await agent.start()
    init = a_shell("init", "true")
    await agent.run("cleaned", a_shell("main", FOREVER), initContainers=[init])
    record = (await agent.containers("cleaned", "init"))[0]
    await agent.client.runtime.remove_container(record.id)

    async def completed() -> bool:
        status = await agent.container_status("cleaned", "init")
        ended = status.get("state", {}).get("terminated", {})
        return ended.get("exitCode") == 0 and await agent.is_ready("cleaned")

    await agent.wait_until("the init container is completed", completed)
    agent.kill()
    await agent.start()
    await agent.wait_until("it is completed after a restart", completed)
    main = (await agent.containers("cleaned", "main"))[-1]
    os.kill(await pid_of(agent, main.id), signal.SIGKILL)
    await agent.wait_until("main is restarted", lambda: agent.restarted("cleaned", "main", 1))
    await agent.wait_until("the pod is ready again", completed)
    assert await agent.containers("cleaned", "init") == []


async def test_B23_a_sidecar_with_a_startup_probe_survives_the_agent(agent: Agent) -> None:
    """What crashes beside it after the agent's restart is restarted."""
    prepare(agent)
    await agent.start()
    side = a_shell("side", FOREVER, restartPolicy="Always", startupProbe=shell("true"))
    main = a_shell("main", "while ! test -f /d/crash; do sleep 0.1; done; rm /d/crash; exit 1")
    main["volumeMounts"] = MOUNT["volumeMounts"]
    await agent.run("side", main, initContainers=[side], **SCRATCH)
    agent.kill()
    await agent.start()
    await agent.exec("side", "main", "touch /d/crash")
    await agent.wait_until("main is restarted", lambda: agent.restarted("side", "main", 1))
    await agent.wait_until("the pod is ready again", lambda: agent.is_ready("side"))
    assert not await agent.restarted("side", "side", 1)


async def test_ready_and_started_outlive_the_agent(agent: Agent) -> None:
    await agent.start()
    probes = {
        "startupProbe": shell("true", periodSeconds=1),
        "readinessProbe": shell("true", periodSeconds=30),
    }
    await agent.run("kept", a_shell("main", FOREVER, **probes))

    def is_noted() -> bool:
        notes = (agent.root / STATE_FOLDER / "pods").glob("*.json")
        return any('"ready": true' in note.read_text() for note in notes)

    # What is told is written down a moment later.
    await agent.wait_until("it is written down", is_noted)
    before = (await agent.status("kept"))["conditions"]
    agent.kill()
    await agent.start()

    async def unchanged() -> bool:
        status = await agent.status("kept")
        return bool(status.get("conditions") == before)

    await always(unchanged, 3)
