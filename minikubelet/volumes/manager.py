"""All volumes of a pod: complete before its sandbox, gone after its last container.

Each call makes one trip to a thread and has a deadline; a thread that hangs in the kernel is left
behind, and the next call tries again once it is back. Nothing is removed while something is mounted
in it.
Source: kubelet volumemanager, kubelet_volumes.go.
"""

import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from minikubelet.api.base import json_name
from minikubelet.api.pod import Container, Pod, Volume
from minikubelet.criconfig.context import MountedVolume, NodeContext
from minikubelet.host import mounts
from minikubelet.volumes.content import kept_volume, kind_of, write_volume
from minikubelet.volumes.contents import Contents
from minikubelet.volumes.empty_dir import EmptyDir
from minikubelet.volumes.errors import ContentUnknown, VolumeError
from minikubelet.volumes.host_path import HostPath
from minikubelet.volumes.payload import Payload
from minikubelet.volumes.plugin import PodFolders, VolumePlugin
from minikubelet.volumes.subpath import prepare_subpaths

SETUP_DEADLINE = 123.0
TEARDOWN_DEADLINE = 60.0
MAX_THREADS = 16
_FOLDER_MODE = 0o750
_META_FIELDS = frozenset({"name"})

T = TypeVar("T")


class VolumeManager:
    """The volumes of this node's pods below `root_dir`."""

    def __init__(
        self,
        root_dir: str,
        node: NodeContext | None = None,
        plugins: tuple[VolumePlugin, ...] = (EmptyDir(), HostPath()),
        contents: Contents | None = None,
    ) -> None:
        # The kernel lists mounts by their real paths.
        self._pods = Path(os.path.realpath(root_dir)) / "pods"
        self._node = node
        self._plugins = plugins
        self._contents = contents or Contents(node or NodeContext(""))
        self._locks: dict[str, threading.Lock] = {}
        # Threads of their own: hanging ones don't take the places of other rooms.
        self._threads = anyio.CapacityLimiter(MAX_THREADS)

    async def setup(self, pod: Pod) -> Mapping[str, MountedVolume]:
        """Make all volumes that containers use complete; idempotent.

        Raises VolumeError with the text of a FailedMount event, naming every volume that failed.
        """
        names = sorted(_used(pod))
        text = (
            f"Unable to attach or mount volumes: unmounted volumes=[{' '.join(names)}],"
            " unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
        )
        uid = pod.metadata.uid
        try:
            with anyio.fail_after(SETUP_DEADLINE):
                payloads = await self._payloads(pod)
        except TimeoutError as error:
            raise VolumeError(text) from error
        return await self._in_thread(uid, lambda: self._setup(pod, payloads), SETUP_DEADLINE, text)

    async def _payloads(self, pod: Pod) -> dict[str, Payload | VolumeError]:
        """Gather the files of each volume that the agent writes, or why there are none."""
        used = _used(pod)
        payloads: dict[str, Payload | VolumeError] = {}
        for volume in pod.spec.volumes:
            if volume.name in used and kind_of(volume):
                try:
                    payloads[volume.name] = await self._contents.of(pod, volume)
                except VolumeError as error:
                    payloads[volume.name] = error
        return payloads

    async def subpaths(
        self,
        pod: Pod,
        container: Container,
        paths: Mapping[int, str],
        volumes: Mapping[str, MountedVolume],
    ) -> Mapping[int, str]:
        """Prepare the subPath mounts of a container's next start, by mount index.

        Raises VolumeError.
        """
        uid = pod.metadata.uid
        folders = self._folders(uid)
        text = f"failed to prepare subPaths of container {container.name}: deadline exceeded"
        return await self._in_thread(
            uid,
            lambda: prepare_subpaths(folders, container, paths, volumes),
            SETUP_DEADLINE,
            text,
        )

    async def teardown(self, uid: str) -> None:
        """Unmount and remove all volumes of a pod; idempotent. Raises VolumeError."""
        text = f"cannot remove the volumes of pod {uid} within {TEARDOWN_DEADLINE:.0f} s"
        await self._in_thread(uid, lambda: self._teardown(uid), TEARDOWN_DEADLINE, text)
        self._locks.pop(uid, None)

    async def stale_pods(self) -> list[str]:
        """Return the uids that have a folder on disk, for whoever knows which pods there are."""
        return await anyio.to_thread.run_sync(self._uids)

    async def _in_thread(self, uid: str, work: Callable[[], T], deadline: float, text: str) -> T:
        """Run blocking work on a pod, one at a time; VolumeError when it isn't done in time.

        A caller that is cancelled leaves its thread behind: what comes next waits for it, so that
        an abandoned setup can't mount anything after a teardown.
        """
        lock = self._locks.setdefault(uid, threading.Lock())

        def locked() -> T:
            if not lock.acquire(timeout=deadline):
                raise TimeoutError
            try:
                return work()
            finally:
                lock.release()

        try:
            with anyio.fail_after(deadline):
                return await anyio.to_thread.run_sync(
                    locked, abandon_on_cancel=True, limiter=self._threads
                )
        except TimeoutError as error:
            raise VolumeError(text) from error

    def _folders(self, uid: str) -> PodFolders:
        if not uid or "/" in uid or uid in (".", ".."):
            raise VolumeError(f"cannot find the folder of pod {uid!r}: not a uid")
        return PodFolders(self._pods / uid)

    def _setup(
        self, pod: Pod, payloads: Mapping[str, Payload | VolumeError]
    ) -> dict[str, MountedVolume]:
        folders = self._folders(pod.metadata.uid)
        for folder in (folders.pod, folders.volumes, folders.plugins):
            try:
                folder.mkdir(mode=_FOLDER_MODE, parents=True, exist_ok=True)
            except OSError as error:
                raise VolumeError(f"error making pod data directories: {error}") from error
        used = _used(pod)
        ready: dict[str, MountedVolume] = {}
        problems: list[str] = []
        for volume in pod.spec.volumes:
            if volume.name not in used:
                continue
            try:
                ready[volume.name] = self._setup_one(pod, volume, folders, payloads)
            except (VolumeError, OSError, ValueError) as error:
                problems.append(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}')
        if problems:
            raise VolumeError("; ".join(problems))
        return ready

    def _setup_one(
        self,
        pod: Pod,
        volume: Volume,
        folders: PodFolders,
        payloads: Mapping[str, Payload | VolumeError],
    ) -> MountedVolume:
        payload = payloads.get(volume.name)
        if payload is None:
            return self._plugin(volume).setup(pod, volume, folders, self._node)
        if isinstance(payload, ContentUnknown):
            # Containers start again with what the pod has while the apiserver is away.
            kept = kept_volume(volume, folders)
            if kept is not None:
                return kept
        if isinstance(payload, VolumeError):
            raise payload
        return write_volume(pod, volume, payload, folders)

    def _plugin(self, volume: Volume) -> VolumePlugin:
        for plugin in self._plugins:
            if plugin.supports(volume):
                return plugin
        fields = (field for field in volume.__struct_fields__ if field not in _META_FIELDS)
        source = next((field for field in fields if getattr(volume, field) is not None), "none")
        raise VolumeError(
            f"no volume plugin matched: {json_name(source)} volumes are not supported here"
        )

    def _teardown(self, uid: str) -> None:
        folders = self._folders(uid)
        for point in mounts.mounts_below(str(folders.pod)):
            try:
                _unmount(point)
            except OSError as error:
                raise VolumeError(str(error)) from error
        for folder in (folders.subpaths, folders.volumes, folders.plugins):
            _remove(folder)

    def _uids(self) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self._pods) if entry.is_dir())
        except OSError:  # a pod that needs the folder tells what is wrong with it
            return []


def _used(pod: Pod) -> set[str]:
    """Return the volumes that a container mounts: others are never set up."""
    return {mount.name for container in pod.all_containers() for mount in container.volume_mounts}


def _unmount(point: str) -> None:
    try:
        mounts.unmount(point)
    except OSError:
        # Someone still has a file open there: hidden at once, freed with its last user.
        mounts.unmount(point, detach=True)


def _remove(folder: Path) -> None:
    """Remove a tree without ever entering a mount. Raises VolumeError."""
    left = list(mounts.mounts_below(str(folder)))
    if left:
        raise VolumeError(f"cannot remove {folder}: {left[0]} is still mounted")
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except OSError as error:
        raise VolumeError(f"cannot remove {folder}: {error}") from error
