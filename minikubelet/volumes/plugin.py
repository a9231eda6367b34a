"""What a volume type is: one file each, found by `manager` through this Protocol.

All methods may block and run in a thread. Taking a volume away needs no plugin: whatever is mounted
below the pod's folder is unmounted and what is left there is removed.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from minikubelet.api.pod import Pod, Volume
from minikubelet.criconfig.context import MountedVolume, NodeContext


@dataclass(frozen=True, slots=True)
class PodFolders:
    """The pod's folders below the root dir, laid out as the kubelet's."""

    pod: Path

    @property
    def volumes(self) -> Path:
        """Where volumes live, by plugin and name."""
        return self.pod / "volumes"

    @property
    def plugins(self) -> Path:
        """Where plugins remember what they have done."""
        return self.pod / "plugins"

    @property
    def subpaths(self) -> Path:
        """Where parts of volumes are bound for single mounts."""
        return self.pod / "volume-subpaths"

    def volume(self, kind: str, name: str) -> Path:
        """Return a volume's folder."""
        return self.volumes / kind.replace("/", "~") / name

    def ready_mark(self, kind: str, name: str) -> Path:
        """Return the file that says that a volume is complete (kubelet volume/util SetReady)."""
        return self.plugins / kind.replace("/", "~") / name / "ready"


class VolumePlugin(Protocol):
    """A volume type."""

    kind: str
    """The kubelet's plugin name."""

    def supports(self, volume: Volume) -> bool:
        """Tell whether the volume is of this type."""

    def setup(
        self, pod: Pod, volume: Volume, folders: PodFolders, node: NodeContext | None
    ) -> MountedVolume:
        """Make the volume complete; idempotent. Raises VolumeError, OSError.

        Without a node, sizes that depend on it are the kernel's defaults.
        """
