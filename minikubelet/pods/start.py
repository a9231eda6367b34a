"""Start one container: image ▶ create ▶ start ▶ postStart.

A container that was created and never started, because the agent or the runtime went away in
between, is started as it is: the same restart count, no second one. The postStart hook is written
down before StartContainer, so that a crash in between can't skip it.
Source: kubelet kuberuntime_container.go startContainer.
"""

from dataclasses import replace

import structlog

from minikubelet.api.pod import Container
from minikubelet.cri import messages as m
from minikubelet.cri.errors import AlreadyExists, CRIError, DeadlineExceeded, NotFound
from minikubelet.criconfig.container import container_config
from minikubelet.criconfig.context import ConfigProblem, ContainerInputs, ImageInfo
from minikubelet.criconfig.env import container_env
from minikubelet.criconfig.hash import container_hash
from minikubelet.criconfig.mounts import sub_path
from minikubelet.images.manager import ImagesAhead
from minikubelet.images.policy import ImageProblem
from minikubelet.lifecycle import crashloop
from minikubelet.lifecycle.runtime import ContainerRecord, PodRuntimeStatus, State
from minikubelet.observe.events import NORMAL, WARNING
from minikubelet.pods.files import ContainerFiles, link_log, prepare_files
from minikubelet.pods.hooks import HookFailed, run_hook
from minikubelet.pods.kill import kill_container
from minikubelet.pods.kit import Kit
from minikubelet.pods.sandbox import Sandbox
from minikubelet.pods.state import PodState
from minikubelet.volumes.errors import VolumeError

CONFLICTS_BEFORE_NEXT_COUNT = 3
RUN_CONTAINER_ERROR = "RunContainerError"

_log = structlog.get_logger("pods")


class StartProblem(Exception):
    """A container isn't started: a waiting reason of the kubelet and its message."""

    def __init__(self, reason: str, message: str, *, conflict: bool = False) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message
        self.conflict = conflict


async def start_container(
    kit: Kit,
    state: PodState,
    container: Container,
    view: PodRuntimeStatus,
    sandbox: Sandbox,
    ahead: ImagesAhead,
) -> None:
    """Bring one container to life, its postStart hook included. Raises StartProblem."""
    newest = view.newest(container.name)
    if _is_startable(newest, container, sandbox):
        assert newest is not None  # noqa: S101  _is_startable says so
        container_id, log_path = newest.id, newest.log_path
    else:
        # The attempt counts, not its success: what can't start must not be tried in a loop.
        now = kit.clock.monotonic()
        state.backoff = crashloop.attempted(state.backoff, container, view, now)
        container_id, log_path = await _create(kit, state, container, view, sandbox, ahead)
    await _start(kit, state, container, container_id)
    await link_log(kit.node, state.pod, container.name, container_id, log_path)
    if _has_post_start(container):
        await _post_start(kit, state, container, container_id, sandbox.ips)


def _is_startable(newest: ContainerRecord | None, container: Container, sandbox: Sandbox) -> bool:
    return (
        newest is not None
        and newest.state is State.CREATED
        and not newest.start_cancelled
        and newest.sandbox_id == sandbox.id
        and newest.hash == container_hash(container)
    )


def _has_post_start(container: Container) -> bool:
    return container.lifecycle is not None and container.lifecycle.post_start is not None


async def _create(
    kit: Kit,
    state: PodState,
    container: Container,
    view: PodRuntimeStatus,
    sandbox: Sandbox,
    ahead: ImagesAhead,
) -> tuple[str, str]:
    try:
        image = await ahead.get(container)
    except ImageProblem as problem:
        raise _failed(kit, state, container, problem.reason, problem.message) from problem
    kit.timeline.mark(state.uid, "creating", container.name)
    newest = view.newest(container.name)
    if newest is not None and newest.start_cancelled and not _extra_count(state, container):
        await _clear_the_name(kit, state, container, newest)
    try:
        config, files = await _config(kit, state, container, view, sandbox, image)
    except (ConfigProblem, VolumeError, OSError) as error:
        reason = "CreateContainerConfigError"
        raise _failed(kit, state, container, reason, str(error)) from error
    try:
        container_id = await kit.runtime.create_container(sandbox.id, config, sandbox.config)
    except CRIError as error:
        conflict = isinstance(error, (AlreadyExists, DeadlineExceeded))
        raise _failed(
            kit, state, container, "CreateContainerError", str(error), conflict=conflict
        ) from error
    finally:
        state.acted(kit)
    kit.cache.learn(container_id, state.uid)
    kit.events.emit(state.ref(container), NORMAL, "Created", "Container created")
    return container_id, files.log_path


async def _clear_the_name(
    kit: Kit, state: PodState, container: Container, record: ContainerRecord
) -> None:
    """Remove a container that was never run: the next one has its count, and so its name.

    One that the runtime can't remove (containerd may have lost its own task) keeps the name; after
    some tries the next one has another.
    """
    try:
        await kit.runtime.remove_container(record.id)
    except CRIError as error:
        raise _failed(
            kit, state, container, "CreateContainerError", str(error), conflict=True
        ) from error
    finally:
        state.acted(kit)


