"""The volumes of one pod at the right time: complete before its sandbox, fresh while it runs.

What is in them is `volumes.manager`'s; this knows when to look again, and what a failure does to
the pod. Nothing is restarted for a file that changed. Who comes next: sync.
"""

from minikubelet.lifecycle.runtime import PodRuntimeStatus
from minikubelet.observe.events import WARNING
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState
from minikubelet.volumes.content import kind_of
from minikubelet.volumes.errors import VolumeError

MIN_RENEWAL = 5.0
"""Seconds between tries to renew a token that the apiserver doesn't give."""


async def set_up_volumes(kit: Kit, state: PodState) -> None:
    """Make all volumes complete. Raises VolumeError, then the state says when to try again."""
    state.volumes_stale = False  # what changes from here on is seen by the next look
    try:
        state.volumes = dict(await kit.volumes.setup(state.pod))
    except VolumeError:
        state.volumes_failed(kit.clock.monotonic())
        raise
    except BaseException:
        state.volumes_stale = True
        raise
    state.volume_failures = 0


async def refresh_volumes(kit: Kit, state: PodState, view: PodRuntimeStatus) -> None:
    """Bring files up to date whose objects, fields or tokens have changed."""
    renewal = kit.objects.renewal_in(state.uid)
    if not any(kind_of(volume) for volume in state.pod.spec.volumes):
        return
    due = state.volumes_stale and kit.clock.monotonic() >= state.volumes_not_before
    if not view.running or not (due or (renewal is not None and renewal <= 0)):
        return
    kit.objects.use(state.pod)
    try:
        await set_up_volumes(kit, state)
    except VolumeError as error:
        # What runs keeps the files it has.
        kit.events.emit(state.ref(), WARNING, "FailedMount", str(error))


def volumes_due_in(kit: Kit, state: PodState) -> float:
    """Return the seconds until volumes want a look that no event brings; infinity for never."""
    due = float("inf")
    if (again := state.volumes_not_before - kit.clock.monotonic()) > 0:
        due = again
    renewal = kit.objects.renewal_in(state.uid)
    return due if renewal is None else min(due, max(MIN_RENEWAL, renewal))
