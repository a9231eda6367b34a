"""Runtime views for tests: terse, with the newest record first as the cache sorts them."""

from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, SandboxRecord, State


def sandbox(
    id: str = "s0",
    *,
    ready: bool = True,
    attempt: int = 0,
    ips: tuple[str, ...] = ("10.0.0.2",),
    host: bool = False,
) -> SandboxRecord:
    return SandboxRecord(
        id, ready, attempt=attempt, ips=ips, host_network=host, has_network_status=not host
    )


def record(  # noqa: PLR0913  each by name
    name: str,
    state: State = State.RUNNING,
    *,
    id: str = "",
    code: int = 0,
    sandbox_id: str = "s0",
    attempt: int = 0,
    reason: str = "",
    hash: str = "",
    finished: float = 0.0,
) -> ContainerRecord:
    return ContainerRecord(
        id or f"{name}-{attempt}",
        name,
        state,
        sandbox_id=sandbox_id,
        attempt=attempt,
        exit_code=code,
        reason=reason,
        hash=hash,
        created_at=1 + attempt,
        started_at=1,
        finished_at=2 if state is State.EXITED else 0,
        finished_mono=finished,
    )


def view(
    *records: ContainerRecord, sandboxes: tuple[SandboxRecord, ...] | None = None
) -> PodRuntimeStatus:
    return PodRuntimeStatus(
        "uid-1",
        "pod",
        "default",
        sandboxes=(sandbox(),) if sandboxes is None else sandboxes,
        containers=records,
    )