async def _config(
    kit: Kit,
    state: PodState,
    container: Container,
    view: PodRuntimeStatus,
    sandbox: Sandbox,
    image: ImageInfo,
) -> tuple[m.ContainerConfig, ContainerFiles]:
    pod = state.pod
    objects = await kit.objects.env(pod, container)
    newest = view.newest(container.name)
    extra = _extra_count(state, container)
    files = await prepare_files(kit.node, pod, container, newest, sandbox.ips, extra_count=extra)
    inputs = ContainerInputs(
        image=image,
        restart_count=files.restart_count,
        pod_ips=sandbox.ips,
        host_ips=kit.host_ips,
        volumes=state.volumes,
        hosts_path=files.hosts_path,
        termination_log_path=files.termination_log_path,
        target_container_id=_target(container, view),
        runtime_handler=sandbox.handler,
        service_env=objects.services,
        config_maps=objects.config_maps,
        secrets=objects.secrets,
    )
    if any(mount.sub_path or mount.sub_path_expr for mount in container.volume_mounts):
        env = container_env(pod, container, kit.node, inputs)
        paths = {index: sub_path(mount, env) for index, mount in enumerate(container.volume_mounts)}
        wanted = {index: path for index, path in paths.items() if path}
        made = await kit.volumes.subpaths(pod, container, wanted, state.volumes)
        inputs = replace(inputs, subpaths=made)
    return container_config(pod, container, kit.node, inputs), files


def _extra_count(state: PodState, container: Container) -> int:
    """Return by how much a container's count is raised, since names below were found taken."""
    return state.conflicts.get(container.name, 0) // CONFLICTS_BEFORE_NEXT_COUNT


def _target(container: Container, view: PodRuntimeStatus) -> str:
    if not container.target_container_name:
        return ""
    record = view.newest(container.target_container_name)
    if record is None:
        raise ConfigProblem(f"unable to find target container {container.target_container_name}")
    return record.id


async def _start(kit: Kit, state: PodState, container: Container, container_id: str) -> None:
    if _has_post_start(container):
        state.pending_hooks[container_id] = container.name
        await _keep(kit, state)
    try:
        await kit.runtime.start_container(container_id)
    except NotFound as error:
        state.pending_hooks.pop(container_id, None)
        raise _failed(kit, state, container, RUN_CONTAINER_ERROR, str(error)) from error
    except CRIError as error:
        raise _failed(kit, state, container, RUN_CONTAINER_ERROR, str(error)) from error
    finally:
        state.acted(kit)
    kit.events.emit(state.ref(container), NORMAL, "Started", "Container started")
    kit.timeline.mark(state.uid, "started", container.name)


def _failed(
    kit: Kit,
    state: PodState,
    container: Container,
    reason: str,
    message: str,
    *,
    conflict: bool = False,
) -> StartProblem:
    kit.events.emit(state.ref(container), WARNING, "Failed", f"Error: {message or reason}")
    return StartProblem(reason, message, conflict=conflict)


async def run_post_start(
    kit: Kit, state: PodState, container: Container, record: ContainerRecord | None
) -> None:
    """Run the hook of a container that was started before a restart of the agent."""
    if record is not None and record.state is State.RUNNING:
        await _post_start(kit, state, container, record.id, kit.cache.get(state.uid).ips)


async def _post_start(
    kit: Kit, state: PodState, container: Container, container_id: str, ips: tuple[str, ...]
) -> None:
    """Run the hook; the containers behind it say what they wait for."""
    assert container.lifecycle is not None  # noqa: S101  _has_post_start says so
    assert container.lifecycle.post_start is not None  # noqa: S101  as above
    spec = state.pod.spec
    order = [c.name for c in (*spec.init_containers, *spec.containers)]
    behind = order[order.index(container.name) + 1 :] if container.name in order else []
    text = f"waiting for the postStart hook of container {container.name}"
    state.wait_for(behind, text, kit.clock.monotonic())
    state.pending_hooks[container_id] = container.name
    state.update_status(kit)
    try:
        await run_hook(kit, state, container, container.lifecycle.post_start, container_id, ips)
    except HookFailed as error:
        state.pending_hooks.pop(container_id, None)
        _log.warning("postStart hook failed", container=container.name, error=str(error))
        kit.events.emit(
            state.ref(container), WARNING, "FailedPostStartHook", "PostStartHook failed"
        )
        record = ContainerRecord(container_id, container.name, State.RUNNING)
        await kill_container(kit, state, record, "FailedPostStartHook")
        raise StartProblem("PostStartHookError", f"PostStartHook failed: {error}") from error
    finally:
        state.acted(kit)
    # The container's end, seen during the hook, has made it void already.
    state.pending_hooks.pop(container_id, None)
    await _keep(kit, state)


async def _keep(kit: Kit, state: PodState) -> None:
    """Write the hook's state down; a full disk costs the memory of it, not the pod."""
    try:
        await kit.memories.save(state.memory())
    except OSError as error:
        _log.warning("cannot keep the state of a postStart hook", error=str(error))
