"""How the in-memory runtime's records look over CRI. Pure."""

from minikubelet.cri import messages as m
from minikubelet.cri.fake_state import FakeContainer, FakeSandbox


def _sandbox_state(sandbox: FakeSandbox) -> m.v1.PodSandboxState.ValueType:
    return m.SANDBOX_READY if sandbox.ready else m.SANDBOX_NOTREADY


def list_sandbox(sandbox: FakeSandbox) -> m.PodSandbox:
    """Return a sandbox as ListPodSandbox shows it."""
    return m.PodSandbox(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        state=_sandbox_state(sandbox),
        created_at=sandbox.created_at,
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.handler,
    )


def sandbox_status(sandbox: FakeSandbox) -> m.PodSandboxStatus:
    """Return a sandbox as PodSandboxStatus shows it; a stopped one has no address."""
    status = m.PodSandboxStatus(
        id=sandbox.id,
        metadata=sandbox.config.metadata,
        state=_sandbox_state(sandbox),
        created_at=sandbox.created_at,
        network=m.PodSandboxNetworkStatus(ip=sandbox.ip),
        labels=sandbox.config.labels,
        annotations=sandbox.config.annotations,
        runtime_handler=sandbox.handler,
    )
    options = sandbox.config.linux.security_context.namespace_options
    status.linux.namespaces.options.CopyFrom(options)
    return status


def list_container(container: FakeContainer) -> m.Container:
    """Return a container as ListContainers shows it."""
    return m.Container(
        id=container.id,
        pod_sandbox_id=container.sandbox.id,
        metadata=container.config.metadata,
        image=container.config.image,
        image_ref=container.image_ref,
        image_id=container.image_ref,
        state=container.state,  # type: ignore[arg-type]  # an enum's int
        created_at=container.created_at,
        labels=container.config.labels,
        annotations=container.config.annotations,
    )


def container_status(container: FakeContainer) -> m.ContainerStatus:
    """Return a container as ContainerStatus shows it."""
    config = container.config
    status = m.ContainerStatus(
        id=container.id,
        metadata=config.metadata,
        state=container.state,  # type: ignore[arg-type]  # an enum's int
        created_at=container.created_at,
        started_at=container.started_at,
        finished_at=container.finished_at,
        exit_code=container.exit_code,
        image=config.image,
        image_ref=container.image_ref,
        image_id=container.image_ref,
        reason=container.reason,
        message=container.message,
        labels=config.labels,
        annotations=config.annotations,
        mounts=config.mounts,
        log_path=container.log_path,
    )
    status.resources.linux.CopyFrom(config.linux.resources)
    return status
