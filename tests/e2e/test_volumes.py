"""Volumes in containers of the real runtime: emptyDir, hostPath, subPath, propagation, the end."""

import socket
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minikubelet.host import mounts
from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio


@pytest.fixture
def folder(shared: Agent, request: pytest.FixtureRequest) -> Path:
    """A folder of the node that is the test's own."""
    path: Path = shared.folder / request.node.originalname
    path.mkdir()
    return path


def mounted(name: str, path: str = "/v", **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **fields}


def host_path(name: str, path: Path | str, kind: str = "") -> dict[str, Any]:
    return {"name": name, "hostPath": {"path": str(path), "type": kind}}


async def test_an_empty_dir_is_shared_and_outlives_a_container_s_restart(node: Agent) -> None:
    script = f"echo x >> /v/starts; test $(wc -l < /v/starts) = 2 || exit 1; {FOREVER}"
    volume = {"volumeMounts": [mounted("v")]}
    await node.run(
        "emptydir",
        a_shell("main", script, **volume),
        a_shell("other", f"while ! test -s /v/starts; do sleep 0.1; done; {FOREVER}", **volume),
        volumes=[{"name": "v", "emptyDir": {}}],
    )

    async def started_again() -> bool:
        counts = (await node.status("emptydir"))["containerStatuses"]
        return {each["name"]: each["restartCount"] for each in counts} == {"main": 1, "other": 0}

    # The first instance may still be running, and the pod ready, when the pod is first looked at.
    await node.wait_until("main was started again", started_again)
    assert await node.exec("emptydir", "other", "cat /v/starts; stat -c %a /v") == "x\nx\n777\n"
    folder = node.root / "pods" / (await node.pods())["emptydir"]["metadata"]["uid"]
    assert (folder / "volumes" / "kubernetes.io~empty-dir" / "v" / "starts").exists()
    node.remove("emptydir.yaml")
    await node.wait_gone("emptydir")
    assert not folder.exists()


async def test_B48_a_memory_volume_is_a_tmpfs_of_its_size_limit(node: Agent) -> None:
    show = f"df -k /v | tail -n 1 | awk '{{print $1, $2}}'; {FOREVER}"
    memory = {"medium": "Memory", "sizeLimit": "8Mi"}
    await node.run(
        "memory",
        a_shell("main", show, volumeMounts=[mounted("v")]),
        volumes=[{"name": "v", "emptyDir": memory}],
    )
    assert await node.said("memory", "main") == "tmpfs 8192\n"
    pods = str(node.root / "pods")
    assert list(mounts.mounts_below(pods)) != []
    node.remove("memory.yaml")
    await node.wait_gone("memory")
    assert list(mounts.mounts_below(pods)) == []


async def test_B46_host_paths_of_every_type(node: Agent, folder: Path) -> None:
    (folder / "dir").mkdir()
    (folder / "file").write_text("text")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "sock"))
        paths = {
            "new-file": (folder / "made", "FileOrCreate"),
            "new-dir": (folder / "deep" / "made", "DirectoryOrCreate"),
            "dir": (folder / "dir", "Directory"),
            "old-dir": (folder / "dir", "DirectoryOrCreate"),
            "file": (folder / "file", "File"),
            "old-file": (folder / "file", "FileOrCreate"),
            "socket": (folder / "sock", "Socket"),
            "char": (Path("/dev/null"), "CharDevice"),
            "any": (folder, ""),
        }
        kinds = "for each in /v/*; do stat -c '%n %F' $each; done"
        said = await node.outputs(
            "hostpaths",
            a_shell("main", kinds, volumeMounts=[mounted(name, f"/v/{name}") for name in paths]),
            volumes=[host_path(name, *where) for name, where in paths.items()],
        )
    seen = dict(line.removeprefix("/v/").split(" ", 1) for line in said["main"].splitlines())
    assert seen == {
        "new-file": "regular empty file",
        "new-dir": "directory",
        "dir": "directory",
        "old-dir": "directory",
        "file": "regular file",
        "old-file": "regular file",
        "socket": "socket",
        "char": "character special file",
        "any": "directory",
    }
    made = (folder / "made").stat()
    assert (stat.S_IMODE(made.st_mode), made.st_size) == (0o644, 0)
    assert stat.S_IMODE((folder / "deep" / "made").stat().st_mode) == 0o755
    assert (folder / "file").read_text() == "text"


async def test_a_host_path_of_another_type_blocks_the_pod_with_its_reason(
    node: Agent, folder: Path
) -> None:
    node.write(
        "wrongtype.yaml",
        a_manifest(
            "wrongtype",
            a_shell("main", FOREVER, volumeMounts=[mounted("v")]),
            volumes=[host_path("v", folder, "File")],
        ),
    )

    async def told() -> bool:
        return "FailedMount" in (await node.status("wrongtype")).get("reason", "")

    await node.wait_until("the reason stands in the status", told)
    status = await node.status("wrongtype")
    assert status["phase"] == "Pending"
    assert f"hostPath type check failed: {folder} is not a file" in status["message"]
    assert await node.sandboxes("wrongtype") == []


