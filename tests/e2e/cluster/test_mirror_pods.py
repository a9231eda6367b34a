"""Static pods in a cluster: the pictures of them in the apiserver, and what people do to these."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.containerds import BUSYBOX
from tests.e2e.administrator import path_of
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.workers import Worker

pytestmark = pytest.mark.anyio

MIRROR, HASH = "kubernetes.io/config.mirror", "kubernetes.io/config.hash"
NOPATH = "localhost/minikubelet/busybox:nopath"


def prepare(worker: Worker) -> None:
    """Let no restart wait for longer than a second."""
    worker.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


def static(worker: Worker, name: str, *containers: dict[str, Any], **spec: Any) -> None:
    """Write NAME.yaml: a static pod of the test's namespace."""
    document = a_manifest(name, *containers, **spec)
    document["metadata"]["namespace"] = worker.namespace
    worker.write(f"{name}.yaml", document)


@asynccontextmanager
async def a_static_pod(
    worker: Worker, name: str = "web", *containers: dict[str, Any], **spec: Any
) -> AsyncIterator[str]:
    """Run a static pod; yield the name it has on this node. It goes with the test."""
    static(worker, name, *(containers or (a_shell("main", FOREVER),)), **spec)
    full = f"{name}-{worker.node}"
    try:
        await worker.wait_until(f"{full} is ready", lambda: worker.pod_is_ready(full))
        yield full
    finally:
        (worker.manifests / f"{name}.yaml").unlink(missing_ok=True)
        await worker.pod_gone(full)


async def the_container(worker: Worker, pod: str, name: str = "main") -> str:
    """Return the id of a container that runs: the only one of its name."""
    (container,) = await worker.containers(pod, name)
    return str(container.id)


def is_another(worker: Worker, pod: str, uid: str) -> Callable[[], Awaitable[bool]]:
    """Tell whether the pod's object is another than this and says that it is ready."""

    async def another() -> bool:
        found = await worker.pod(pod)
        return bool(found) and found["metadata"]["uid"] != uid and await worker.pod_is_ready(pod)

    return another


async def node_events(worker: Worker, reason: str) -> list[str]:
    """Return the messages of the node's events with a reason."""
    answer = await worker.admin.get(path_of("event", "default"))
    return [
        event["message"]
        for event in answer["items"]
        if event["involvedObject"]["kind"] == "Node" and event["reason"] == reason
    ]


async def test_a_static_pod_has_a_picture(worker: Worker) -> None:
    """Owned by the Node, with the status of what runs; kubectl works on it as on any pod."""
    async with a_static_pod(worker) as name:
        pod = await worker.pod(name)
        node = await worker.object("node", worker.node)
        assert pod["metadata"]["ownerReferences"] == [
            {
                "apiVersion": "v1",
                "kind": "Node",
                "name": worker.node,
                "uid": node["metadata"]["uid"],
                "controller": True,
            }
        ]
        notes = pod["metadata"]["annotations"]
        assert notes["kubernetes.io/config.source"] == "file"
        assert notes[MIRROR] == notes[HASH]
        assert pod["spec"]["nodeName"] == worker.node
        own = (await worker.pods())[name]
        assert own["metadata"]["uid"] == notes[HASH]
        mine = own["status"]["containerStatuses"][0]["containerID"]
        assert pod["status"]["containerStatuses"][0]["containerID"] == mine
        shown = await worker.kubectl("exec", name, "--", "echo", "inside")
        assert shown == "inside\n"

        async def described() -> bool:
            return "Container started" in await worker.kubectl("describe", "pod", name)

        await worker.wait_until("its events are found", described)
        # A label of the picture is nobody's wish.
        await worker.kubectl("label", "pod", name, "a=b")
        await worker.kubectl("exec", name, "--", "kill", "1", check=False)

        async def restarted() -> bool:
            status = (await worker.told(name))["containerStatuses"][0]
            return status["restartCount"] == 1 and await worker.pod_is_ready(name)

        await worker.wait_until("a restart is told", restarted)
        after = await worker.pod(name)
        assert after["metadata"]["uid"] == pod["metadata"]["uid"]
        assert after["metadata"]["labels"]["a"] == "b"
    assert not await worker.sandboxes(name)


