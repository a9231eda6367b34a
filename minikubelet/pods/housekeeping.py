"""What pods of earlier days left on the node: folders, mounts, cgroups nobody owns any more.

Only a repair: a pod's own end removes its things. Runs after every source has spoken, and slowly
after that.
"""

import shutil
from collections.abc import Collection
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from minikubelet.criconfig.cgroup import pod_uid_of, qos_cgroups
from minikubelet.pods.kit import Kit
from minikubelet.volumes.errors import VolumeError

_log = structlog.get_logger("housekeeping")


async def sweep(kit: Kit, known: Collection[str]) -> None:
    """Remove folders and cgroups of pods that are neither known nor in the runtime."""
    alive = {*known, *kit.cache.uids()}
    for uid in await kit.volumes.stale_pods():
        if uid in alive:
            continue
        _log.info("removing what a pod left behind", uid=uid)
        try:
            await kit.volumes.teardown(uid)
        except (VolumeError, OSError) as error:
            _log.warning("cannot remove a pod's volumes", uid=uid, error=str(error))
            continue
        folder = Path(kit.node.root_dir, "pods", uid)
        await anyio.to_thread.run_sync(shutil.rmtree, folder, True)  # noqa: FBT003  ignore_errors
    if kit.node.cgroups_per_qos:
        await _sweep_cgroups(kit, alive)


async def _sweep_cgroups(kit: Kit, alive: Collection[str]) -> None:
    for parent in set(qos_cgroups(kit.node).values()):
        for name in await anyio.to_thread.run_sync(kit.cgroups.list_children, parent):
            uid = pod_uid_of(name, kit.node)
            if uid is None or uid in alive:
                continue
            path = f"{parent.rstrip('/')}/{name}"
            _log.info("removing the cgroup of a pod that is gone", cgroup=path)
            try:
                await kit.cgroups.remove(path)
            except OSError as error:
                _log.warning("cannot remove a cgroup", cgroup=path, error=str(error))
