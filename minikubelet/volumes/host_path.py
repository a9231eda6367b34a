"""hostPath: a path of the node, checked or made as its type says.

Source: kubelet volume/hostpath/host_path.go.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path

from minikubelet.api.pod import Pod, Volume
from minikubelet.criconfig.context import MountedVolume, NodeContext
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.plugin import PodFolders

_CHECKS: dict[str, tuple[Callable[[int], bool], str]] = {
    "Directory": (stat.S_ISDIR, "a directory"),
    "DirectoryOrCreate": (stat.S_ISDIR, "a directory"),
    "File": (lambda mode: not stat.S_ISDIR(mode), "a file"),
    "FileOrCreate": (lambda mode: not stat.S_ISDIR(mode), "a file"),
    "Socket": (stat.S_ISSOCK, "a socket file"),
    "CharDevice": (stat.S_ISCHR, "a character device"),
    "BlockDevice": (stat.S_ISBLK, "a block device"),
}
_FOLDER_MODE, _FILE_MODE = 0o755, 0o644


class HostPath:
    """The plugin."""

    kind = "kubernetes.io/host-path"

    def supports(self, volume: Volume) -> bool:
        """Tell whether the volume is a hostPath."""
        return volume.host_path is not None

    def setup(
        self, pod: Pod, volume: Volume, folders: PodFolders, node: NodeContext | None
    ) -> MountedVolume:
        """Check the path, making it first where the type says so."""
        del pod, folders, node
        assert volume.host_path is not None  # noqa: S101  supports() says so
        path = volume.host_path.path
        if not path.startswith("/"):
            raise VolumeError(f"invalid HostPath `{path}`: must be an absolute path")
        if ".." in path.split("/"):
            raise VolumeError(f"invalid HostPath `{path}`: must not contain '..'")
        check_type(path, volume.host_path.type or "")
        return MountedVolume(volume.name, path, kind=self.kind)


def check_type(path: str, kind: str) -> None:
    """Raise VolumeError when the path isn't of the type; the types with OrCreate make it."""
    if not kind:
        return
    if kind not in _CHECKS:
        raise VolumeError(f"{kind} is an invalid volume type")
    if kind.endswith("OrCreate") and not os.path.exists(path):  # noqa: PTH110  text stays text
        _make(path, kind)
    matches, name = _CHECKS[kind]
    try:
        mode = Path(path).stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        mode = None
    if mode is None or not matches(mode):
        raise VolumeError(f"hostPath type check failed: {path} is not {name}")


def _make(path: str, kind: str) -> None:
    """Make what is missing; the modes hold in spite of the umask only for what is made here."""
    if kind == "DirectoryOrCreate":
        os.makedirs(path, _FOLDER_MODE, exist_ok=True)  # noqa: PTH103  as above
        return
    # The folder around a file must exist: a path with a mistake in it makes no tree of folders.
    os.close(os.open(path, os.O_CREAT | os.O_CLOEXEC | os.O_WRONLY, _FILE_MODE))
