"""What accidents, other programs and time do to a node: none of it ends or doubles a pod."""

import json
import os
import random
import signal
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.host import mounts
from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio

ROUNDS = 4


def a_quick_pod(name: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec.setdefault("terminationGracePeriodSeconds", 0)
    return a_manifest(name, *(containers or (a_shell("c", FOREVER),)), **spec)


def a_pod_with_uid(name: str, uid: str) -> dict[str, Any]:
    pod = a_quick_pod(name)
    pod["metadata"]["uid"] = uid
    return pod


async def test_a_folder_full_of_other_things(agent: Agent) -> None:
    folder = agent.manifests
    agent.write("good.yaml", a_quick_pod("good"))
    os.mkfifo(folder / "pipe.yaml")
    (folder / "dir.yaml").mkdir()
    (folder / "dangling.yaml").symlink_to("/nonexistent")
    (folder / "loop.yaml").symlink_to("loop.yaml")
    (folder / "zero.yaml").symlink_to("/dev/zero")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.yaml")).write_text("kind: Pod")
    (folder / "noise.yaml").write_bytes(random.Random(1).randbytes(5000))  # noqa: S311
    (folder / "big.yaml").write_text("#" * (11 << 20))
    agent.write("digits.yaml", '{"kind": "Pod", "spec": {"priority": %s}}' % ("9" * 5000))
    agent.write("half.yaml", '{"kind": "\\ud800", "metadata": {"name": "x"}}')
    agent.write("uid.yaml", a_pod_with_uid("uid", "../../../../../../tmp"))
    agent.write("nulls.yaml", '{"kind": "Pod", "apiVersion": "v1", "metadata": null, "spec": null}')
    agent.write("many.yaml", "---\n".join("kind: Pod\n" for _ in range(500)))
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket.yaml"))
        await agent.start()
        await agent.wait_until("the good pod is ready", lambda: agent.is_ready("good"))
    assert list(await agent.pods()) == ["good"]
    told = {each["location"] for each in (await agent.manifest_reports())["manifests"]}
    assert {Path(place).name for place in told} == {
        *(
            name
            for name in os.listdir(folder)  # noqa: PTH208  names as they are
            if name.isascii()
        ),
        "\\xff.yaml",
    }


async def test_a_storm_of_kills(agent: Agent) -> None:
    chance = random.Random(3)  # noqa: S311  a storm that comes back
    wanted: set[str] = set()
    pods = {
        "plain": a_quick_pod("plain"),
        "staged": a_quick_pod(
            "staged",
            initContainers=[
                a_shell("first", "true"),
                a_shell("side", FOREVER, restartPolicy="Always"),
            ],
        ),
        "memory": a_quick_pod(
            "memory",
            a_shell("c", FOREVER, volumeMounts=[{"name": "v", "mountPath": "/v"}]),
            volumes=[{"name": "v", "emptyDir": {"medium": "Memory"}}],
        ),
        "once": a_quick_pod("once", a_shell("c", "true"), restartPolicy="Never"),
    }
    for number in range(ROUNDS):
        for name, pod in pods.items():
            pod["metadata"]["labels"]["edit"] = str(chance.randrange(3))
            if chance.random() < 0.7:
                agent.write(f"{name}.yaml", pod)
                wanted.add(name)
            elif name in wanted:
                agent.remove(f"{name}.yaml")
                wanted.discard(name)
        await agent.start()
        await anyio.sleep(chance.random())
        if number < ROUNDS - 1:
            agent.kill()

    async def is_settled() -> bool:
        return set(await agent.pods()) == wanted and all(
            [await (agent.has_ended if n == "once" else agent.is_ready)(n) for n in wanted]
        )

    await agent.wait_until(f"exactly {wanted} are there", is_settled)
    sandboxes = await agent.client.runtime.list_pod_sandbox()
    assert Counter(s.metadata.name for s in sandboxes if s.state == m.SANDBOX_READY) == Counter(
        f"{name}-{agent.node}" for name in wanted if name != "once"
    )
    running = await agent.client.runtime.list_containers(state=m.CONTAINER_RUNNING)
    names = Counter(f"{c.labels['io.kubernetes.pod.name']}/{c.metadata.name}" for c in running)
    assert set(names.values()) <= {1}
    for name in wanted:
        agent.remove(f"{name}.yaml")
    for name in pods:
        await agent.wait_gone(name)
    await agent.wait_until("nothing is left", lambda: not _left(agent))


def _left(agent: Agent) -> list[str]:
    """Return what is there of any pod: folders, state, logs, mounts."""
    folders = (agent.root / "pods", agent.root / "minikubelet" / "pods", agent.logs)
    found = [str(path) for folder in folders if folder.exists() for path in folder.iterdir()]
    return [*found, *mounts.mounts_below(str(agent.root))]


async def test_state_files_that_a_person_ruined(agent: Agent) -> None:
    await agent.start()
    for name in ("a", "b"):
        await agent.run(name, a_shell("c", FOREVER), terminationGracePeriodSeconds=0)
    before = {each.id for name in ("a", "b") for each in await agent.containers(name)}
    agent.kill()
    first, second = sorted((agent.root / "minikubelet" / "pods").glob("*.json"))
    (first.parent / "copy.json").write_text(first.read_text())
    first.write_text(first.read_text()[:200])
    second.write_text(json.dumps(json.loads(second.read_text()) | {"status": {"startTime": "x"}}))
    for path in (agent.root / "minikubelet" / "manifests").iterdir():
        path.write_text("[" * 100_000)
    await agent.start()
    for name in ("a", "b"):
        await agent.wait_until("the pod is ready", lambda name=name: agent.is_ready(name))
    after = {each.id for name in ("a", "b") for each in await agent.containers(name)}
    assert after == before


async def test_a_sandbox_that_dies_by_itself_leaves_nothing(agent: Agent) -> None:
    await agent.start()
    await agent.run("a", a_shell("c", FOREVER), terminationGracePeriodSeconds=0)
    leases = agent.containerd.folder / "leases"
    held = len(list(leases.rglob("10.*")))
    for number in (1, 2, 3):
        kill_task(agent, (await agent.sandboxes("a"))[-1].id)

        async def is_up_again(number: int = number) -> bool:
            newest = (await agent.sandboxes("a"))[-1]
            return newest.metadata.attempt == number and await agent.is_ready("a")

        await agent.wait_until("the pod has a new sandbox", is_up_again)
    assert len(list(leases.rglob("10.*"))) == held


def kill_task(agent: Agent, task: str) -> None:
    ctr = [str(agent.containerd.folder / "ctr"), "-a", str(agent.containerd.socket), "-n", "k8s.io"]
    subprocess.run([*ctr, "tasks", "kill", "-s", "KILL", task], check=True, capture_output=True)


@contextmanager
def a_small_disk(path: Path) -> Iterator[None]:
    path.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", path], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", path], check=True)


