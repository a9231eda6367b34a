"""fsGroup: the volume's files belong to the pod's group, which may read and write them.

May block, for long on large volumes. Source: kubelet volume/volume_linux.go SetVolumeOwnership.
"""

import os
import stat
from pathlib import Path

from minikubelet.api.pod import Pod

_READ_WRITE, _READ_ONLY = 0o660, 0o440
_FOLDER = stat.S_ISGID | 0o110


def fs_group(pod: Pod) -> int | None:
    """Return the group that owns the pod's volumes."""
    context = pod.spec.security_context
    return context.fs_group if context is not None else None


def only_on_mismatch(pod: Pod) -> bool:
    """Tell whether a volume whose root fits already is left as it is."""
    context = pod.spec.security_context
    return context is not None and context.fs_group_change_policy == "OnRootMismatch"


def give(root: Path, group: int, *, read_only: bool, on_mismatch: bool = False) -> None:
    """Give a tree to a group; symlinks are never followed. Raises OSError."""
    if on_mismatch and _fits(root, group, read_only=read_only):
        return
    # The root comes last: a walk that was interrupted is begun again.
    for folder, folders, files in os.walk(root, topdown=False):
        for name in (*files, *folders):
            _give_one(Path(folder, name), group, read_only=read_only)
    _give_one(root, group, read_only=read_only)


def _mask(*, is_folder: bool, read_only: bool) -> int:
    mask = _READ_ONLY if read_only else _READ_WRITE
    return mask | _FOLDER if is_folder else mask


def _fits(root: Path, group: int, *, read_only: bool) -> bool:
    found = root.lstat()
    mask = _mask(is_folder=True, read_only=read_only)
    return found.st_gid == group and stat.S_IMODE(found.st_mode) & mask == mask


def _give_one(path: Path, group: int, *, read_only: bool) -> None:
    os.lchown(path, -1, group)
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return
    mask = _mask(is_folder=stat.S_ISDIR(found.st_mode), read_only=read_only)
    path.chmod(stat.S_IMODE(found.st_mode) | mask)


def give_root(root: Path, group: int) -> None:
    """Give only the folder itself to a group: what is in it was given when it was written."""
    _give_one(root, group, read_only=True)
