"""After a restart of the agent: what is known of a pod from the state directory and the runtime.

The runtime is the truth about containers; the state directory adds what labels can't carry. A pod
that only the runtime knows is rebuilt from its labels and annotations: enough to end it with its
own grace and preStop hooks.
"""

import msgspec

from minikubelet.api.meta import ObjectMeta
from minikubelet.api.pod import Container, Lifecycle, Pod, PodSpec
from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.api.timestamp import NANOSECONDS, parse, rfc3339
from minikubelet.criconfig.labels import read_annotations
from minikubelet.lifecycle.runtime import PodRuntimeStatus
from minikubelet.lifecycle.status import Verdict
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState
from minikubelet.state.pods import PodMemory


def restore(kit: Kit, state: PodState, memory: PodMemory) -> None:
    """Fill in what a fresh worker can't know."""
    take_status(kit, state, memory.status)
    state.sandbox_id = memory.sandbox_id
    state.allocated = memory.allocated
    state.completed_init = set(memory.completed_init)
    state.pending_hooks = dict(memory.pending_hooks)
    ending = memory.termination
    if ending is not None and ending.phase:
        state.verdict = Verdict(ending.phase, ending.reason, ending.message, ending.disruption)


def take_status(kit: Kit, state: PodState, status: PodStatus) -> None:
    """Go on from a status told earlier: counts, times and the deadline continue."""
    state.status = status
    if status.start_time:
        # The wall clock is read once; from here on only durations count.
        ago = (kit.clock.wall_ns() - parse(status.start_time)) / NANOSECONDS
        state.started_mono = kit.clock.monotonic() - max(0.0, ago)


def status_from_runtime(view: PodRuntimeStatus) -> PodStatus:
    """Return what can be told of a pod that nobody remembers: since when it is there."""
    began = min((sandbox.created_at for sandbox in view.sandboxes), default=0)
    return PodStatus(start_time=rfc3339(began)) if began else PodStatus()


def record_from_runtime(view: PodRuntimeStatus) -> PodRecord | None:
    """Rebuild a pod from what its sandbox and containers carry; None when there is nothing."""
    if not view.sandboxes and not view.containers:
        return None
    grace: int | None = None
    containers: dict[str, Container] = {}
    for record in view.containers:
        notes = read_annotations(record.annotations)
        grace = notes.pod_termination_grace if grace is None else grace
        containers.setdefault(
            record.name,
            Container(
                name=record.name,
                image=record.image,
                ports=notes.ports,
                lifecycle=Lifecycle(pre_stop=notes.pre_stop) if notes.pre_stop else None,
            ),
        )
    sandbox = view.sandboxes[0] if view.sandboxes else None
    pod = Pod(
        metadata=ObjectMeta(
            name=view.name,
            namespace=view.namespace,
            uid=view.uid,
            annotations=sandbox.annotations if sandbox is not None else {},
        ),
        spec=PodSpec(
            containers=tuple(containers.values()),
            termination_grace_period_seconds=grace,
            restart_policy="Always",
            host_network=sandbox.host_network if sandbox is not None else False,
        ),
    )
    return PodRecord(pod, _raw(pod), "container runtime")


def _raw(pod: Pod) -> dict[str, object]:

    return {"apiVersion": "v1", "kind": "Pod", **msgspec.to_builtins(pod)}
