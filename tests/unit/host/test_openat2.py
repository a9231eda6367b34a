"""Paths under somebody else's control never lead out of their folder."""

import errno
import os
from pathlib import Path

import pytest

from minikubelet.host.openat2 import (
    EscapesFolder,
    fd_path,
    make_folders_beneath,
    open_beneath,
    opened_folder,
)


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("secret")
    volume = tmp_path / "volume"
    (volume / "dir").mkdir(parents=True)
    (volume / "dir" / "file").write_text("inside")
    (volume / "link").symlink_to("dir/file")
    (volume / "up").symlink_to("../secret")
    (volume / "absolute").symlink_to("/etc")
    (volume / "magic").symlink_to("/proc/self/root")
    (volume / "dangling").symlink_to("nothing")
    return volume


@pytest.mark.parametrize("path", ["dir/file", "link", "./dir/../link"])
def test_paths_inside_are_opened(volume: Path, path: str) -> None:
    with opened_folder(str(volume)) as folder:
        descriptor = open_beneath(folder, path, os.O_RDONLY)
    with open(descriptor) as file:  # noqa: PTH123  it is a descriptor
        assert file.read() == "inside"


@pytest.mark.parametrize(
    "path", ["..", "../secret", "up", "absolute", "absolute/passwd", "magic/etc", "/etc"]
)
def test_paths_that_lead_out_are_refused(volume: Path, path: str) -> None:
    with opened_folder(str(volume)) as folder, pytest.raises(EscapesFolder, match="leads out"):
        open_beneath(folder, path, os.O_PATH)


def test_symlinks_can_be_refused_altogether(volume: Path) -> None:
    with opened_folder(str(volume)) as folder, pytest.raises(EscapesFolder):
        open_beneath(folder, "link", os.O_RDONLY, follow_symlinks=False)


def test_a_missing_path_is_an_ordinary_error(volume: Path) -> None:
    with opened_folder(str(volume)) as folder, pytest.raises(FileNotFoundError) as caught:
        open_beneath(folder, "no/such", os.O_PATH)
    assert caught.value.errno == errno.ENOENT


def test_missing_folders_are_made_with_their_mode(volume: Path) -> None:
    with opened_folder(str(volume)) as folder:
        descriptor = make_folders_beneath(folder, "dir/new/newer", 0o777)
    assert Path(fd_path(descriptor)).resolve() == volume / "dir/new/newer"
    os.close(descriptor)
    assert (volume / "dir/new").stat().st_mode & 0o777 == 0o777


@pytest.mark.parametrize(
    ("path", "error"),
    [
        pytest.param("absolute/new", EscapesFolder, id="through an absolute symlink"),
        pytest.param("../new", EscapesFolder, id="through the parent"),
        pytest.param("link/new", NotADirectoryError, id="through a file"),
        pytest.param("dangling/new", FileNotFoundError, id="through a dangling symlink"),
    ],
)
def test_no_folder_is_made_elsewhere(volume: Path, path: str, error: type[OSError]) -> None:
    before = sorted(volume.parent.rglob("*"))
    with opened_folder(str(volume)) as folder, pytest.raises(error):
        make_folders_beneath(folder, path, 0o755)
    assert sorted(volume.parent.rglob("*")) == before


def test_descriptors_are_not_leaked(volume: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208  counting only
    with opened_folder(str(volume)) as folder:
        os.close(make_folders_beneath(folder, "a/b/c", 0o755))
        with pytest.raises(EscapesFolder):
            make_folders_beneath(folder, "a/../../x", 0o755)
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208  counting only
