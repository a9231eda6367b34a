"""Pods of the apiserver on a real node: who may run there, and what the fields of a pod mean."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.e2e.administrator import path_of
from tests.e2e.agent import FOREVER, STUBBORN, a_manifest, a_shell
from tests.e2e.workers import MERGE, Worker

pytestmark = pytest.mark.anyio


def prepare(worker: Worker) -> None:
    """Let no restart wait for longer than a second."""
    worker.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


def pods_path(worker: Worker) -> str:
    return path_of("pod", worker.namespace)


# who may run


def refusals(worker: Worker) -> dict[str, tuple[dict[str, Any], str, str]]:
    """Return pods that are refused, with the reason and the message of the kubelet."""
    cpu = {"resources": {"requests": {"cpu": "1000"}}}
    memory = {"resources": {"requests": {"memory": "100Ti"}}}
    sysctl = {"sysctls": [{"name": "kernel.msgmax", "value": "1"}]}
    text = "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
    return {
        "big": (
            worker.bound("big", a_shell("main", FOREVER, **cpu)),
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 1000000, used: ",
        ),
        "fat": (
            worker.bound("fat", a_shell("main", FOREVER, **memory)),
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 109951162777600, used: ",
        ),
        "far": (
            worker.bound("far", a_shell("main", FOREVER), nodeSelector={"here": "no"}),
            "NodeAffinity",
            text,
        ),
        "sysctl": (
            worker.bound("sysctl", a_shell("main", FOREVER), securityContext=sysctl),
            "SysctlForbidden",
            'forbidden sysctl: "kernel.msgmax" not allowlisted',
        ),
        "userns": (
            worker.bound("userns", a_shell("main", FOREVER), hostUsers=False),
            "PodFeatureUnsupported",
            "this node doesn't support spec.hostUsers: false (user namespaces)",
        ),
    }


async def test_who_is_refused_and_why(worker: Worker) -> None:
    pods = refusals(worker)
    for document, _, _ in pods.values():
        await worker.create(document)
    for name, (_, reason, message) in pods.items():
        status = await worker.pod_in_phase(name, "Failed")
        assert status["reason"] == reason
        assert status["message"].startswith(f"Pod was rejected: {message}"), status
        assert status["qosClass"]
        assert "containerStatuses" not in status
        assert not await worker.sandboxes(name)

        async def told(name: str = name, reason: str = reason, message: str = message) -> bool:
            found = [event for event in await worker.events(name) if event["reason"] == reason]
            return any(event["message"].startswith(message) for event in found)

        await worker.wait_until(f"{name}: an event says why", told)
    # A refused pod never ran: its deletion needs nothing but the object's end.
    await worker.kubectl("delete", "pods", *pods, "--wait=false")
    for name in pods:
        await worker.pod_gone(name)


@contextmanager
def without_the_controllers(worker: Worker) -> Iterator[None]:
    """Hold the controller-manager: its taint controller would delete the pod first."""
    worker.cluster.signal("kube-controller-manager", signal.SIGSTOP)
    try:
        yield
    finally:
        worker.cluster.signal("kube-controller-manager", signal.SIGCONT)


async def test_a_taint_that_is_not_tolerated(worker: Worker) -> None:
    taint = {"key": "example.com/away", "effect": "NoExecute"}
    node = path_of("node", "", worker.node)
    with without_the_controllers(worker):
        before = (await worker.object("node", worker.node))["spec"].get("taints", [])
        await worker.admin.ask("PATCH", node, {"spec": {"taints": [*before, taint]}}, MERGE)
        try:
            await worker.create(worker.bound("tainted", a_shell("main", FOREVER)))
            tolerations = [{"key": taint["key"], "operator": "Exists"}]
            spec = {"tolerations": tolerations}
            await worker.run_pod(worker.bound("tolerant", a_shell("main", FOREVER), **spec))
            status = await worker.pod_in_phase("tainted", "Failed")
        finally:
            await worker.admin.ask("PATCH", node, {"spec": {"taints": before}}, MERGE)
    assert status["reason"] == "TaintToleration"
    text = "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
    assert status["message"] == f"Pod was rejected: {text}"


async def test_a_host_port_of_an_ending_pod_is_waited_for(worker: Worker) -> None:
    ports = {"ports": [{"containerPort": 8080, "hostPort": 18123}]}
    await worker.run_pod(worker.bound("holder", a_shell("main", STUBBORN, **ports)))
    await worker.delete("pod", "holder", 4)
    with worker.admin.watch(pods_path(worker)) as watch:
        await worker.run_pod(worker.bound("heir", a_shell("main", FOREVER, **ports)))
        assert not await worker.pod("holder")

        def phases() -> set[str]:
            return {told.object["status"]["phase"] for told in watch.of("heir")}

        await worker.wait_until("the watch has told that it runs", lambda: "Running" in phases())
    assert phases() == {"Pending", "Running"}
    # One that doesn't end is in the way for good.
    await worker.create(worker.bound("third", a_shell("main", FOREVER, **ports)))
    status = await worker.pod_in_phase("third", "Failed")
    assert status["reason"] == "NodePorts"


async def test_a_critical_pod_makes_room_for_itself(worker: Worker) -> None:
    node = await worker.object("node", worker.node)
    cores = node["status"]["allocatable"]["cpu"]
    most = int(cores[:-1]) if cores.endswith("m") else int(cores) * 1000
    wanted = {"resources": {"requests": {"cpu": f"{most * 3 // 4}m"}}}
    await worker.run_pod(worker.bound("victim", a_shell("main", FOREVER, **wanted)))
    critical = worker.bound(
        "critical",
        a_shell("main", FOREVER, **wanted),
        priorityClassName="system-node-critical",
    )
    await worker.run_pod(critical)
    status = await worker.told("victim")
    assert (status["phase"], status["reason"]) == ("Failed", "Preempting")
    assert status["message"] == "Preempted in order to admit critical pod"
    target = next(c for c in status["conditions"] if c["type"] == "DisruptionTarget")
    assert (target["status"], target["reason"]) == ("True", "TerminationByKubelet")
    await worker.wait_for_events("victim", "Preempting")


async def test_what_this_node_can_not_do_is_said_by_name(worker: Worker) -> None:
    """A PersistentVolumeClaim and a CSI volume: the pod waits and says for what."""
    claim = {"name": "v", "persistentVolumeClaim": {"claimName": "none"}}
    csi = {"name": "v", "csi": {"driver": "none.example.com"}}
    for name, volume in (("claims", claim), ("drives", csi)):
        mounts = [{"name": "v", "mountPath": "/v"}]
        container = a_shell("main", FOREVER, volumeMounts=mounts)
        await worker.create(worker.bound(name, container, volumes=[volume]))
    for name, word in (("claims", "persistentVolumeClaim"), ("drives", "csi")):

        async def told(name: str = name, word: str = word) -> bool:
            messages = [event["message"] for event in await worker.events(name)]
            return any(word in message and "not supported" in message for message in messages)

        await worker.wait_until(f"{name} says what is missing", told)
        assert (await worker.told(name))["phase"] == "Pending"


# fields


async def test_an_active_deadline(worker: Worker) -> None:
    await worker.create(a_manifest("deadline", a_shell("main", FOREVER), activeDeadlineSeconds=2))
    status = await worker.pod_in_phase("deadline", "Failed")
    assert status["reason"] == "DeadlineExceeded"
    assert status["message"] == "Pod was active on the node longer than the specified deadline"
    assert status["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 0
    await worker.wait_for_events("deadline", "DeadlineExceeded")


async def test_host_names(worker: Worker) -> None:
    long = "a-name-that-is-longer-than-what-a-kernel-takes-for-a-host-nam-e" + "-and-more"
    ask = "hostname; hostname -f || true"
    pods: dict[str, tuple[dict[str, Any], str]] = {
        long: ({}, long[:63].rstrip("-")),
        "named": ({"hostname": "me", "subdomain": "us"}, "me"),
        "full": (
            {"hostname": "me", "subdomain": "us", "setHostnameAsFQDN": True},
            f"me.us.{worker.namespace}.svc.cluster.local",
        ),
        "over": ({"hostnameOverride": "over.example.com"}, "over.example.com"),
    }
    for name, (spec, _) in pods.items():
        await worker.create(a_manifest(name, a_shell("main", ask), restartPolicy="Never", **spec))
    full = f"me.us.{worker.namespace}.svc.cluster.local"
    if len(full) > 64:
        pytest.fail("the test's own namespace has too long a name")
    for name, (_, first) in pods.items():
        await worker.pod_in_phase(name, "Succeeded")
        assert (await worker.kubectl("logs", name)).splitlines()[0] == first
    assert (await worker.kubectl("logs", "named")).splitlines()[1] == full


async def test_termination_messages(worker: Worker) -> None:
    fallback = {"terminationMessagePolicy": "FallbackToLogsOnError"}
    main = a_shell("log", "echo from the log; exit 1", **fallback)
    file = a_shell("file", "echo from the file > /t/m; exit 1", terminationMessagePath="/t/m")
    both = a_shell("both", "echo log; echo file > /dev/termination-log; exit 1", **fallback)
    good = a_shell("good", "echo log; exit 0", **fallback)
    await worker.create(a_manifest("words", main, file, both, good, restartPolicy="Never"))
    status = await worker.pod_in_phase("words", "Failed")
    said = {
        each["name"]: each["state"]["terminated"].get("message", "")
        for each in status["containerStatuses"]
    }
    assert said == {
        "log": "from the log\n",
        "file": "from the file\n",
        "both": "file\n",
        "good": "",
    }


async def test_runtime_classes(worker: Worker) -> None:
    for name, handler in (("ordinary", "runc"), ("strange", "nothing-here")):
        await worker.create(
            {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {"name": name},
                "handler": handler,
            }
        )
    main = a_shell("main", FOREVER)
    await worker.create(a_manifest("odd", main, runtimeClassName="strange"))
    await worker.run_pod(a_manifest("usual", main, runtimeClassName="ordinary"))
    (sandbox,) = await worker.sandboxes("usual")
    assert sandbox.runtime_handler == "runc"

    async def told() -> bool:
        messages = [event["message"] for event in await worker.events("odd")]
        return any("nothing-here" in text for text in messages)

    await worker.wait_until("the handler that isn't there is named", told)
    await worker.wait_for_events("odd", "FailedCreatePodSandBox")


async def test_resources_of_the_whole_pod(worker: Worker) -> None:
    limits = {"cpu": "500m", "memory": "96Mi"}
    resources = {"limits": limits, "requests": limits}
    pod = await worker.run_pod(a_manifest("whole", a_shell("main", FOREVER), resources=resources))
    assert pod["status"]["qosClass"] == "Guaranteed"
    files = ("memory.limit_in_bytes", "memory.max")
    found = [path / file for path in worker.cgroups_of(pod["metadata"]["uid"]) for file in files]
    values = {int(path.read_text()) for path in found if path.exists()}
    assert values == {96 << 20}


# probes, as the apiserver is told of them


async def test_B35_B36_probes_in_the_api(worker: Worker) -> None:
    """Readiness follows its file; a dead container's successor isn't started before it says so."""

    def shell(script: str, **fields: Any) -> dict[str, Any]:
        return {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 1} | fields

    container = a_shell(
        "main",
        f"touch /alive /ready; sleep 1; touch /up; {FOREVER}",
        startupProbe=shell("test -f /up", failureThreshold=30),
        readinessProbe=shell("test -f /ready", failureThreshold=1),
        livenessProbe=shell("test -f /alive", failureThreshold=2),
    )
    with worker.admin.watch(pods_path(worker)) as watch:
        await worker.run_pod(a_manifest("probed", container))
        await worker.kubectl("exec", "probed", "--", "rm", "/ready")

        async def unready() -> bool:
            return not await worker.pod_is_ready("probed")

        await worker.wait_until("it is told to be unready", unready)
        await worker.kubectl("exec", "probed", "--", "touch", "/ready")
        await worker.wait_until("it is ready again", lambda: worker.pod_is_ready("probed"))
        await worker.kubectl("exec", "probed", "--", "rm", "/alive")

        async def again() -> bool:
            return await worker.told_restarts("probed") == 1 and await worker.pod_is_ready("probed")

        await worker.wait_until("it was restarted and is ready", again)

        def seen(number: int) -> list[tuple[bool, bool]]:
            statuses = [
                told.object["status"]["containerStatuses"][0]
                for told in watch.of("probed")
                if "containerStatuses" in told.object["status"]
            ]
            return [
                (each["started"], each["ready"])
                for each in statuses
                if each["restartCount"] == number and "running" in each["state"]
            ]

        await worker.wait_until("the watch has told it, too", lambda: (True, True) in seen(1))
    for number in (0, 1):
        assert seen(number)[0] == (False, False), seen(number)
        assert (True, True) in seen(number)
    unhealthy = [f"{kind} probe failed: " for kind in ("Startup", "Readiness", "Liveness")]
    await worker.wait_for_events("probed", *unhealthy)
    kinds = {
        event["message"].split()[0]
        for event in await worker.events("probed")
        if event["reason"] == "Unhealthy"
    }
    assert kinds >= {"Startup", "Readiness", "Liveness"}