@pytest.mark.parametrize("force", [False, True], ids=["gracefully", "by force"])
async def test_B14_a_deleted_picture_is_made_again_and_nothing_else_happens(
    worker: Worker, force: bool
) -> None:
    async with a_static_pod(worker) as name:
        uid = (await worker.pod(name))["metadata"]["uid"]
        before = await the_container(worker, name)
        flags = ("--grace-period=0", "--force") if force else ()
        await worker.kubectl("delete", "pod", name, "--wait=false", *flags)
        await worker.wait_until(
            "another tells of the same containers", is_another(worker, name, uid)
        )
        assert await the_container(worker, name) == before
        status = (await worker.told(name))["containerStatuses"][0]
        assert status["containerID"] == f"containerd://{before}"
        assert status["restartCount"] == 0


async def test_B15_a_changed_manifest_has_a_new_picture(worker: Worker) -> None:
    async with a_static_pod(worker) as name:
        first = await worker.pod(name)
        static(worker, "web", a_shell("main", FOREVER, image=NOPATH))
        await worker.wait_until(
            "the new picture is ready", is_another(worker, name, first["metadata"]["uid"])
        )
        second = await worker.pod(name)
        assert second["spec"]["containers"][0]["image"] == NOPATH
        assert second["status"]["containerStatuses"][0]["image"] == NOPATH
        notes = second["metadata"]["annotations"]
        assert notes[MIRROR] == notes[HASH] != first["metadata"]["annotations"][HASH]
        old = first["status"]["containerStatuses"][0]["containerID"]
        assert second["status"]["containerStatuses"][0]["containerID"] != old


async def test_B28_an_ephemeral_container_beside_a_static_pod_is_refused_with_a_reason(
    worker: Worker,
) -> None:
    """This apiserver takes none for a picture; nothing happens to what runs."""
    async with a_static_pod(worker) as name:
        before = await the_container(worker, name)
        done = await worker.kubectl_done(
            "debug", name, f"--image={BUSYBOX}", "--target=main", "--", "true"
        )
        assert done.returncode == 1
        assert "static pods do not support ephemeral containers" in done.stderr.decode()
        assert await the_container(worker, name) == before
        assert await worker.pod_is_ready(name)


async def test_B13_a_service_account_in_a_manifest_is_refused_by_name(worker: Worker) -> None:
    """It would run without a token and without a picture: neither, and the field is named."""
    async with a_static_pod(worker, "good"):
        static(worker, "account", a_shell("main", FOREVER), serviceAccountName="default")
        text = "spec.serviceAccountName: static pods may not reference serviceaccounts"

        async def told() -> bool:
            reports = (await worker.manifest_reports())["manifests"]
            return any(text in error for report in reports for error in report["errors"])

        await worker.wait_until("the report names the field", told)
        assert not await worker.pod(f"account-{worker.node}")
        assert not await worker.sandboxes(f"account-{worker.node}")
        (worker.manifests / "account.yaml").unlink()


async def test_a_picture_that_the_apiserver_refuses(worker: Worker) -> None:
    """The pod runs all the same; `get` and an event of the node say why it can't be seen."""
    own = worker.namespace
    worker.namespace = f"{own}-later"
    try:
        static(worker, "apart", a_shell("main", FOREVER))
        name = f"apart-{worker.node}"
        await worker.wait_until("the pod runs", lambda: worker.is_ready(name))
        text = f"cannot keep the mirror pod of static pod {name}_{worker.namespace}: "

        async def told() -> bool:
            return any(e.startswith(text) for e in await node_events(worker, "FailedMirrorPod"))

        await worker.wait_until("an event of the node says why", told)
        shown = await worker.minikubelet("get", "pods", name)
        assert text in shown
        await worker.kubectl("create", "namespace", worker.namespace)
        await worker.wait_until("the picture comes", lambda: worker.pod_is_ready(name))
        (worker.manifests / "apart.yaml").unlink()
        await worker.pod_gone(name)
        await worker.kubectl("delete", "namespace", worker.namespace, "--wait=false")
    finally:
        (worker.manifests / "apart.yaml").unlink(missing_ok=True)
        worker.namespace = own


async def test_a_picture_of_nothing_goes(worker: Worker) -> None:
    """The manifest went while nobody looked: so does the picture, and what still runs."""
    async with a_static_pod(worker) as name:
        worker.kill()
        worker.remove("web.yaml")
        assert await worker.pod(name)
        await worker.start()
        await worker.pod_gone(name)

        async def no_sandbox() -> bool:
            return not await worker.sandboxes(name)

        await worker.wait_until("nothing runs any more", no_sandbox)
