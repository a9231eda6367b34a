"""Pods of the apiserver on a real node: their ends, their phases, and what is told of them.

The agent's requests pass a proxy that only looks, so that they can be counted.
"""

import itertools
import time
from typing import Any

import anyio
import pytest

from minikubelet.cri import messages as m
from tests.e2e.administrator import Told, path_of
from tests.e2e.agent import FOREVER, STUBBORN, a_manifest, a_shell
from tests.e2e.workers import Worker
from tests.integration.proxy import Front, Seen

pytestmark = pytest.mark.anyio

FRONTS: dict[str, Front] = {}


def prepare(worker: Worker) -> None:
    """Look at all that the agent asks for; let no restart wait for longer than a second."""
    FRONTS[worker.node] = worker.behind_a_front()
    worker.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


def pods_path(worker: Worker) -> str:
    return path_of("pod", worker.namespace)


def requests_about(worker: Worker, name: str) -> list[Seen]:
    """Return the agent's requests about one pod of the test's namespace."""
    path = path_of("pod", worker.namespace, name)
    return [
        seen
        for seen in FRONTS[worker.node].requests
        if seen.path == path or seen.path.startswith(f"{path}/")
    ]


def events_sent(worker: Worker) -> int:
    path = path_of("event", worker.namespace)
    return sum(seen.path.startswith(path) for seen in FRONTS[worker.node].requests)


async def no_runtime_trace(worker: Worker, name: str) -> None:
    async def gone() -> bool:
        return not await worker.sandboxes(name) and not await worker.containers(name)

    await worker.wait_until(f"the runtime has nothing of {name}", gone)


# deletion


