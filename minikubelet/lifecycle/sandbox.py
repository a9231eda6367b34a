"""Whether a pod needs a new sandbox. Source: kubelet kuberuntime/util/util.go PodSandboxChanged."""

from dataclasses import dataclass

from minikubelet.api.pod import Pod
from minikubelet.lifecycle.runtime import PodRuntimeStatus


@dataclass(frozen=True, slots=True)
class SandboxDecision:
    """`create` says whether a new sandbox is due, with which attempt; `old_id` is for the event."""

    create: bool
    attempt: int
    old_id: str = ""


def sandbox_decision(pod: Pod, status: PodRuntimeStatus) -> SandboxDecision:
    """Decide by the newest sandbox; the checks stand in the kubelet's order."""
    if not status.sandboxes:
        return SandboxDecision(create=True, attempt=0)
    newest = status.sandboxes[0]
    following = newest.attempt + 1
    ready = sum(sandbox.ready for sandbox in status.sandboxes)
    if ready > 1 or not newest.ready:
        return SandboxDecision(create=True, attempt=following, old_id=newest.id)
    if newest.host_network != pod.spec.host_network:
        return SandboxDecision(create=True, attempt=following)
    if not pod.spec.host_network and newest.has_network_status and not newest.ips:
        return SandboxDecision(create=True, attempt=following, old_id=newest.id)
    return SandboxDecision(create=False, attempt=newest.attempt, old_id=newest.id)
