"""Reading mountinfo, and real mounts below a temporary folder."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from minikubelet.host import mounts

SAMPLE = r"""
22 1 0:20 / / rw,relatime - ext4 /dev/vda rw,discard
31 22 0:28 /a /mnt/with\040blank\134\303\274 ro shared:3 - tmpfs tmp\011fs rw,size=4k
""".strip()


def test_mountinfo_is_read_with_its_escapes() -> None:
    root, blank = mounts.parse_mountinfo(SAMPLE)
    assert (root.mount_point, root.fs_type, root.shared) == ("/", "ext4", False)
    assert blank == mounts.Mount(
        id=31,
        parent_id=22,
        root="/a",
        mount_point="/mnt/with blank\\ü",
        options="ro",
        fs_type="tmpfs",
        source="tmp\tfs",
        super_options="rw,size=4k",
        shared=True,
    )


@pytest.mark.parametrize("text", ["plain", "ü and 日本", "a\\040b"])
def test_only_octal_escapes_change(text: str) -> None:
    assert mounts.unescape(text) == text.replace("\\040", " ")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("needs root")
    yield tmp_path
    for point in mounts.mounts_below(str(tmp_path)):
        mounts.unmount(point, detach=True)


@pytest.mark.root
def test_a_tmpfs_has_its_size_and_mode(folder: Path) -> None:
    target = folder / "with blank"
    target.mkdir()
    mounts.tmpfs(str(target), 1 << 20, 0o750)
    stat = os.statvfs(target)
    assert stat.f_blocks * stat.f_frsize == 1 << 20
    assert target.stat().st_mode & 0o777 == 0o750
    assert mounts.is_mount_point(str(target))
    mounts.unmount(str(target))
    assert not mounts.is_mount_point(str(target))


@pytest.mark.root
def test_a_read_only_bind_refuses_writes_and_keeps_its_restrictions(folder: Path) -> None:
    source, target = folder / "source", folder / "target"
    source.mkdir()
    target.mkdir()
    mounts.mount("tmpfs", str(source), "tmpfs", mounts.MS_NOEXEC)
    (source / "file").write_text("x")
    mounts.bind(str(source), str(target), read_only=True)
    assert (target / "file").read_text() == "x"
    with pytest.raises(OSError, match="Read-only"):
        (target / "file").write_text("y")
    (source / "file").write_text("y")
    [found] = [each for each in mounts.list_mounts() if each.mount_point == str(target)]
    assert "noexec" in found.options


@pytest.mark.root
def test_mounts_below_come_newest_first(folder: Path) -> None:
    (folder / "a").mkdir()
    mounts.tmpfs(str(folder / "a"))
    (folder / "a" / "b").mkdir()
    mounts.tmpfs(str(folder / "a" / "b"))
    (folder / "ab").mkdir()
    mounts.tmpfs(str(folder / "ab"))
    assert [*mounts.mounts_below(str(folder / "a"))] == [f"{folder}/a/b", f"{folder}/a"]


@pytest.mark.root
def test_errors_name_the_paths(folder: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"cannot mount tmpfs .* on /no/such"):
        mounts.tmpfs("/no/such")
    with pytest.raises(OSError, match=f"cannot unmount {folder}"):
        mounts.unmount(str(folder))
