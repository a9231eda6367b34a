"""Whether a container that isn't running starts (again).

Source: kubelet container/helpers.go ShouldContainerBeRestarted, KEP-5307 (container restart rules),
KEP-5532 (RestartAllContainers).
"""

from enum import Enum

from minikubelet.api.pod import Container, ContainerRestartRule, Pod
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State

OOM_KILLED = "OOMKilled"


class Restart(Enum):
    """What follows a container's end."""

    NO = "no"
    YES = "yes"
    ALL = "all"
    """Every container of the pod starts anew (rule action RestartAllContainers)."""


def matching_rule(container: Container, exit_code: int) -> ContainerRestartRule | None:
    """Return the first rule that matches the exit code."""
    for rule in container.restart_policy_rules:
        codes = rule.exit_codes
        if codes is not None and (exit_code in codes.values) == (codes.operator == "In"):
            return rule
    return None


def after_exit(pod: Pod, container: Container, exit_code: int) -> Restart:
    """Decide by the exit code: the container's rules, its own policy, then the pod's."""
    policy = pod.spec.restart_policy
    if container.restart_policy is not None:
        rule = matching_rule(container, exit_code)
        if rule is not None:
            return Restart.ALL if rule.action == "RestartAllContainers" else Restart.YES
        policy = container.restart_policy
    restarts = policy == "Always" or (policy == "OnFailure" and exit_code != 0)
    return Restart.YES if restarts else Restart.NO


def restartable_after_failure(pod: Pod, container: Container) -> bool:
    """True when a container killed by a probe, or of unknown fate, restarts: rules don't count."""
    policy = container.restart_policy or pod.spec.restart_policy
    return policy != "Never"


def should_restart(pod: Pod, container: Container, record: ContainerRecord | None) -> bool:
    """True when the container must be started given its newest record (None: it has none)."""
    if pod.metadata.deletion_timestamp is not None:
        return False
    if record is None:
        return True
    match record.state:
        case State.RUNNING:
            return False
        case State.CREATED | State.UNKNOWN:
            return True
        case State.EXITED:
            return after_exit(pod, container, record.exit_code) is not Restart.NO


def init_failed(record: ContainerRecord) -> bool:
    """True when an init container ended badly."""
    return record.exit_code != 0 or record.reason == OOM_KILLED


def succeeded(record: ContainerRecord | None) -> bool:
    """True for a container that exited with code 0."""
    return record is not None and record.state is State.EXITED and record.exit_code == 0


def restart_all_source(pod: Pod, status: PodRuntimeStatus) -> Container | None:
    """Return the container whose end asks for a restart of all, if any.

    It is removed last, so that the wish survives a crash of the agent halfway through.
    """
    for container in (*pod.spec.init_containers, *pod.spec.containers):
        record = status.newest(container.name)
        if (
            record is not None
            and record.state is State.EXITED
            and after_exit(pod, container, record.exit_code) is Restart.ALL
        ):
            return container
    return None
