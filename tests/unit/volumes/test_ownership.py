import os
import stat
from pathlib import Path

import pytest

from minikubelet.volumes import ownership

pytestmark = pytest.mark.root
GROUP = 4242


def a_tree(root: Path) -> None:
    (root / "d").mkdir()
    (root / "d" / "f").write_text("x")
    (root / "d" / "f").chmod(0o600)
    (root / "link").symlink_to("/etc/passwd")


def facts(path: Path) -> tuple[int, int]:
    found = path.lstat()
    return found.st_gid, stat.S_IMODE(found.st_mode)


def test_a_tree_belongs_to_the_group_and_links_are_not_followed(tmp_path: Path) -> None:
    a_tree(tmp_path)
    before = facts(Path("/etc/passwd"))
    tmp_path.chmod(0o755)
    ownership.give(tmp_path, GROUP, read_only=False)
    assert facts(tmp_path) == (GROUP, 0o2775)
    assert facts(tmp_path / "d" / "f") == (GROUP, 0o660)
    assert (tmp_path / "link").lstat().st_gid == GROUP
    assert facts(Path("/etc/passwd")) == before


def test_a_read_only_volume_can_be_read_by_the_group(tmp_path: Path) -> None:
    a_tree(tmp_path)
    ownership.give(tmp_path, GROUP, read_only=True)
    assert facts(tmp_path / "d" / "f") == (GROUP, 0o640)


def test_on_root_mismatch_leaves_what_fits(tmp_path: Path) -> None:
    a_tree(tmp_path)
    ownership.give(tmp_path, GROUP, read_only=False, on_mismatch=True)
    assert facts(tmp_path / "d" / "f")[0] == GROUP
    os.chown(tmp_path / "d" / "f", 0, 0)
    ownership.give(tmp_path, GROUP, read_only=False, on_mismatch=True)
    assert facts(tmp_path / "d" / "f")[0] == 0
    ownership.give(tmp_path, GROUP, read_only=False, on_mismatch=False)
    assert facts(tmp_path / "d" / "f")[0] == GROUP
