"""B50: whatever a container makes of its volume, a subPath never leads out of it."""

import os
import threading
from pathlib import Path

import pytest

from minikubelet.api.pod import Container
from minikubelet.criconfig.context import MountedVolume
from minikubelet.host import mounts
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.plugin import PodFolders
from minikubelet.volumes.subpath import prepare_subpaths
from tests.builders import decoded_container

pytestmark = [pytest.mark.root, pytest.mark.usefixtures("as_root")]

CONTAINER: Container = decoded_container(volumeMounts=[{"name": "v", "mountPath": "/v"}])


@pytest.fixture
def volume(root_dir: Path) -> Path:
    path = root_dir / "volume"
    path.mkdir()
    path.chmod(0o2775)
    return path


def prepare(root_dir: Path, volume: Path, path: str) -> Path:
    folders = PodFolders(root_dir / "pods" / "uid-1")
    volumes = {"v": MountedVolume("v", str(volume))}
    return Path(prepare_subpaths(folders, CONTAINER, {0: path}, volumes)[0])


def test_a_folder_is_bound_where_the_kubelet_binds_it(root_dir: Path, volume: Path) -> None:
    (volume / "a").mkdir()
    (volume / "a" / "data").write_text("x")
    target = prepare(root_dir, volume, "a")
    assert target == root_dir / "pods" / "uid-1" / "volume-subpaths" / "v" / "c" / "0"
    assert (target / "data").read_text() == "x"
    assert mounts.is_mount_point(str(target))


def test_a_file_is_bound_as_a_file(root_dir: Path, volume: Path) -> None:
    (volume / "f").write_text("x")
    assert prepare(root_dir, volume, "f").read_text() == "x"


def test_what_is_missing_is_made_with_the_volumes_mode(root_dir: Path, volume: Path) -> None:
    target = prepare(root_dir, volume, "a/b")
    assert target.is_dir()
    assert (volume / "a" / "b").stat().st_mode & 0o7777 == 0o2775


def test_a_restart_sees_what_is_there_now(root_dir: Path, volume: Path) -> None:
    (volume / "f").write_text("old")
    prepare(root_dir, volume, "f")
    (volume / "f").unlink()
    (volume / "f").mkdir()
    target = prepare(root_dir, volume, "f")
    assert target.is_dir()
    (volume / "f").rmdir()
    (volume / "f").write_text("new")
    assert prepare(root_dir, volume, "f").read_text() == "new"
    assert list(mounts.mounts_below(str(root_dir))) == [str(target)]


def test_a_symlink_inside_the_volume_is_followed(root_dir: Path, volume: Path) -> None:
    (volume / "real").mkdir()
    (volume / "real" / "data").write_text("x")
    (volume / "link").symlink_to("real")
    assert (prepare(root_dir, volume, "link") / "data").read_text() == "x"


@pytest.mark.parametrize(
    ("link", "path"),
    [
        ("/etc", "x"),
        ("..", "x"),
        ("../outside", "x"),
        ("/etc", "x/passwd"),
        ("../outside", "x/made"),
        ("/proc/self/root/etc", "x"),
    ],
)
def test_B50_a_symlink_out_of_the_volume_is_refused(
    root_dir: Path, volume: Path, link: str, path: str
) -> None:
    outside = root_dir / "outside"
    outside.mkdir()
    (volume / "x").symlink_to(link)
    with pytest.raises(VolumeError) as caught:
        prepare(root_dir, volume, path)
    assert str(caught.value).startswith(
        'failed to prepare subPath for volumeMount "v" of container "c": '
    )
    assert list(outside.iterdir()) == []
    assert list(mounts.mounts_below(str(root_dir))) == []


def test_B50_a_symlink_that_flips_wins_no_race(root_dir: Path, volume: Path) -> None:
    outside = root_dir / "outside"
    outside.mkdir()
    secret = outside.stat().st_ino
    (volume / "good").mkdir()
    stop = threading.Event()

    def flip() -> None:
        links = (volume / "to-good", volume / "to-outside")
        while not stop.is_set():
            for link, to in zip(links, ("good", str(outside)), strict=True):
                link.symlink_to(to)
                link.rename(volume / "x")

    (volume / "x").symlink_to("good")
    flipper = threading.Thread(target=flip)
    flipper.start()
    bound = refused = 0
    try:
        # On a busy machine the flipper may rest for hundreds of tries: on until it was met.
        while bound + refused < 300 or not (bound and refused):
            try:
                target = prepare(root_dir, volume, "x/sub" if bound % 2 else "x")
            except VolumeError:
                refused += 1
                continue
            bound += 1
            assert target.stat().st_ino != secret
    finally:
        stop.set()
        flipper.join()
    assert list(outside.iterdir()) == []


def test_an_unknown_volume(root_dir: Path) -> None:
    with pytest.raises(VolumeError, match="no such volume"):
        prepare_subpaths(PodFolders(root_dir), CONTAINER, {0: "x"}, {})


def test_the_umask_does_not_matter(root_dir: Path, volume: Path) -> None:
    old = os.umask(0o077)
    try:
        prepare(root_dir, volume, "a")
    finally:
        os.umask(old)
    assert (volume / "a").stat().st_mode & 0o777 == 0o775
