"""Volumes of ConfigMaps, Secrets and fields in pods of a real node, and what changes do to them."""

import base64
import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from minikubelet.host import mounts
from tests.e2e.administrator import path_of
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.cluster.objects import a_config_map, a_secret, change
from tests.e2e.workers import Worker
from tests.integration.proxy import Front

pytestmark = pytest.mark.anyio

FRONTS: dict[str, Front] = {}
BYTES = "s3cr3t-bytes-that-no-file-may-hold"


def prepare(worker: Worker) -> None:
    """Look at the agent's requests; let no restart wait for longer than a second."""
    FRONTS[worker.node] = worker.behind_a_front()
    worker.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


def mounted(at: str = "/v", **source: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a volume `v` and a shell's fields that mount it."""
    return {"name": "v", **source}, {"volumeMounts": [{"name": "v", "mountPath": at}]}


async def run(worker: Worker, pod: str, script: str) -> str:
    """Run a script in container `main`; return what it wrote."""
    return await worker.exec(pod, "main", script)


async def becomes(worker: Worker, pod: str, script: str, text: str, seconds: float = 20.0) -> None:
    """Wait until a script in the pod says this."""

    async def says() -> bool:
        return await run(worker, pod, script) == text

    await worker.wait_until(f"{script!r} in {pod} says {text!r}", says, seconds)


async def failed_mount(worker: Worker, pod: str, message: str) -> None:
    async def told() -> bool:
        found = [e["message"] for e in await worker.events(pod) if e["reason"] == "FailedMount"]
        return any(message in text for text in found)

    await worker.wait_until(f"an event of {pod} says {message}", told)


async def test_files_follow_their_config_map_as_one(worker: Worker) -> None:
    """A reader that holds the folder open sees the old files or the new, never a mixture."""
    await worker.create(a_config_map("pair", {"a": "0", "b": "0", "gone": "x"}))
    volume, mount = mounted(configMap={"name": "pair"})
    look = (
        "while :; do cd /v/..data && a=$(cat a) && b=$(cat b) && "
        '[ "$a" != "$b" ] && echo mixed $a $b; done 2>/dev/null'
    )
    await worker.run_pod(a_manifest("reader", a_shell("main", look, **mount), volumes=[volume]))
    assert await run(worker, "reader", "ls /v") == "a\nb\ngone\n"
    for number in ("1", "2", "3"):
        data = {"a": number, "b": number, "gone": None, "new": "y"}
        await change(worker, "configmap", "pair", {"data": data})
        await becomes(worker, "reader", "cat /v/a /v/b", number * 2, 5)
    assert await run(worker, "reader", "ls /v") == "a\nb\nnew\n"
    assert await worker.kubectl("logs", "reader") == ""
    assert (await worker.told("reader"))["containerStatuses"][0]["restartCount"] == 0
    assert await run(worker, "reader", "echo x > /v/a 2>&1 || echo refused") != ""
    assert await run(worker, "reader", "cat /v/a") == "3"


async def test_items_modes_and_groups(worker: Worker) -> None:
    await worker.create(a_config_map("config", {"k": "text", "other": "x"}))
    await worker.create(a_secret("hidden", {"k": "text"}))
    items = [{"key": "k", "path": "deep/er/k"}, {"key": "k", "path": "exe", "mode": 0o755}]
    volumes = [
        {"name": "c", "configMap": {"name": "config", "items": items, "defaultMode": 0o400}},
        {"name": "s", "secret": {"secretName": "hidden", "defaultMode": 0o440}},
    ]
    mounts_ = [{"name": "c", "mountPath": "/c"}, {"name": "s", "mountPath": "/s"}]
    main = a_shell("main", FOREVER, volumeMounts=mounts_)
    plain = a_manifest("plain", main, volumes=volumes)
    grouped = a_manifest("grouped", main, volumes=volumes, securityContext={"fsGroup": 4242})
    await worker.run_pod(plain)
    await worker.run_pod(grouped)
    stat = "cd /c && find . -follow -type f ! -path './..*' | sort | xargs stat -L -c '%n %a %g'"
    assert await run(worker, "plain", stat) == "./deep/er/k 400 0\n./exe 755 0\n"
    assert await run(worker, "plain", "stat -L -c '%a %g' /s/k") == "440 0\n"
    assert await run(worker, "plain", "cat /c/deep/er/k") == "text"
    assert await run(worker, "grouped", stat) == "./deep/er/k 440 4242\n./exe 755 4242\n"
    assert await run(worker, "grouped", "id -G") == "0 4242\n"


async def test_a_group_s_change_policy(worker: Worker) -> None:
    """On an emptyDir the group is the volume's; a file made later has it, too."""
    context = {"fsGroup": 4343, "fsGroupChangePolicy": "OnRootMismatch", "runAsUser": 1000}
    volume, mount = mounted(emptyDir={})
    main = a_shell("main", FOREVER, **mount)
    await worker.run_pod(a_manifest("owned", main, volumes=[volume], securityContext=context))
    script = "touch /v/f && stat -c '%u %g' /v/f && stat -c '%g %a' /v"
    assert await run(worker, "owned", script) == "1000 4343\n4343 2777\n"


async def test_what_is_missing_holds_the_pod_until_it_is_there(worker: Worker) -> None:
    """FailedMount in the kubelet's words; the rest of the pod comes at once with the object."""
    await worker.create(a_config_map("keyless", {"other": "x"}))
    volume, mount = mounted(secret={"secretName": "later"})
    keyed, _ = mounted(configMap={"name": "keyless", "items": [{"key": "k", "path": "k"}]})
    optional, _ = mounted(configMap={"name": "never", "optional": True})
    main = a_shell("main", FOREVER, **mount)
    await worker.create(a_manifest("object", main, volumes=[volume]))
    await worker.create(a_manifest("key", main, volumes=[keyed]))
    await worker.run_pod(a_manifest("optional", main, volumes=[optional]))
    assert await run(worker, "optional", "ls /v") == ""
    setup = 'MountVolume.SetUp failed for volume "v" : '
    await failed_mount(worker, "object", f'{setup}secret "later" not found')
    await failed_mount(worker, "key", f"{setup}configmap references non-existent config key: k")
    status = await worker.told("object")
    waiting = status["containerStatuses"][0]["state"]["waiting"]
    assert (status["phase"], waiting["reason"]) == ("Pending", "ContainerCreating")
    began = time.monotonic()
    await worker.create(a_secret("later", {"k": "x"}))
    await change(worker, "configmap", "keyless", {"data": {"k": "x"}})
    for pod in ("object", "key"):
        await worker.wait_until(f"{pod} is ready", lambda pod=pod: worker.pod_is_ready(pod))
        assert await run(worker, pod, "cat /v/k") == "x"
    assert time.monotonic() - began < 5
    # An optional one that comes later is shown, too.
    await worker.create(a_config_map("never", {"k": "after all"}))
    await becomes(worker, "optional", "cat /v/k 2>/dev/null", "after all", 5)


async def test_an_object_that_goes_leaves_its_files(worker: Worker) -> None:
    await worker.create(a_config_map("going", {"k": "x"}))
    volume, mount = mounted(configMap={"name": "going"})
    await worker.run_pod(a_manifest("keeps", a_shell("main", FOREVER, **mount), volumes=[volume]))
    await worker.delete("configmap", "going")
    await failed_mount(worker, "keeps", 'configmap "going" not found')
    assert await run(worker, "keeps", "cat /v/k") == "x"
    assert await worker.pod_is_ready("keeps")


async def test_secrets_are_in_memory_only(worker: Worker) -> None:
    """Files lie on tmpfs; no byte of them is on the disk below the agent's folders."""
    await worker.create(a_secret("hidden", {"k": BYTES}))
    projected = {"sources": [{"secret": {"name": "hidden"}}]}
    volumes = [
        {"name": "s", "secret": {"secretName": "hidden"}},
        {"name": "p", "projected": projected},
    ]
    env = [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "k"}}}]
    points = [{"name": "s", "mountPath": "/s"}, {"name": "p", "mountPath": "/p"}]
    main = a_shell("main", FOREVER, env=env, volumeMounts=points)
    pod = await worker.run_pod(a_manifest("secretive", main, volumes=volumes))
    assert await run(worker, "secretive", "cat /s/k /p/k; echo $X") == f"{BYTES}{BYTES}{BYTES}\n"
    folder = worker.root / "pods" / pod["metadata"]["uid"] / "volumes"
    for name in ("kubernetes.io~secret/s", "kubernetes.io~projected/p"):
        assert mounts_type(folder / name) == "tmpfs"
    assert not holders(worker.root, [BYTES, base64.b64encode(BYTES.encode()).decode()])
    worker.kill()
    await worker.start()
    assert await worker.pod_is_ready("secretive")
    assert not holders(worker.root, [BYTES, base64.b64encode(BYTES.encode()).decode()])
    await worker.delete("pod", "secretive")
    await worker.pod_gone("secretive")
    assert not list(mounts.mounts_below(str(folder)))


