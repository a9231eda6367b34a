"""The pod's sandbox: made once, asked for its addresses, given to each container."""

from dataclasses import dataclass
from pathlib import Path

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.criconfig.dns import pod_dns
from minikubelet.criconfig.sandbox import pod_log_directory, pod_sandbox_config
from minikubelet.lifecycle.runtime import PodRuntimeStatus, SandboxRecord
from minikubelet.observe.events import WARNING
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState

CONFLICTS_BEFORE_NEXT_ATTEMPT = 3


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A ready sandbox and what it was made from."""

    id: str
    config: m.PodSandboxConfig
    ips: tuple[str, ...]
    handler: str = ""
    """The runtime handler; empty for the default one."""


async def sandbox_config(kit: Kit, state: PodState, attempt: int) -> m.PodSandboxConfig:
    """Build the config; DNS problems become events. Raises ConfigProblem.

    A name that the runtime holds reserved without anything to show for it raises the attempt.
    """
    attempt += state.conflicts.get("", 0) // CONFLICTS_BEFORE_NEXT_ATTEMPT
    dns, warnings = pod_dns(state.pod, kit.node, await kit.resolv_conf())
    for warning in warnings:
        kit.events.emit(state.ref(), WARNING, warning.reason, warning.message)
    return pod_sandbox_config(state.pod, attempt, kit.node, dns)


async def create_sandbox(kit: Kit, state: PodState, config: m.PodSandboxConfig) -> Sandbox:
    """Run a new sandbox and ask for its addresses. Raises CRIError, ConfigProblem."""
    handler = await kit.objects.runtime_handler(state.pod)
    # A thread would take longer than the call itself.
    _make_log_directory(pod_log_directory(state.pod, kit.node))
    kit.timeline.mark(state.uid, "sandbox creating")
    try:
        sandbox_id = await kit.runtime.run_pod_sandbox(config, handler)
    finally:
        state.acted(kit)
    kit.cache.learn(sandbox_id, state.uid)
    state.conflicts.pop("", None)
    state.sandbox_failures = 0
    state.completed_init.clear()
    state.sandbox_id = sandbox_id
    state.waits = ("", "")
    try:
        status = await kit.runtime.pod_sandbox_status(sandbox_id)
    except CRIError as error:
        text = f"Unable to get pod sandbox status: {error}"
        kit.events.emit(state.ref(), WARNING, "FailedPodSandBoxStatus", text)
        raise
    record = kit.cache.add_sandbox(state.uid, status)
    state.update_status(kit)
    kit.timeline.mark(state.uid, "sandbox")
    return Sandbox(sandbox_id, config, _addresses(kit, state, record), handler)


def current_sandbox(
    kit: Kit, state: PodState, view: PodRuntimeStatus, config: m.PodSandboxConfig
) -> Sandbox:
    """Return the ready sandbox of a view."""
    record = view.sandboxes[0]
    return Sandbox(record.id, config, _addresses(kit, state, record), record.runtime_handler)


def _addresses(kit: Kit, state: PodState, record: SandboxRecord) -> tuple[str, ...]:
    return kit.host_ips if state.pod.spec.host_network else record.ips


def _make_log_directory(path: str) -> None:
    Path(path).mkdir(mode=0o755, parents=True, exist_ok=True)