async def test_a_deleted_pod_goes_to_the_end_before_its_object_does(worker: Worker) -> None:
    """The hook, TERM with time left, volumes and cgroup; only then the object goes."""
    script = "trap 'echo term >> /said/it; exit 0' TERM; sleep 1000 & wait"
    said = worker.folder / "said"
    said.mkdir()
    hook = {"exec": {"command": ["/bin/sh", "-c", "sleep 1; echo hook >> /said/it"]}}
    container = a_shell(
        "main",
        script,
        lifecycle={"preStop": hook},
        volumeMounts=[{"name": "said", "mountPath": "/said"}, {"name": "m", "mountPath": "/m"}],
    )
    volumes = [
        {"name": "said", "hostPath": {"path": str(said)}},
        {"name": "m", "emptyDir": {"medium": "Memory"}},
    ]
    await worker.run_pod(a_manifest("ending", container, volumes=volumes))
    uid = (await worker.pod("ending"))["metadata"]["uid"]
    folder = worker.root / "pods" / uid
    assert (folder / "volumes").is_dir()
    assert worker.cgroups_of(uid)
    left: list[object] = []

    def look(told: Told) -> None:
        if told.type == "DELETED":
            left.append([*folder.glob("volumes/*/*"), *worker.cgroups_of(uid)])

    with worker.admin.watch(pods_path(worker)) as watch:
        watch.on_event = look
        await worker.delete("pod", "ending")
        await worker.wait_until("its object is gone", lambda: watch.gone("ending"))
    assert left == [[]]
    assert (said / "it").read_text() == "hook\nterm\n"
    last = watch.of("ending")[-1].object["status"]
    assert last["phase"] == "Succeeded"
    assert last["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    assert not [told for told in watch.of("ending") if "Ready" in unready_late(told)]
    await no_runtime_trace(worker, "ending")
    await worker.wait_until("its folder is gone", lambda: not folder.exists())
    await worker.wait_for_events("ending", "Killing")


def unready_late(told: Told) -> list[str]:
    """Return the conditions that say True of a pod that has ended."""
    status = told.object["status"]
    if status["phase"] not in ("Succeeded", "Failed"):
        return []
    return [c["type"] for c in status["conditions"] if c["status"] == "True"]


async def test_a_shorter_grace_is_taken_meanwhile(worker: Worker) -> None:
    await worker.run_pod(a_manifest("slow", a_shell("main", STUBBORN)))
    began = time.monotonic()
    await worker.delete("pod", "slow", 30)
    await worker.wait_for_events("slow", "Killing")
    await worker.delete("pod", "slow", 1)
    await worker.pod_gone("slow")
    assert time.monotonic() - began < 15
    await no_runtime_trace(worker, "slow")


async def test_a_name_can_be_used_again_at_once(worker: Worker) -> None:
    """By force the old containers still end while the namesake starts."""
    first = await worker.run_pod(worker.bound("again", a_shell("main", FOREVER)))
    await worker.delete("pod", "again", 0)
    second = await worker.run_pod(worker.bound("again", a_shell("main", FOREVER)))
    assert second["metadata"]["uid"] != first["metadata"]["uid"]

    async def only_the_second() -> bool:
        uids = {sandbox.metadata.uid for sandbox in await worker.sandboxes("again")}
        return uids == {second["metadata"]["uid"]}

    await worker.wait_until("nothing of the first is left", only_the_second)
    # Gracefully: as fast as a controller re-creates.
    with worker.admin.watch(pods_path(worker)) as watch:
        await worker.delete("pod", "again")
        await worker.wait_until("the second is gone", lambda: watch.gone("again"))
        third = await worker.run_pod(worker.bound("again", a_shell("main", FOREVER)))
    status = await worker.told("again")
    assert status["containerStatuses"][0]["restartCount"] == 0
    assert third["metadata"]["uid"] != second["metadata"]["uid"]


async def test_deleted_by_force_it_ends_with_its_hook(worker: Worker) -> None:
    said = worker.folder / "forced"
    said.mkdir()
    hook = {"exec": {"command": ["/bin/sh", "-c", "echo hook > /said/it"]}}
    mounts = [{"name": "said", "mountPath": "/said"}]
    container = a_shell("main", FOREVER, lifecycle={"preStop": hook}, volumeMounts=mounts)
    volumes = [{"name": "said", "hostPath": {"path": str(said)}}]
    await worker.run_pod(a_manifest("forced", container, volumes=volumes))
    await worker.delete("pod", "forced", 0)
    assert not await worker.pod("forced")
    await no_runtime_trace(worker, "forced")
    assert (said / "it").read_text() == "hook\n"


@pytest.mark.parametrize("moment", ["bound", "sandbox", "init"])
async def test_deletion_while_starting(worker: Worker, moment: str) -> None:
    init = [a_shell("first", "sleep 600" if moment == "init" else "true")]
    pod = worker.bound("hasty", a_shell("main", FOREVER), initContainers=init)
    with worker.admin.watch(pods_path(worker)) as watch:
        await worker.create(pod)

        async def there() -> bool:
            match moment:
                case "sandbox":
                    return bool(await worker.sandboxes("hasty"))
                case "init":
                    return any(
                        c.state == m.CONTAINER_RUNNING for c in await worker.containers("hasty")
                    )
            return True

        await worker.wait_until(f"it has come to: {moment}", there)
        await worker.delete("pod", "hasty", 5)
        await worker.wait_until("its object is gone", lambda: watch.gone("hasty"))
    await no_runtime_trace(worker, "hasty")
    last = watch.of("hasty")[-1].object["status"]
    assert last["phase"] in ("Failed", "Succeeded"), last
    uid = watch.of("hasty")[-1].object["metadata"]["uid"]
    await worker.wait_until("its cgroup is gone", lambda: not worker.cgroups_of(uid))


# phases and what is told


async def test_final_phases_never_flip(worker: Worker) -> None:
    """Not when containers vanish, not over a restart of the agent, not while it is deleted."""
    pods = {"good": "exit 0", "bad": "exit 3"}
    with worker.admin.watch(pods_path(worker)) as watch:
        for name, script in pods.items():
            await worker.create(a_manifest(name, a_shell("main", script), restartPolicy="Never"))
        await worker.pod_in_phase("good", "Succeeded")
        await worker.pod_in_phase("bad", "Failed")

        async def sandboxes_are_told_gone() -> bool:
            conditions = [c for name in pods for c in (await worker.told(name))["conditions"]]
            found = [c["status"] for c in conditions if c["type"] == "PodReadyToStartContainers"]
            return found == ["False", "False"]

        await worker.wait_until("their last word is told", sandboxes_are_told_gone)
        before = {name: await worker.told(name) for name in pods}
        (container,) = await worker.containers("bad", "main")
        await worker.client.runtime.remove_container(container.id)
        worker.kill()
        await worker.start()
        await worker.run_pod(a_manifest("later", a_shell("main", FOREVER)))
        for name, status in before.items():
            assert await worker.told(name) == status
        for name in pods:
            await worker.delete("pod", name)
        await worker.wait_until("both are gone", lambda: all(watch.gone(name) for name in pods))
    order = ["Pending", "Running", "Succeeded", "Failed"]
    for name in pods:
        phases = [told.object["status"]["phase"] for told in watch.of(name)]
        assert phases == sorted(phases, key=order.index), phases
        assert len(set(phases) & {"Succeeded", "Failed"}) == 1, phases


async def test_few_requests_per_pod_and_none_while_idle(worker: Worker) -> None:
    """No reads, few patches, fewer than changes. Then silence but for lease and watches."""
    containers = [a_shell(f"c{number}", FOREVER) for number in range(5)]
    await worker.run_pod(a_manifest("plain", a_shell("main", FOREVER)))
    await worker.run_pod(a_manifest("burst", *containers))
    await worker.wait_for_events("burst", "Pulled", "Created", "Started")
    for name, events, patches in (("plain", 3, 3), ("burst", 15, 6)):
        methods = [seen.method for seen in requests_about(worker, name)]
        assert set(methods) == {"PATCH"}, (name, methods)
        assert len(methods) <= patches, (name, methods)
        own = [event for event in await worker.events(name) if event["reason"] != "Scheduled"]
        assert sum(event.get("count", 1) for event in own) == events
    assert events_sent(worker) == 18
    front = FRONTS[worker.node]
    begin = len(front.requests)
    await anyio.sleep(21)
    late = [seen for seen in front.requests[begin:] if not seen.is_watch]
    assert {(seen.method, seen.path.split("/")[-2]) for seen in late} == {("PUT", "leases")}
    gaps = [second.second - first.second for first, second in itertools.pairwise(late)]
    assert 1 <= len(gaps) <= 2
    assert all(9.9 < gap < 11.5 for gap in gaps), gaps


async def test_others_conditions_stay_and_gates_count(worker: Worker) -> None:
    gate = "example.com/approved"
    pod = a_manifest("gated", a_shell("main", FOREVER), readinessGates=[{"conditionType": gate}])
    await worker.create(pod)

    async def condition(kind: str) -> dict[str, Any]:
        found = (await worker.told("gated")).get("conditions", [])
        return next((c for c in found if c["type"] == kind), {})

    async def waits_for_the_gate() -> bool:
        ready = await condition("Ready")
        return bool(ready.get("reason") == "ReadinessGatesNotReady")

    await worker.wait_until("only the gate is missing", waits_for_the_gate)
    text = f'corresponding condition of pod readiness gate "{gate}" does not exist.'
    assert (await condition("Ready"))["message"] == text
    mine = {"type": gate, "status": "True", "reason": "Because", "message": "it is good"}
    other = {"type": "example.com/other", "status": "Unknown", "lastProbeTime": None}
    await worker.patch("pod", "gated", {"status": {"conditions": [mine, other]}}, "status")
    await worker.wait_until("it is ready", lambda: worker.pod_is_ready("gated"))
    await worker.kubectl("exec", "gated", "--", "kill", "1", check=False)

    async def restarted() -> bool:
        return await worker.told_restarts("gated") == 1 and await worker.pod_is_ready("gated")

    await worker.wait_until("it was restarted", restarted)
    assert {**await condition(gate), **mine} == await condition(gate)
    assert (await condition("example.com/other"))["status"] == "Unknown"
    await worker.patch(
        "pod", "gated", {"status": {"conditions": [{**mine, "status": "False"}]}}, "status"
    )

    async def not_ready() -> bool:
        return not await worker.pod_is_ready("gated")

    await worker.wait_until("it is not ready", not_ready)
    text = f'the status of pod readiness gate "{gate}" is not "True", but False'
    assert (await condition("Ready"))["message"] == text


async def test_another_image_restarts_the_container_in_place(worker: Worker) -> None:
    """`kubectl set image`: the same pod and sandbox; observedGeneration follows."""
    pod = await worker.run_pod(a_manifest("image", a_shell("main", FOREVER), a_shell("b", FOREVER)))
    assert pod["metadata"]["generation"] == pod["status"]["observedGeneration"] == 1
    image = "localhost/minikubelet/busybox:nopath"
    await worker.kubectl("set", "image", "pod/image", f"main={image}")

    async def changed() -> bool:
        status = await worker.told("image")
        found = {each["name"]: each for each in status["containerStatuses"]}
        return found["main"]["image"] == image and await worker.pod_is_ready("image")

    await worker.wait_until("the new image runs", changed)
    status = await worker.told("image")
    assert status["observedGeneration"] == 2
    own = [c for c in status["conditions"] if c["type"] in ("Ready", "ContainersReady")]
    assert {c["observedGeneration"] for c in own} == {2}
    assert (await worker.told_restarts("image"), await worker.told_restarts("image", "b")) == (1, 0)
    assert status["podIP"] == pod["status"]["podIP"]
    text = "Container main definition changed, will be restarted"
    await worker.wait_for_events("image", text)
    assert text in [event["message"] for event in await worker.events("image")]


async def test_restart_rules_of_a_container(worker: Worker) -> None:
    """42 restarts it, 7 all of them, everything else is the end."""
    script = (
        "n=$(cat /d/n 2>/dev/null || echo 0); echo $((n+1)) > /d/n;"
        "case $n in 0) exit 42;; 1) exit 7;; *) exit 5;; esac"
    )
    rules = [
        {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}},
        {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [7]}},
    ]
    mounts = [{"name": "d", "mountPath": "/d"}]
    main = a_shell(
        "main", script, restartPolicy="Never", restartPolicyRules=rules, volumeMounts=mounts
    )
    init = a_shell("init", "echo x >> /d/init", volumeMounts=mounts)
    pod = a_manifest(
        "rules",
        main,
        a_shell("other", FOREVER),
        initContainers=[init],
        restartPolicy="Never",
        volumes=[{"name": "d", "emptyDir": {}}],
    )
    await worker.create(pod)

    async def ended() -> bool:
        found = (await worker.told("rules")).get("containerStatuses", [])
        states = {each["name"]: each["state"] for each in found}
        return bool(states.get("main", {}).get("terminated", {}).get("exitCode") == 5)

    await worker.wait_until("it has come to its last exit code", ended)
    assert await worker.told_restarts("rules") == 2
    assert await worker.told_restarts("rules", "other") == 1
    assert (await worker.told("rules"))["initContainerStatuses"][0]["restartCount"] == 1
    assert len(await worker.sandboxes("rules")) == 1


async def test_events_of_a_kind_are_counted(worker: Worker) -> None:
    await worker.create(a_manifest("loop", a_shell("main", "exit 1")))

    async def counted() -> bool:
        found = {event["reason"]: event for event in await worker.events("loop")}
        return bool(found.get("BackOff", {}).get("count", 0) > 1)

    await worker.wait_until("a second back-off is counted in the first's event", counted)
    back_off = [event for event in await worker.events("loop") if event["reason"] == "BackOff"]
    assert len(back_off) == 1
    pod = await worker.pod("loop")
    described = f"loop_{worker.namespace}({pod['metadata']['uid']})"
    text = f"Back-off restarting failed container main in pod {described}"
    assert back_off[0]["message"] == text
    assert back_off[0]["source"] == {"component": "kubelet", "host": worker.node}
    assert back_off[0]["involvedObject"]["fieldPath"] == "spec.containers{main}"
