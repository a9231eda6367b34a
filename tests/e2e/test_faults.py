"""kill -9 of the real agent around its CRI calls, on real containerds (MINIKUBELET_FAULTS)."""

import signal
from collections import Counter

import pytest

from tests.e2e.agent import Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio

SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.1; done"
STARTS = (
    "RunPodSandbox:1",
    "PodSandboxStatus:1",
    *(f"{call}:{number}" for call in ("CreateContainer", "StartContainer") for number in (1, 2, 3)),
    "ExecSync:1",
)
ENDS = ("StopContainer:1", "StopContainer:2", "RemovePodSandbox:1")
HOOK = {"exec": {"command": ["/bin/sh", "-c", "echo hook >> /seen/hook"]}}


def the_pod() -> dict[str, object]:
    seen = [{"name": "seen", "mountPath": "/seen"}]
    return a_manifest(
        "web",
        a_shell("main", SLEEP, lifecycle={"postStart": HOOK}, volumeMounts=seen),
        initContainers=[a_shell("init", "true"), a_shell("side", SLEEP, restartPolicy="Always")],
        volumes=[{"name": "seen", "emptyDir": {}}],
        terminationGracePeriodSeconds=5,
    )


async def crash(agent: Agent, point: str, *, removing: bool) -> None:
    """Run the agent with a fault point until it is dead."""
    await agent.start(faults=point)
    agent.write("web.yaml", the_pod())
    if removing:
        await agent.wait_until("the pod runs", lambda: is_ready(agent))
        agent.remove("web.yaml")
    assert await agent.ended() == -signal.SIGKILL


async def is_ready(agent: Agent) -> bool:
    pod = (await agent.pods()).get("web", {})
    conditions = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", STARTS)
async def test_killed_while_a_pod_starts(agent: Agent, call: str, when: str) -> None:
    await crash(agent, f"{when}:{call}", removing=False)
    await agent.start()
    await agent.wait_until("the pod is ready", lambda: is_ready(agent))
    assert await agent.running("web") == ["side", "main"]
    assert len(await agent.sandboxes("web")) == 1
    names = Counter(each.metadata.name for each in await agent.containers("web"))
    assert names == {"init": 1, "side": 1, "main": 1}
    assert {each.metadata.attempt for each in await agent.containers("web")} == {0}
    uid = (await agent.pods())["web"]["metadata"]["uid"]
    hook = agent.root / "pods" / uid / "volumes" / "kubernetes.io~empty-dir" / "seen" / "hook"
    assert hook.read_text().startswith("hook\n")


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("call", ENDS)
async def test_killed_while_a_pod_ends(agent: Agent, call: str, when: str) -> None:
    await crash(agent, f"{when}:{call}", removing=True)
    await agent.start()

    async def is_gone() -> bool:
        left = await agent.sandboxes("web") or await agent.containers("web")
        return not left and not await agent.pods()

    await agent.wait_until("nothing of the pod is left", is_gone)
    assert list((agent.root / "pods").iterdir()) == []
    assert list((agent.root / "minikubelet" / "pods").iterdir()) == []