async def test_B47_a_relative_host_path_is_refused(node: Agent) -> None:
    volumes = [host_path("v", "./html"), host_path("w", "/a/../b")]
    node.write("relative.yaml", a_manifest("relative", a_shell("main", "true"), volumes=volumes))

    async def refused() -> list[str]:
        reports = (await node.manifest_reports())["manifests"]
        return [error for report in reports for error in report["errors"]]

    await node.wait_until("it is refused", lambda: has(refused))
    errors = await refused()
    assert any("spec.volumes[0].hostPath.path" in e and "absolute path" in e for e in errors)
    assert any("spec.volumes[1].hostPath.path" in e and "'..'" in e for e in errors)
    assert "relative" not in await node.pods()


async def has(question: Any) -> bool:
    return bool(await question())


async def test_sub_paths(node: Agent) -> None:
    mounts_ = [
        mounted("v", "/made", subPath="a/b"),
        mounted("v", "/linked", subPath="link"),
        mounted("v", "/expanded", subPathExpr="$(NAME)/logs"),
        mounted("v", "/file", subPath="file"),
        mounted("v", "/all"),
    ]
    name = {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    script = "echo 1 > /made/x; echo 2 > /expanded/y; cat /linked/z /file"
    show = f"{script}; cd /all; find . -type f | sort"
    said = await node.outputs(
        "subpaths",
        a_shell("main", show, volumeMounts=mounts_, env=[name]),
        initContainers=[
            a_shell(
                "init",
                "mkdir /v/real && echo 3 > /v/real/z && ln -s real /v/link && echo 4 > /v/file",
                volumeMounts=[mounted("v")],
            )
        ],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    files = ["./a/b/x", "./file", "./real/z", "./subpaths-shared/logs/y"]
    assert said["main"].split() == ["3", "4", *files]


async def test_B50_a_link_out_of_the_volume_is_refused(node: Agent, folder: Path) -> None:
    (folder / "key").write_text("secret of the node")
    escape = a_shell(
        "init",
        f"ln -s {folder} /v/absolute; ln -s ../../../../../../../../../../{folder} /v/relative",
        volumeMounts=[mounted("v")],
    )
    names = ("absolute", "relative")
    pod = a_manifest(
        "escape",
        *(
            a_shell(name, f"cat /s/key; {FOREVER}", volumeMounts=[mounted("v", "/s", subPath=name)])
            for name in names
        ),
        initContainers=[escape],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    node.write("escape.yaml", pod)
    reason = "CreateContainerConfigError"
    for name in names:
        await node.wait_until("it is refused", lambda n=name: node.waits("escape", n, reason))
        assert "secret" not in await node.output("escape", name)
        assert await node.containers("escape", name) == []


async def test_read_only_mounts(node: Agent, folder: Path) -> None:
    volumes = [{"name": "v", "emptyDir": {}}, host_path("h", folder)]
    said = await node.outputs(
        "readonly",
        a_shell(
            "main",
            "for each in /v /h /w; do touch $each/x 2>/dev/null || echo $each; done",
            volumeMounts=[
                mounted("v", readOnly=True),
                mounted("h", "/h", readOnly=True),
                mounted("v", "/w"),
            ],
        ),
        volumes=volumes,
    )
    assert said["main"] == "/v\n/h\n"
    assert list(folder.iterdir()) == []


@pytest.fixture
def shared_mount(folder: Path) -> Iterator[Path]:
    """A mount of the node that passes on what is mounted below it."""
    mounts.tmpfs(str(folder))
    mounts.propagate(str(folder), mounts.MS_SHARED)
    yield folder
    for point in mounts.mounts_below(str(folder)):
        mounts.unmount(point, detach=True)


async def test_mount_propagation(node: Agent, shared_mount: Path) -> None:
    for name in ("host", "pod"):
        (shared_mount / name).mkdir()
    privileged = {"securityContext": {"privileged": True}}

    def container(name: str, propagation: str, **fields: Any) -> dict[str, Any]:
        where = mounted("v", mountPropagation=propagation)
        return a_shell(name, FOREVER, volumeMounts=[where], **fields)

    await node.run(
        "propagation",
        container("none", "None"),
        container("slave", "HostToContainer"),
        container("both", "Bidirectional", **privileged),
        volumes=[host_path("v", shared_mount)],
    )
    mounts.tmpfs(str(shared_mount / "host"))
    (shared_mount / "host" / "new").touch()
    await node.exec("propagation", "both", "mount -t tmpfs x /v/pod && touch /v/pod/new")
    seen = {
        name: (await node.exec("propagation", name, "cd /v && find . -type f | sort")).split()
        for name in ("none", "slave", "both")
    }
    assert seen == {
        "none": [],
        "slave": ["./host/new", "./pod/new"],
        "both": ["./host/new", "./pod/new"],
    }
    assert (shared_mount / "pod" / "new").exists()
