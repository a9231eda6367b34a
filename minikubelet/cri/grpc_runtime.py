"""`RuntimeService` over gRPC: each method makes one call with its own time limit.

"Unknown id" is success for stop and remove on every runtime here: containerd 1.6 reports NotFound
where newer ones are silent. Source of the limits: kubelet cri-client pkg/remote_runtime.go.
"""

import math
from collections.abc import Mapping, Sequence

from google.protobuf.message import Message

from minikubelet.cri import messages as m
from minikubelet.cri.errors import NotFound
from minikubelet.cri.grpc import Connection, Reply, ReplyType
from minikubelet.cri.messages import v1
from minikubelet.cri.services import Streams


class GrpcRuntime:
    """`RuntimeService` over a connection; `limit` in seconds is runtimeRequestTimeout."""

    def __init__(
        self, connection: Connection, limit: float, others: tuple[Connection, ...] = ()
    ) -> None:
        self._connection = connection
        self._others = others  # closed together with it
        self._limit = limit

    async def version(self) -> m.VersionResponse:
        """Return the runtime's name and versions."""
        return await self._call("Version", v1.VersionRequest(), m.VersionResponse)

    async def status(self, *, verbose: bool = False) -> m.StatusResponse:
        """Return the runtime's conditions."""
        return await self._call("Status", v1.StatusRequest(verbose=verbose), m.StatusResponse)

    async def cgroup_driver(self) -> str:
        """Return the runtime's cgroup driver. Raises Unimplemented."""
        reply = await self._call(
            "RuntimeConfig", v1.RuntimeConfigRequest(), v1.RuntimeConfigResponse
        )
        return "systemd" if reply.linux.cgroup_driver == v1.SYSTEMD else "cgroupfs"

    async def update_pod_cidr(self, pod_cidr: str) -> None:
        """Tell the runtime the addresses of the node's pods."""
        network = v1.NetworkConfig(pod_cidr=pod_cidr)
        request = v1.UpdateRuntimeConfigRequest(
            runtime_config=v1.RuntimeConfig(network_config=network)
        )
        await self._call("UpdateRuntimeConfig", request, v1.UpdateRuntimeConfigResponse)

    async def run_pod_sandbox(self, config: m.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox. Shielded."""
        request = v1.RunPodSandboxRequest(config=config, runtime_handler=runtime_handler)
        limit = 2 * self._limit  # its image may have to be pulled first
        reply = await self._call(
            "RunPodSandbox", request, v1.RunPodSandboxResponse, timeout=limit, shielded=True
        )
        return reply.pod_sandbox_id

    async def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Stop a sandbox. Shielded: its network is taken down once and wholly."""
        request = v1.StopPodSandboxRequest(pod_sandbox_id=pod_sandbox_id)
        await self._end("StopPodSandbox", request, v1.StopPodSandboxResponse, shielded=True)

    async def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Remove a sandbox. Shielded."""
        request = v1.RemovePodSandboxRequest(pod_sandbox_id=pod_sandbox_id)
        await self._end("RemovePodSandbox", request, v1.RemovePodSandboxResponse, shielded=True)

    async def pod_sandbox_status(self, pod_sandbox_id: str) -> m.PodSandboxStatus:
        """Return one sandbox; raises NotFound."""
        request = v1.PodSandboxStatusRequest(pod_sandbox_id=pod_sandbox_id)
        return (await self._call("PodSandboxStatus", request, v1.PodSandboxStatusResponse)).status

    async def list_pod_sandbox(
        self,
        *,
        id: str = "",
        state: int | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> Sequence[m.PodSandbox]:
        """Return the sandboxes that match all given filters."""
        wanted = m.PodSandboxFilter(id=id, label_selector=label_selector)
        if state is not None:
            wanted.state.state = state  # type: ignore[assignment]  # an enum's int
        request = v1.ListPodSandboxRequest(filter=wanted)
        return (await self._call("ListPodSandbox", request, v1.ListPodSandboxResponse)).items

    async def create_container(
        self, pod_sandbox_id: str, config: m.ContainerConfig, sandbox_config: m.PodSandboxConfig
    ) -> str:
        """Create a container. Shielded."""
        request = v1.CreateContainerRequest(
            pod_sandbox_id=pod_sandbox_id, config=config, sandbox_config=sandbox_config
        )
        reply = await self._call(
            "CreateContainer", request, v1.CreateContainerResponse, shielded=True
        )
        return reply.container_id

    async def start_container(self, container_id: str) -> None:
        """Start a container. Shielded."""
        request = v1.StartContainerRequest(container_id=container_id)
        await self._call("StartContainer", request, v1.StartContainerResponse, shielded=True)

    async def stop_container(self, container_id: str, timeout: int) -> None:
        """Stop a container within `timeout` seconds; a cancelled call has sent its TERM."""
        request = v1.StopContainerRequest(container_id=container_id, timeout=timeout)
        limit = self._limit + timeout
        await self._end("StopContainer", request, v1.StopContainerResponse, timeout=limit)

    async def remove_container(self, container_id: str) -> None:
        """Remove a container. Shielded."""
        request = v1.RemoveContainerRequest(container_id=container_id)
        await self._end("RemoveContainer", request, v1.RemoveContainerResponse, shielded=True)

    async def list_containers(
        self,
        *,
        id: str = "",
        state: int | None = None,
        pod_sandbox_id: str = "",
        label_selector: Mapping[str, str] | None = None,
    ) -> Sequence[m.Container]:
        """Return the containers that match all given filters."""
        wanted = m.ContainerFilter(
            id=id, pod_sandbox_id=pod_sandbox_id, label_selector=label_selector
        )
        if state is not None:
            wanted.state.state = state  # type: ignore[assignment]  # an enum's int
        request = v1.ListContainersRequest(filter=wanted)
        return (await self._call("ListContainers", request, v1.ListContainersResponse)).containers

    async def container_status(self, container_id: str) -> m.ContainerStatus:
        """Return one container; raises NotFound."""
        request = v1.ContainerStatusRequest(container_id=container_id)
        return (await self._call("ContainerStatus", request, v1.ContainerStatusResponse)).status

    async def exec_sync(
        self, container_id: str, cmd: Sequence[str], timeout: float
    ) -> m.ExecSyncResponse:
        """Run a command; CRI counts whole seconds, so the timeout is rounded up."""
        seconds = math.ceil(timeout)
        request = v1.ExecSyncRequest(container_id=container_id, cmd=cmd, timeout=seconds)
        limit = self._limit + seconds if seconds else None
        return await self._call("ExecSync", request, m.ExecSyncResponse, timeout=limit)

    async def exec(self, container_id: str, cmd: Sequence[str], streams: Streams) -> str:
        """Prepare a command with streams; return their URL."""
        request = v1.ExecRequest(
            container_id=container_id,
            cmd=cmd,
            tty=streams.tty,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
        )
        return (await self._call("Exec", request, v1.ExecResponse)).url

    async def attach(self, container_id: str, streams: Streams) -> str:
        """Prepare streams of a container's own process; return their URL."""
        request = v1.AttachRequest(
            container_id=container_id,
            tty=streams.tty,
            stdin=streams.stdin,
            stdout=streams.stdout,
            stderr=streams.stderr,
        )
        return (await self._call("Attach", request, v1.AttachResponse)).url

    async def port_forward(self, pod_sandbox_id: str, ports: Sequence[int]) -> str:
        """Prepare connections into a sandbox; return their URL."""
        request = v1.PortForwardRequest(pod_sandbox_id=pod_sandbox_id, port=ports)
        return (await self._call("PortForward", request, v1.PortForwardResponse)).url

    async def reopen_container_log(self, container_id: str) -> None:
        """Open the log file again."""
        request = v1.ReopenContainerLogRequest(container_id=container_id)
        await self._call("ReopenContainerLog", request, v1.ReopenContainerLogResponse)

    async def close(self) -> None:
        """Close the connection, and the image service's if it has its own."""
        for connection in (self._connection, *self._others):
            await connection.close()

    async def _call(
        self,
        method: str,
        request: Message,
        reply_type: ReplyType[Reply],
        *,
        timeout: float | None = -1,
        shielded: bool = False,
    ) -> Reply:
        return await self._connection.call(
            f"/runtime.v1.RuntimeService/{method}",
            request,
            reply_type,
            timeout=self._limit if timeout == -1 else timeout,
            shielded=shielded,
        )

    async def _end(
        self,
        method: str,
        request: Message,
        reply_type: ReplyType[Reply],
        *,
        timeout: float | None = -1,
        shielded: bool = False,
    ) -> None:
        try:
            await self._call(method, request, reply_type, timeout=timeout, shielded=shielded)
        except NotFound:
            return
