"""Kill one container or a whole pod: one budget for hook and signal, sidecars last.

The budget starts when the kill starts: a preStop hook uses it up, at least two seconds are left for
the stop signal. Sidecars run their hook at once but are stopped only after the regular containers
and the sidecars behind them. Source: kubelet kuberuntime_container.go killContainer,
kuberuntime_termination_order.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

import anyio
import structlog

from minikubelet.api.pod import Container, Pod
from minikubelet.cri.errors import CRIError, NotFound
from minikubelet.criconfig.labels import read_annotations
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus
from minikubelet.lifecycle.steps import ContainerKill, KillCause
from minikubelet.observe.events import NORMAL, WARNING
from minikubelet.pods.ending import MAX_GRACE
from minikubelet.pods.hooks import HookFailed, run_hook
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState

MIN_STOP_SECONDS = 2

_log = structlog.get_logger("pods")


def spec_grace(pod: Pod) -> int:
    """Return the pod's own grace in seconds; the kubelet's 2 when the spec has none."""
    grace = pod.metadata.deletion_grace_period_seconds
    if grace is None:
        grace = pod.spec.termination_grace_period_seconds
    return MIN_STOP_SECONDS if grace is None else min(grace, MAX_GRACE)


def kill_grace(pod: Pod, kill: ContainerKill) -> int:
    """Return the grace in seconds of a kill that isn't the pod's end.

    A failed probe may have one of its own (kubelet_container.go setTerminationGracePeriod).
    """
    container = next((c for c in pod.all_containers() if c.name == kill.name), None)
    probe = None
    if container is not None and pod.metadata.deletion_grace_period_seconds is None:
        match kill.cause:
            case KillCause.LIVENESS:
                probe = container.liveness_probe
            case KillCause.STARTUP:
                probe = container.startup_probe
    own = probe.termination_grace_period_seconds if probe is not None else None
    return spec_grace(pod) if own is None else min(own, MAX_GRACE)


@dataclass(frozen=True, slots=True)
class Ending:
    """A container to stop: its Killing event's text, its grace in seconds (None: the pod's)."""

    record: ContainerRecord
    message: str = ""
    grace: float | None = None


class _Order:
    """Who has ended already: sidecars wait for it."""

    def __init__(self, pod: Pod, records: Sequence[ContainerRecord]) -> None:
        running = {record.name for record in records}
        self._ended = {name: anyio.Event() for name in running}
        self._waits_for: dict[str, list[str]] = {}
        later = [c.name for c in pod.spec.containers if c.name in running]
        for container in reversed(pod.spec.init_containers):
            if container.is_sidecar and container.name in running:
                self._waits_for[container.name] = list(later)
                later.append(container.name)

    async def turn(self, name: str) -> None:
        """Wait until everything that must end before has ended."""
        for other in self._waits_for.get(name, ()):
            await self._ended[other].wait()

    def ended(self, name: str) -> None:
        """Note the end of a container."""
        self._ended[name].set()


async def kill_container(
    kit: Kit,
    state: PodState,
    record: ContainerRecord,
    message: str,
    *,
    grace: float | None = None,
    order: _Order | None = None,
) -> None:
    """Stop one container within `grace` seconds (None: the pod's own). Raises CRIError."""
    deadline = kit.clock.monotonic() + (spec_grace(state.pod) if grace is None else grace)
    container = next((c for c in state.pod.all_containers() if c.name == record.name), None)
    text = message or f"Stopping container {record.name}"
    kit.events.emit(state.ref(record.name), NORMAL, "Killing", text)
    if deadline > kit.clock.monotonic():
        await _pre_stop(kit, state, container, record, deadline)
    if order is not None:
        with anyio.move_on_after(max(0.0, deadline - kit.clock.monotonic())):
            await order.turn(record.name)
    remaining = max(MIN_STOP_SECONDS, ceil(deadline - kit.clock.monotonic()))
    try:
        await kit.runtime.stop_container(record.id, remaining)
    except NotFound:
        pass
    finally:
        state.acted(kit)
        if order is not None:
            order.ended(record.name)
    state.pending_hooks.pop(record.id, None)


async def _pre_stop(
    kit: Kit,
    state: PodState,
    container: Container | None,
    record: ContainerRecord,
    deadline: float,
) -> None:
    if container is not None:
        handler = container.lifecycle.pre_stop if container.lifecycle is not None else None
    else:
        container, handler = Container(name=record.name), None
    # A pod known from the runtime alone has its hook in the container's annotations.
    handler = handler or read_annotations(record.annotations).pre_stop
    if handler is None or record.id in state.pre_stopped:
        # A shorter grace interrupts the hook and goes on with the rest.
        return
    state.pre_stopped.add(record.id)
    budget = deadline - kit.clock.monotonic()
    ips = kit.cache.get(state.uid).ips or kit.host_ips
    try:
        await run_hook(kit, state, container, handler, record.id, ips, budget)
    except HookFailed as error:
        _log.warning("preStop hook failed", container=record.name, error=str(error))
        kit.events.emit(state.ref(record.name), WARNING, "FailedPreStopHook", "PreStopHook failed")


async def kill_containers(
    kit: Kit,
    state: PodState,
    endings: Iterable[Ending],
) -> None:
    """Stop containers at the same time; raise the first CRIError at the end.

    A failure keeps none of the others from its signal.
    """
    wanted = list(endings)
    order = _Order(state.pod, [ending.record for ending in wanted])
    failures: list[CRIError] = []

    async def kill(ending: Ending) -> None:
        record, message = ending.record, ending.message
        try:
            await kill_container(kit, state, record, message, grace=ending.grace, order=order)
        except CRIError as error:
            _log.warning("cannot stop a container", container=record.name, error=str(error))
            failures.append(error)

    async with anyio.create_task_group() as group:
        for ending in wanted:
            group.start_soon(kill, ending)
    if failures:
        raise failures[0]


async def kill_pod(
    kit: Kit,
    state: PodState,
    view: PodRuntimeStatus,
    *,
    grace: float | None = None,
    stop_sandboxes: bool = True,
) -> None:
    """Stop all running containers, then every sandbox. Raises CRIError.

    Also one that has died by itself: only a stop takes its address and its host ports back.
    """
    try:
        await kill_containers(kit, state, [Ending(r, grace=grace) for r in view.running])
    except CRIError as error:
        kit.events.emit(state.ref(), WARNING, "FailedKillPod", f"error killing pod: {error}")
        raise
    for sandbox in view.sandboxes if stop_sandboxes else ():
        if not sandbox.ready and sandbox.id in state.stopped_sandboxes:
            continue
        try:
            await kit.runtime.stop_pod_sandbox(sandbox.id)
        except NotFound:
            pass
        finally:
            state.acted(kit)
        state.stopped_sandboxes.add(sandbox.id)