def mounts_type(path: Path) -> str:
    """Return the file system of a mount point."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        fields, _, rest = line.partition(" - ")
        if fields.split()[4] == str(path):
            return rest.split()[0]
    return ""


def holders(root: Path, texts: Iterable[str]) -> list[Path]:
    """Return the files on the same disk as a folder, below it, that hold one of the texts."""
    device = root.stat().st_dev
    found = []
    for folder, names, files in os.walk(root):
        names[:] = [name for name in names if os.lstat(Path(folder, name)).st_dev == device]
        for name in files:
            path = Path(folder, name)
            if path.is_file() and not path.is_symlink():
                data = path.read_bytes()
                found += [path for text in texts if text.encode() in data]
    return found


async def test_an_immutable_object_is_read_once(worker: Worker) -> None:
    await worker.create(a_config_map("fixed", {"k": "1"}, immutable=True))
    volume, mount = mounted(configMap={"name": "fixed"})
    main = a_shell("main", FOREVER, **mount)
    await worker.run_pod(a_manifest("fixed", main, volumes=[volume]))
    front = FRONTS[worker.node]
    path = path_of("configmap", worker.namespace)

    def asked() -> list[str]:
        return [
            "watch" if seen.is_watch else seen.method
            for seen in front.requests
            if seen.path == path and "metadata.name=fixed" in seen.query.get("fieldSelector", "")
        ]

    before = asked()
    assert before.count("GET") == 1
    await worker.run_pod(a_manifest("again", main, volumes=[volume]))
    assert asked() == before
    await worker.delete("configmap", "fixed")
    await worker.create(a_config_map("fixed", {"k": "2"}, immutable=True))
    await worker.run_pod(a_manifest("third", main, volumes=[volume]))
    assert await run(worker, "fixed", "cat /v/k") == "1"


async def test_objects_are_watched_only_while_a_pod_uses_them(worker: Worker) -> None:
    """One watch an object, whoever uses it; none before, none after."""
    await worker.create(a_config_map("shared", {"k": "1"}))
    volume, mount = mounted(configMap={"name": "shared"})
    main = a_shell("main", FOREVER, **mount)
    front = FRONTS[worker.node]
    path = path_of("configmap", worker.namespace)

    def watches() -> int:
        selected = [seen for seen in front.requests if seen.path == path and seen.is_watch]
        return sum("=shared" in seen.query["fieldSelector"] for seen in selected)

    assert watches() == 0
    for name in ("one", "two"):
        await worker.run_pod(a_manifest(name, main, volumes=[volume]))
    assert watches() == 1
    await worker.kubectl("delete", "pod", "one", "two")
    # A new user has to ask anew, as nobody has watched meanwhile.
    await change(worker, "configmap", "shared", {"data": {"k": "2"}})
    await worker.run_pod(a_manifest("three", main, volumes=[volume]))
    assert watches() == 2
    assert await run(worker, "three", "cat /v/k") == "2"


async def test_projected_and_downward_files_follow(worker: Worker) -> None:
    await worker.create(a_config_map("part", {"c": "1"}))
    await worker.create(a_secret("part", {"s": "2"}))
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    note = {"path": "note", "fieldRef": {"fieldPath": "metadata.annotations['n']"}}
    limit = {
        "path": "cpu",
        "resourceFieldRef": {"containerName": "main", "resource": "limits.cpu", "divisor": "1m"},
    }
    sources = [
        {"configMap": {"name": "part"}},
        {"secret": {"name": "part", "items": [{"key": "s", "path": "sub/s"}]}},
        {"downwardAPI": {"items": [note]}},
        {"configMap": {"name": "none", "optional": True}},
    ]
    volumes = [
        {"name": "p", "projected": {"sources": sources}},
        {"name": "d", "downwardAPI": {"items": [labels, limit]}},
    ]
    points = [{"name": "p", "mountPath": "/p"}, {"name": "d", "mountPath": "/d"}]
    main = a_shell("main", FOREVER, volumeMounts=points, resources={"limits": {"cpu": "250m"}})
    await worker.run_pod(a_manifest("many", main, volumes=volumes))
    assert await run(worker, "many", "cat /p/c /p/sub/s /p/note /d/cpu") == "12250"
    assert await run(worker, "many", "cat /d/labels") == 'app="many"'
    began = time.monotonic()
    await worker.kubectl("label", "pod", "many", "app=other", "x=y", "--overwrite")
    await worker.kubectl("annotate", "pod", "many", "n=noted")
    await change(worker, "configmap", "part", {"data": {"c": "3"}})
    await becomes(worker, "many", "cat /d/labels", 'app="other"\nx="y"', 5)
    await becomes(worker, "many", "cat /p/c /p/sub/s /p/note", "32noted", 5)
    assert time.monotonic() - began < 8


async def test_B45_a_subpath_of_a_changed_config_map_is_mounted_anew(worker: Worker) -> None:
    await worker.create(a_config_map("sub", {"file": "old"}))
    volume = {"name": "v", "configMap": {"name": "sub"}}
    mount = {"name": "v", "mountPath": "/etc/file", "subPath": "file"}
    main = a_shell("main", f"cat /etc/file; echo; {FOREVER}", volumeMounts=[mount])
    side = a_shell("side", FOREVER, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    await worker.run_pod(a_manifest("sub", main, side, volumes=[volume]))
    await change(worker, "configmap", "sub", {"data": {"file": "new"}})

    async def followed() -> bool:
        return await worker.exec("sub", "side", "cat /v/file") == "new"

    await worker.wait_until("the volume has the new file", followed)
    # A running container keeps the file it was given.
    assert await run(worker, "sub", "cat /etc/file") == "old"
    await worker.kubectl("exec", "sub", "-c", "main", "--", "kill", "1", check=False)

    async def again() -> bool:
        found = {s["name"]: s for s in (await worker.told("sub"))["containerStatuses"]}
        return found["main"]["restartCount"] == 1 and await worker.pod_is_ready("sub")

    await worker.wait_until("it runs again", again)
    assert await run(worker, "sub", "cat /etc/file") == "new"

    async def shown() -> bool:
        return await worker.kubectl("logs", "sub", "-c", "main") == "new\n"

    await worker.wait_until("it shows the new file", shown)
