"""An in-memory runtime that behaves as containerd does, for tests and for trying things out.

It implements `RuntimeService`, `RuntimeEvents` and (as `.images`) `ImageService`. Names are
reserved, states only go forward, stop and remove may be repeated. It speaks only anyio, so hours
of back-off pass in milliseconds on simulated time. What it must not do is be kinder than
the real one: the contract suite runs on this and on containerd alike.

    fake = FakeRuntime(on_start=lambda config: 1 if config.metadata.name == "bad" else None)
    fake.script.inject("StartContainer", CRIError("StartContainer", "Unknown", "no"), nth=2)
    fake.exit(container_id, 137)          # the process ends now
    fake.script.count("RunPodSandbox")    # how often it was called
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

import anyio

from minikubelet.cri import messages as m
from minikubelet.cri.errors import DeadlineExceeded, NotFound, Unimplemented
from minikubelet.cri.fake_calls import fail, state_name
from minikubelet.cri.fake_events import EventPolicy
from minikubelet.cri.fake_script import (
    NEVER,
    Exec,
    Program,
    Script,
    container_name,
)
from minikubelet.cri.fake_state import (
    FakeContainer,
    FakeSandbox,
)
from minikubelet.cri.fake_streaming import FakeStreaming
from minikubelet.cri.fake_views import (
    container_status,
    list_container,
)
from minikubelet.cri.services import EventKind, RuntimeEvent

__all__ = ["NEVER", "EventPolicy", "Exec", "FakeRuntime", "Program", "Script"]


class FakeRuntime(FakeStreaming):
    """A runtime in memory."""

    # what a test asks

    def named(self, name: str) -> list[FakeContainer]:
        """Return the containers of a name, oldest first."""
        self.settle()
        return [each for each in self.containers.values() if each.config.metadata.name == name]

    def running(self) -> list[str]:
        """Return the names of the running containers, oldest first."""
        self.settle()
        return [each.config.metadata.name for each in self.containers.values() if each.running]

    def stop_runtime(self) -> None:
        """Stop the daemon: calls fail, streams break, containers go on."""
        self.script.down = True
        self.events.break_streams()

    def start_runtime(self) -> None:
        """Start the daemon again."""
        self.script.down = False

    # RuntimeService

    async def version(self) -> m.VersionResponse:
        """Return the fake's name."""
        reply = m.VersionResponse(
            version="0.1.0",
            runtime_name="fake",
            runtime_version="v0",
            runtime_api_version="v1",
        )
        return await self.script.run("Version", "", lambda: reply, self.later)

    async def status(self, *, verbose: bool = False) -> m.StatusResponse:
        """Return RuntimeReady and NetworkReady; the latter as `network_ready` says."""
        del verbose

        def effect() -> m.StatusResponse:
            reply = m.StatusResponse()
            reply.status.conditions.add(type="RuntimeReady", status=True)
            reply.status.conditions.add(type="NetworkReady", status=self.network_ready)
            return reply

        return await self.script.run("Status", "", effect, self.later)

    async def cgroup_driver(self) -> str:
        """Return `driver`; without one the call is unknown, as to older runtimes."""

        def effect() -> str:
            if not self.driver:
                text = "unknown method RuntimeConfig for service runtime.v1.RuntimeService"
                raise Unimplemented("RuntimeConfig", "Unimplemented", text)
            return self.driver

        return await self.script.run("RuntimeConfig", "", effect, self.later)

    async def update_pod_cidr(self, pod_cidr: str) -> None:
        """Keep it in `pod_cidr`."""

        def effect() -> None:
            self.pod_cidr = pod_cidr

        await self.script.run("UpdateRuntimeConfig", pod_cidr, effect, self.later)

    async def create_container(
        self,
        pod_sandbox_id: str,
        config: m.ContainerConfig,
        sandbox_config: m.PodSandboxConfig,
    ) -> str:
        """Create a container in a ready sandbox; its name is reserved as a sandbox's is.

        As containerd does, it takes the pod's name and the log folder from `sandbox_config`.
        """
        container_id = self.new_id()

        def effect() -> None:
            found = self.sandbox("CreateContainer", pod_sandbox_id)
            if not found.ready:
                text = f'sandbox container "{pod_sandbox_id}" is not running'
                fail("CreateContainer", text)
            self._add_container(container_id, found, config, sandbox_config.log_directory)

        name = container_name(config.metadata, sandbox_config.metadata)
        await self.create("CreateContainer", "container", name, container_id, effect)
        return container_id

    async def start_container(self, container_id: str) -> None:
        """Start a created container. A start that fails leaves it exited with 128, StartError."""

        def effect() -> None:
            container = self.container("StartContainer", container_id)
            if container.state != m.CONTAINER_CREATED:
                text = f'failed to set starting state for container "{container_id}": container is '
                fail("StartContainer", f"{text}in {state_name(container)} state")
            if not container.sandbox.ready:
                text = f'sandbox container "{container.sandbox.id}" is not running'
                fail("StartContainer", text)
            self.start(container)

        await self.run("StartContainer", container_id, effect)

    async def stop_container(self, container_id: str, timeout: int) -> None:
        """TERM, wait, KILL. An unknown or not running container is fine.

        Cancelled while it waits, it leaves the process with its TERM.
        """
        self.settle()
        async with self.script.around("StopContainer", container_id):
            container = self.containers.get(container_id)
            if container is None or not container.running:
                return
            if timeout > 0:
                self.term(container)
                await self.wait_until(lambda: not container.running, timeout)
            self.kill(container)

    async def remove_container(self, container_id: str) -> None:
        """Kill and remove; an unknown id is fine."""

        def effect() -> None:
            if container_id in self.containers:
                self.remove(self.containers[container_id])

        await self.run("RemoveContainer", container_id, effect)

    async def list_containers(
        self,
        *,
        id: str = "",
        state: int | None = None,
        pod_sandbox_id: str = "",
        label_selector: Mapping[str, str] | None = None,
    ) -> Sequence[m.Container]:
        """Return the containers that match all given filters, in no useful order."""

        def effect() -> list[m.Container]:
            views = [list_container(each) for each in reversed(self.containers.values())]
            return [
                view
                for view in views
                if view.id.startswith(id)
                and view.pod_sandbox_id.startswith(pod_sandbox_id)
                and state in (None, view.state)
                and (label_selector or {}).items() <= dict(view.labels).items()
            ]

        return await self.run("ListContainers", id, effect)

    async def container_status(self, container_id: str) -> m.ContainerStatus:
        """Return one container; raises NotFound."""
        return await self.run(
            "ContainerStatus",
            container_id,
            lambda: container_status(self.container("ContainerStatus", container_id)),
        )

    async def exec_sync(
        self, container_id: str, cmd: Sequence[str], timeout: float
    ) -> m.ExecSyncResponse:
        """Run `on_exec`; raises DeadlineExceeded when it takes longer than the timeout."""
        self.settle()
        async with self.script.around("ExecSync", container_id):
            container = self.container("ExecSync", container_id)
            if not container.running:
                fail("ExecSync", f"container is in {state_name(container)} state")
            answer = self.on_exec(container.config, list(cmd))
            result = Exec(exit_code=answer) if isinstance(answer, int) else answer
            if timeout and result.takes > timeout:
                await anyio.sleep(timeout)
                text = f"failed to exec in container: timeout {timeout:g}s exceeded"
                raise DeadlineExceeded("ExecSync", "DeadlineExceeded", text)
            await anyio.sleep(result.takes)
            return m.ExecSyncResponse(
                exit_code=result.exit_code, stdout=result.stdout, stderr=result.stderr
            )
        raise AssertionError  # unreachable: `around` swallows nothing

    async def reopen_container_log(self, container_id: str) -> None:
        """Record the call; the fake writes no logs."""

        def effect() -> None:
            if not self.container("ReopenContainerLog", container_id).running:
                fail("ReopenContainerLog", "container is not running")

        await self.run("ReopenContainerLog", container_id, effect)

    async def close(self) -> None:
        """Do nothing: there is no connection."""

    # RuntimeEvents

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[AsyncIterator[RuntimeEvent]]:
        """Open the stream; raises Unavailable when the runtime is down."""
        await self.script.run("GetContainerEvents", "", lambda: None, self.later)
        async with self.events.subscribe(self.next_change, self.settle) as stream:
            yield stream

    def _add_container(
        self, container_id: str, sandbox: FakeSandbox, config: m.ContainerConfig, logs: str
    ) -> None:
        image = self.images.find(config.image.image)
        if image is None and not self._any_image:
            text = f'failed to resolve image "{config.image.image}": not found'
            raise NotFound("CreateContainer", "NotFound", text)
        ref = image.id if image is not None else config.image.image
        copy = m.ContainerConfig()
        copy.CopyFrom(config)
        log_path = f"{logs}/{config.log_path}" if logs and config.log_path else ""
        created_at = self.now_ns()
        container = FakeContainer(container_id, sandbox, copy, created_at, ref, log_path)
        self.containers[container_id] = container
        self.emit(EventKind.CREATED, container_id, sandbox)
