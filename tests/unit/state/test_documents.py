"""State files as a crash, a full disk, a newer version or a person left them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Pod
from minikubelet.api.record import PodRecord
from minikubelet.state.directory import StateDirectory
from minikubelet.state.manifests import ManifestStore
from minikubelet.state.pods import PodMemories, PodMemory, Termination

pytestmark = pytest.mark.anyio

BROKEN = [
    pytest.param("", id="empty"),
    pytest.param('{"version": 1, "pod', id="cut off"),
    pytest.param("\0" * 4096, id="zeros"),
    pytest.param("[" * 100_000, id="deep"),
    pytest.param("[1, 2]", id="list"),
    pytest.param("null", id="null"),
    pytest.param('{"version": 99}', id="newer"),
    pytest.param('{"version": null}', id="no version"),
]


def memories(root: Path) -> PodMemories:
    return PodMemories(StateDirectory(root))


def a_memory(uid: str) -> PodMemory:
    pod = Pod(metadata=ObjectMeta(name="web-node1", namespace="default", uid=uid))
    ending = Termination(deadline_ns=10**18, removed=True)
    record = PodRecord(pod, msgspec.to_builtins(pod))
    return PodMemory(record, "file", termination=ending)


@pytest.mark.parametrize("text", BROKEN)
async def test_a_broken_pod_file_is_set_aside(tmp_path: Path, text: str) -> None:
    await memories(tmp_path).save(a_memory("good"))
    path = tmp_path / "pods" / "bad.json"
    path.write_text(text)
    assert set(await memories(tmp_path).load()) == {"good"}
    assert not path.exists()
    assert path.with_suffix(".bad").read_text() == text


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_manifest_file_is_set_aside(tmp_path: Path, text: str) -> None:
    ManifestStore(tmp_path).save("/m/a.yaml", [{"kind": "Pod"}])
    path = tmp_path / "manifests" / "bad.json"
    path.write_text(text)
    assert ManifestStore(tmp_path).load() == {"/m/a.yaml": [{"kind": "Pod"}]}
    assert path.with_suffix(".bad").read_text() == text


@pytest.mark.parametrize(
    "change",
    [
        {"pod": []},
        {"pod": {"metadata": {"uid": "other"}}},
        {"status": {"startTime": "yesterday"}},
        {"status": []},
        {"termination": {"deadlineUnixNano": "soon", "removed": True}},
        {"termination": "x"},
        {"pendingPostStartHooks": "x"},
        {"completedInitContainers": 3},
    ],
    ids=str,
)
async def test_a_pod_file_with_wrong_content_is_not_used(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    await memories(tmp_path).save(a_memory("uid-1"))
    path = tmp_path / "pods" / "uid-1.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    assert await memories(tmp_path).load() == {}


async def test_a_copy_of_a_pod_s_file_is_no_second_pod(tmp_path: Path) -> None:
    await memories(tmp_path).save(a_memory("uid-1"))
    original = tmp_path / "pods" / "uid-1.json"
    (tmp_path / "pods" / "uid-1 (copy).json").write_text(original.read_text())
    assert set(await memories(tmp_path).load()) == {"uid-1"}


async def test_what_was_saved_is_loaded(tmp_path: Path) -> None:
    await memories(tmp_path).save(a_memory("uid-1"))
    loaded = await memories(tmp_path).load()
    assert loaded == {"uid-1": a_memory("uid-1")}


async def test_nothing_stays_of_a_write_that_failed(tmp_path: Path) -> None:
    taken = tmp_path / "pods" / "uid-1.json"
    (taken / "x").mkdir(parents=True)  # no rename replaces a folder that holds something
    with pytest.raises(OSError, match="directory"):
        await memories(tmp_path).save(a_memory("uid-1"))
    assert [path.name for path in taken.parent.iterdir()] == ["uid-1.json"]


async def test_what_a_killed_writer_left_is_removed(tmp_path: Path) -> None:
    await memories(tmp_path).save(a_memory("uid-1"))
    ManifestStore(tmp_path).save("/m/a.yaml", [{"kind": "Pod"}])
    for folder in ("pods", "manifests"):
        (tmp_path / folder / "cut.tmp").write_text("{")
    await memories(tmp_path).load()
    ManifestStore(tmp_path).load()
    assert not list(tmp_path.rglob("*.tmp"))
