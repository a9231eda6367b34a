"""From a manifest file to processes and back, on real containerds."""

import json

import pytest

from tests.e2e.agent import Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio

SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.2; done"


async def test_a_pod_with_init_sidecar_and_main_container_runs_and_ends(agent: Agent) -> None:
    await agent.start()
    www = [{"name": "www", "mountPath": "/www"}]
    pod = a_manifest(
        "web",
        a_shell("main", f"cat /www/page; {SLEEP}", volumeMounts=www),
        initContainers=[
            a_shell("page", "echo hello > /www/page", volumeMounts=www),
            a_shell("side", SLEEP, restartPolicy="Always"),
        ],
        volumes=[{"name": "www", "emptyDir": {}}],
        terminationGracePeriodSeconds=5,
    )
    agent.write("web.yaml", pod)

    async def is_ready() -> bool:
        pods = await agent.pods()
        conditions = pods.get("web", {}).get("status", {}).get("conditions", [])
        return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)

    await agent.wait_until("the pod is ready", is_ready)
    assert await agent.running("web") == ["side", "main"]
    assert await agent.output("web", "main") == "hello\n"
    status = (await agent.pods())["web"]["status"]
    assert status["phase"] == "Running"
    assert status["podIP"]
    assert status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    code, body = await agent.get("/containerLogs/default/web-node1/main")
    assert (code, body) == (200, b"hello\n")
    agent.remove("web.yaml")

    async def is_gone() -> bool:
        left = await agent.sandboxes("web") or await agent.containers("web")
        return not left and not await agent.pods()

    await agent.wait_until("nothing of the pod is left", is_gone)
    assert list((agent.root / "pods").iterdir()) == []
    assert list(agent.logs.iterdir()) == []


async def test_a_restart_of_the_agent_changes_nothing(agent: Agent) -> None:
    await agent.start()
    agent.write("web.yaml", a_manifest("web", a_shell("main", SLEEP)))

    async def runs() -> bool:
        return await agent.running("web") == ["main"]

    await agent.wait_until("the container runs", runs)

    async def is_running() -> bool:
        return bool((await agent.pods())["web"]["status"]["phase"] == "Running")

    await agent.wait_until("the status says so", is_running)

    def is_remembered() -> bool:
        (document,) = (agent.root / "minikubelet" / "pods").glob("*.json")
        conditions = json.loads(document.read_text())["status"].get("conditions", [])
        return bool(conditions) and all(c["status"] == "True" for c in conditions)

    # Killed sooner, it would see the pod become ready a second time.
    await agent.wait_until("the agent has written it down", is_remembered)
    before = (await agent.containers("web"))[0].id, (await agent.pods())["web"]
    agent.kill()
    await agent.start()
    await agent.wait_until("the status is back", is_running)
    after = (await agent.containers("web"))[0].id, (await agent.pods())["web"]
    before[1]["metadata"]["annotations"].pop("kubernetes.io/config.seen")
    after[1]["metadata"]["annotations"].pop("kubernetes.io/config.seen")
    assert after == before
