import os
import socket
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from minikubelet.api.pod import Volume
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.host_path import HostPath, check_type
from minikubelet.volumes.plugin import PodFolders
from tests.builders import a_pod


@pytest.fixture
def umask() -> Iterator[None]:
    old = os.umask(0o022)
    yield
    os.umask(old)


def test_B46_file_or_create_makes_an_empty_file(tmp_path: Path, umask: None) -> None:
    path = tmp_path / "f"
    check_type(str(path), "FileOrCreate")
    assert path.is_file()
    assert path.read_bytes() == b""
    assert path.stat().st_mode & 0o777 == 0o644


def test_file_or_create_keeps_what_is_there(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_text("kept")
    check_type(str(path), "FileOrCreate")
    assert path.read_text() == "kept"


def test_file_or_create_makes_no_folders(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        check_type(str(tmp_path / "typo" / "f"), "FileOrCreate")
    assert not (tmp_path / "typo").exists()


def test_directory_or_create_makes_folders(tmp_path: Path, umask: None) -> None:
    path = tmp_path / "a" / "b"
    check_type(str(path), "DirectoryOrCreate")
    assert path.is_dir()
    assert path.stat().st_mode & 0o777 == 0o755


@pytest.fixture
def things(tmp_path: Path) -> Iterator[dict[str, str]]:
    (tmp_path / "dir").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "dir")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket"))
        paths = {name: str(tmp_path / name) for name in ("dir", "file", "socket", "link", "none")}
        yield paths | {"char": "/dev/null"}


@pytest.mark.parametrize(
    ("kind", "right", "wrong", "name"),
    [
        ("Directory", ("dir", "link"), ("file", "none", "socket"), "a directory"),
        ("DirectoryOrCreate", ("dir", "link"), ("file",), "a directory"),
        ("File", ("file", "socket", "char"), ("dir", "link", "none"), "a file"),
        ("FileOrCreate", ("file",), ("dir",), "a file"),
        ("Socket", ("socket",), ("file", "none", "dir"), "a socket file"),
        ("CharDevice", ("char",), ("file", "none"), "a character device"),
        ("BlockDevice", (), ("char", "file", "none"), "a block device"),
        ("", ("dir", "file", "none"), (), ""),
    ],
)
def test_types_are_checked_with_the_kubelets_words(
    things: dict[str, str],
    kind: str,
    right: tuple[str, ...],
    wrong: tuple[str, ...],
    name: str,
) -> None:
    for thing in right:
        check_type(things[thing], kind)
    for thing in wrong:
        with pytest.raises(VolumeError) as caught:
            check_type(things[thing], kind)
        assert str(caught.value) == f"hostPath type check failed: {things[thing]} is not {name}"


def test_an_unknown_type() -> None:
    with pytest.raises(VolumeError, match="Folder is an invalid volume type"):
        check_type("/", "Folder")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("./html", "invalid HostPath `./html`: must be an absolute path"),
        ("/a/../b", "invalid HostPath `/a/../b`: must not contain '..'"),
    ],
)
def test_B47_a_path_is_absolute_and_goes_down_only(path: str, message: str) -> None:
    volume = msgspec.convert({"name": "v", "hostPath": {"path": path}}, Volume)
    with pytest.raises(VolumeError) as caught:
        HostPath().setup(a_pod(), volume, PodFolders(Path("/none")), None)
    assert str(caught.value) == message
