"""emptyDir: a folder that every user may write to, or a tmpfs (medium Memory).

A tmpfs is as large as sizeLimit, else as the memory that the pod or the node's pods can have.
Source: kubelet volume/emptydir/empty_dir.go.
"""

from pathlib import Path

from minikubelet.api import quantity
from minikubelet.api.pod import Pod, Volume
from minikubelet.criconfig.context import MountedVolume, NodeContext
from minikubelet.criconfig.resources import pod_cgroup_resources
from minikubelet.host import mounts
from minikubelet.volumes import ownership
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.plugin import PodFolders

_MODE = 0o777


class EmptyDir:
    """The plugin."""

    kind = "kubernetes.io/empty-dir"

    def supports(self, volume: Volume) -> bool:
        """Tell whether the volume is an emptyDir."""
        return volume.empty_dir is not None

    def setup(
        self, pod: Pod, volume: Volume, folders: PodFolders, node: NodeContext | None
    ) -> MountedVolume:
        """Make the folder or tmpfs once; later calls leave its mode to the containers."""
        source = volume.empty_dir
        medium = source.medium if source is not None else ""
        if medium not in ("", "Memory"):
            raise VolumeError(f"unknown storage medium {medium!r}")
        path = folders.volume(self.kind, volume.name)
        mark = folders.ready_mark(self.kind, volume.name)
        is_there = mounts.is_mount_point(str(path)) if medium else path.is_dir() and mark.exists()
        if not is_there:
            path.mkdir(mode=0o750, parents=True, exist_ok=True)
            if medium:
                mounts.tmpfs(str(path), tmpfs_size(pod, volume, node))
            _open_up(path, pod)
            mark.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
            mark.touch()
        return MountedVolume(volume.name, str(path), kind=self.kind)


def _open_up(path: Path, pod: Pod) -> None:
    path.chmod(_MODE)  # mkdir heeds the umask
    group = ownership.fs_group(pod)
    if group is not None:
        policy = ownership.only_on_mismatch(pod)
        ownership.give(path, group, read_only=False, on_mismatch=policy)


def tmpfs_size(pod: Pod, volume: Volume, node: NodeContext | None) -> int | None:
    """Return the size in bytes; None leaves it to the kernel, which gives half of the memory.

    The smallest of what the node's pods, this pod and the volume may have.
    """
    sizes = []
    if node is not None:
        sizes.append(quantity.value(node.allocatable.get("memory", 0)))
        sizes.append(pod_cgroup_resources(pod, node).memory_limit or 0)
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        sizes.append(quantity.value(volume.empty_dir.size_limit))
    return min((size for size in sizes if size > 0), default=None)
