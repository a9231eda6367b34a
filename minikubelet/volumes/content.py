"""configMap, secret, downwardAPI and projected volumes: files that the agent itself writes.

The payload was gathered before (`contents`); here it becomes a folder: on the disk for a configMap,
in memory for the others, so that no secret reaches the disk. Always read-only for containers. May
block. Source: kubelet volume/configmap, volume/secret, volume/projected.
"""

from pathlib import Path

from minikubelet.api.pod import Pod, Volume
from minikubelet.criconfig.context import MountedVolume
from minikubelet.host import mounts
from minikubelet.volumes import ownership
from minikubelet.volumes.atomic_writer import DATA, write
from minikubelet.volumes.payload import Payload
from minikubelet.volumes.plugin import PodFolders

CONFIG_MAP = "kubernetes.io/configmap"
SECRET = "kubernetes.io/secret"  # noqa: S105  a plugin's name
DOWNWARD_API = "kubernetes.io/downward-api"
PROJECTED = "kubernetes.io/projected"
_MODE = 0o777


def kind_of(volume: Volume) -> str:
    """Return the plugin's name; empty for a volume of another type."""
    kinds = (
        (volume.config_map, CONFIG_MAP),
        (volume.secret, SECRET),
        (volume.downward_api, DOWNWARD_API),
        (volume.projected, PROJECTED),
    )
    return next((kind for source, kind in kinds if source is not None), "")


def write_volume(pod: Pod, volume: Volume, payload: Payload, folders: PodFolders) -> MountedVolume:
    """Bring a volume up to its payload; idempotent. Raises OSError."""
    kind = kind_of(volume)
    path = folders.volume(kind, volume.name)
    if not path.is_dir():
        path.mkdir(mode=0o750, parents=True)
        path.chmod(_MODE)
    if kind != CONFIG_MAP and not mounts.is_mount_point(str(path)):
        mounts.tmpfs(str(path), None)
        path.chmod(_MODE)
    group = ownership.fs_group(pod)

    def own(fresh: Path) -> None:
        if group is not None:
            ownership.give(fresh, group, read_only=True)

    write(path, payload, own)
    if group is not None:
        ownership.give_root(path, group)
    return MountedVolume(volume.name, str(path), read_only=True, kind=kind)


def kept_volume(volume: Volume, folders: PodFolders) -> MountedVolume | None:
    """Return a volume as it was written earlier; None when it isn't complete."""
    kind = kind_of(volume)
    path = folders.volume(kind, volume.name)
    is_there = kind == CONFIG_MAP or mounts.is_mount_point(str(path))
    if not is_there or not (path / DATA).exists():
        return None
    return MountedVolume(volume.name, str(path), read_only=True, kind=kind)
