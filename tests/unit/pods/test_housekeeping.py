"""The sweep of what pods of earlier days left: a repair, which itself never breaks anything."""

from pathlib import Path

import pytest

from minikubelet.cri.fake import FakeRuntime
from minikubelet.pods.housekeeping import sweep
from tests.unit.pods.harness import a_node

pytestmark = pytest.mark.anyio


async def test_folders_and_cgroups_of_unknown_pods_go(tmp_path: Path) -> None:
    async with a_node(tmp_path, FakeRuntime()) as node:
        for uid in ("known", "gone"):
            (tmp_path / "pods" / uid).mkdir(parents=True)
            node.cgroups.paths.add(f"/kubepods/besteffort/pod{uid}")
        await sweep(node.kit, ["known"])
        assert [path.name for path in (tmp_path / "pods").iterdir()] == ["known"]
        assert node.cgroups.paths == {"/kubepods/besteffort/podknown"}
        assert node.volumes.torn_down == ["gone"]


async def test_a_file_in_the_place_of_the_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "pods").write_text("x")
    async with a_node(tmp_path, FakeRuntime()) as node:
        await sweep(node.kit, [])
        assert (tmp_path / "pods").read_text() == "x"
