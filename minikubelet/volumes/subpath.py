"""Parts of volumes for single mounts, safe against whoever writes to the volume meanwhile.

The part is opened below the volume by the kernel (openat2) and bound from its descriptor to a place
that containers can't reach; the runtime is given that place. A symlink that leads out of the volume
is refused, one that is swapped in later leads nowhere. Source: kubelet volume/util/subpath.
"""

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from minikubelet.api.pod import Container
from minikubelet.criconfig.context import MountedVolume
from minikubelet.host import mounts
from minikubelet.host.openat2 import (
    fd_path,
    make_folders_beneath,
    open_beneath,
    opened_folder,
)
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.plugin import PodFolders

_FOLDER_MODE, _FILE_MODE = 0o750, 0o640


def prepare_subpaths(
    folders: PodFolders,
    container: Container,
    paths: Mapping[int, str],
    volumes: Mapping[str, MountedVolume],
) -> dict[int, str]:
    """Return the host path for each mount index. Blocking. Raises VolumeError.

    What an earlier start of the container had there is taken away first, so that a restart sees
    what is in the volume now.
    """
    return {
        index: _prepare(folders, container, index, path, volumes) for index, path in paths.items()
    }


def _prepare(
    folders: PodFolders,
    container: Container,
    index: int,
    path: str,
    volumes: Mapping[str, MountedVolume],
) -> str:
    name = container.volume_mounts[index].name
    where = f'for volumeMount "{name}" of container "{container.name}"'
    volume = volumes.get(name)
    if volume is None:
        raise VolumeError(f"failed to prepare subPath {where}: no such volume")
    target = folders.subpaths / name / container.name / str(index)
    try:
        _take_away(target)
        part = _open_part(volume.host_path, path)
        try:
            _bind(part, target)
        finally:
            os.close(part)
    except OSError as error:
        raise VolumeError(f"failed to prepare subPath {where}: {error}") from error
    return str(target)


def _open_part(volume: str, path: str) -> int:
    """Open the part, making missing folders with the volume's mode."""
    with opened_folder(volume) as folder:
        try:
            return open_beneath(folder, path, os.O_PATH)
        except FileNotFoundError:
            mode = stat.S_IMODE(os.fstat(folder).st_mode)
            return make_folders_beneath(folder, path, mode)


def _bind(part: int, target: Path) -> None:
    target.parent.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
    if stat.S_ISDIR(os.fstat(part).st_mode):
        target.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    else:
        target.touch(mode=_FILE_MODE)
    mounts.bind(fd_path(part), str(target))


def _take_away(target: Path) -> None:
    """Unmount and remove what is at a target. A running container keeps its own mount of it."""
    for point in mounts.mounts_below(str(target)):
        mounts.unmount(point, detach=True)
    try:
        target.rmdir()
    except NotADirectoryError:
        target.unlink()
    except FileNotFoundError:
        return
