"""Who may run beside the pods that are here already; a critical pod makes room for itself.

`admission` judges and `preemption` chooses, both pure; this carries out what they say: it knows
which workers hold resources, and ends the ones that have to go. Who comes next: the worker's gate,
which tells a refusal. Source: kubelet preemption/preemption.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from minikubelet.lifecycle.phase import FINAL
from minikubelet.lifecycle.status import Verdict
from minikubelet.observe.events import WARNING
from minikubelet.pods.admission import NODE_PORTS, Rejection, admit
from minikubelet.pods.ending import Kill
from minikubelet.pods.kit import Kit
from minikubelet.pods.preemption import is_critical, victims
from minikubelet.pods.worker import Stage, Worker

PREEMPTED = "Preempted in order to admit critical pod"
PREEMPTED_CONDITION = "Pod was preempted by Kubelet to accommodate a critical pod."


def holds(worker: Worker) -> bool:
    """Tell whether a pod holds resources and ports: admitted and not stopped yet."""
    if worker.stage in (Stage.WAITING, Stage.TERMINATED, Stage.FINISHED):
        return False
    return worker.admitted and worker.state.status.phase not in FINAL


def admit_beside(kit: Kit, worker: Worker, workers: Iterable[Worker]) -> Rejection | None:
    """Ask whether a pod may run beside the others; those in a critical one's way are ended."""
    holders = [other for other in workers if other is not worker and holds(other)]
    refusal = _judge(kit, worker, holders)
    if refusal is None:
        return None
    staying = [other for other in holders if not other.ending]
    if refusal.reason == NODE_PORTS and _judge(kit, worker, staying) is None:
        return replace(refusal, passing=True)
    if refusal.need and is_critical(worker.state.pod, static=worker.state.static):
        return _preempt(kit, worker, staying, refusal)
    return refusal


def _judge(kit: Kit, worker: Worker, holders: Iterable[Worker]) -> Rejection | None:
    state = worker.state
    others = [other.state.pod for other in holders]
    return admit(state.pod, others, kit.node, kit.limits, kit.node_view(), static=state.static)


def _preempt(kit: Kit, worker: Worker, staying: Sequence[Worker], refusal: Rejection) -> Rejection:
    """End what is in the way of a critical pod; it waits until that is gone."""
    refusal = _judge(kit, worker, staying) or replace(refusal, need={}, passing=True)
    if not refusal.need:
        return refusal
    others = [(other.state.pod, other.state.static) for other in staying]
    chosen = victims(worker.state.pod, refusal.need, others)
    if chosen is None:
        return refusal
    uids = {pod.metadata.uid for pod in chosen}
    for other in staying:
        if other.uid in uids:
            kit.events.emit(other.state.ref(), WARNING, "Preempting", PREEMPTED)
            verdict = Verdict("Failed", "Preempting", PREEMPTED, PREEMPTED_CONDITION)
            other.kill(Kill(removed=False, verdict=verdict))
    return replace(refusal, passing=True)