async def test_on_a_full_disk_pods_end_and_others_say_why_they_wait(agent: Agent) -> None:
    with a_small_disk(agent.root):
        await agent.start()
        await agent.run("old", a_shell("c", FOREVER), terminationGracePeriodSeconds=0)
        with pytest.raises(OSError, match="No space"):
            (agent.root / "fill").write_bytes(bytes(1 << 20))
        agent.write("new.yaml", a_quick_pod("new"))
        await agent.wait_until(
            "the pod says why", lambda: agent.waits("new", "c", "CreateContainerConfigError")
        )
        agent.remove("old.yaml")
        await agent.wait_gone("old")
        agent.kill()


async def test_a_runtime_that_hangs_is_told(agent: Agent) -> None:
    await agent.start()
    pid = int((agent.containerd.folder / "containerd.pid").read_text())
    os.kill(pid, signal.SIGSTOP)
    try:
        agent.write("a.yaml", a_quick_pod("a"))

        async def is_told() -> bool:
            return b"container runtime has not answered for" in (await agent.get("/healthz"))[1]

        await agent.wait_until("healthz tells it", is_told)
    finally:
        os.kill(pid, signal.SIGCONT)
    await agent.wait_until("the pod is ready", lambda: agent.is_ready("a"))
    assert (await agent.get("/healthz"))[1] == b"ok"
