"""What a container runtime is to this agent: two Protocols in CRI's own terms.

Anything that implements `RuntimeService` and `ImageService` can run pods. Optional abilities are
Protocols of their own (`RuntimeEvents`), found at start. All methods raise `errors.CRIError` or a
subclass and nothing else; each implementation bounds every call by a time limit of its own
(runtimeRequestTimeout, twice that for RunPodSandbox, plus the grace for StopContainer).
Source: k8s.io/cri-api pkg/apis/services.go and runtime/v1/api.proto.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from minikubelet.cri import messages as m


@dataclass(frozen=True, slots=True)
class Streams:
    """Which streams of a process are wanted; at least one, and no stderr beside a terminal."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False


class RuntimeService(Protocol):
    """Sandboxes and containers."""

    async def version(self) -> m.VersionResponse:
        """Return the runtime's name and versions."""

    async def status(self, *, verbose: bool = False) -> m.StatusResponse:
        """Return the runtime's conditions (RuntimeReady, NetworkReady)."""

    async def cgroup_driver(self) -> str:
        """Return `systemd` or `cgroupfs`, as the runtime is set up. Raises Unimplemented."""

    async def update_pod_cidr(self, pod_cidr: str) -> None:
        """Tell the runtime the addresses of the node's pods. Idempotent."""

    async def run_pod_sandbox(self, config: m.PodSandboxConfig, runtime_handler: str = "") -> str:
        """Create and start a sandbox, network included; return its id."""

    async def stop_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Stop all processes and tear the network down. Idempotent: an unknown id is fine."""

    async def remove_pod_sandbox(self, pod_sandbox_id: str) -> None:
        """Remove the sandbox and its containers by force. Idempotent."""

    async def pod_sandbox_status(self, pod_sandbox_id: str) -> m.PodSandboxStatus:
        """Return one sandbox; raises NotFound."""

    async def list_pod_sandbox(
        self,
        *,
        id: str = "",
        state: int | None = None,
        label_selector: Mapping[str, str] | None = None,
    ) -> Sequence[m.PodSandbox]:
        """Return the sandboxes that match all given filters."""

    async def create_container(
        self, pod_sandbox_id: str, config: m.ContainerConfig, sandbox_config: m.PodSandboxConfig
    ) -> str:
        """Create a container in a sandbox; return its id. Raises AlreadyExists for a taken name."""

    async def start_container(self, container_id: str) -> None:
        """Start a created container."""

    async def stop_container(self, container_id: str, timeout: int) -> None:
        """Send the stop signal, wait `timeout` seconds, kill. Idempotent: an unknown id is fine."""

    async def remove_container(self, container_id: str) -> None:
        """Remove a container, killing it if it runs. Idempotent: an unknown id is fine."""

    async def list_containers(
        self,
        *,
        id: str = "",
        state: int | None = None,
        pod_sandbox_id: str = "",
        label_selector: Mapping[str, str] | None = None,
    ) -> Sequence[m.Container]:
        """Return the containers that match all given filters."""

    async def container_status(self, container_id: str) -> m.ContainerStatus:
        """Return one container; raises NotFound."""

    async def exec_sync(
        self, container_id: str, cmd: Sequence[str], timeout: float
    ) -> m.ExecSyncResponse:
        """Run a command to its end; `timeout` in seconds, 0 for none. Raises DeadlineExceeded."""

    async def exec(self, container_id: str, cmd: Sequence[str], streams: Streams) -> str:
        """Prepare a command with streams; return the URL where they are to be had, once."""

    async def attach(self, container_id: str, streams: Streams) -> str:
        """Prepare streams of a container's own process; return their URL as `exec` does."""

    async def port_forward(self, pod_sandbox_id: str, ports: Sequence[int]) -> str:
        """Prepare connections into a sandbox; return their URL. Only WebSockets name `ports`."""

    async def reopen_container_log(self, container_id: str) -> None:
        """Open the log file again after it was renamed."""

    async def close(self) -> None:
        """Let go of the connection."""


class ImageService(Protocol):
    """Images."""

    async def image_status(self, image: m.ImageSpec) -> m.Image | None:
        """Return the image, or None when it isn't present."""

    async def pull_image(
        self, image: m.ImageSpec, auth: m.AuthConfig | None, sandbox_config: m.PodSandboxConfig
    ) -> str:
        """Pull; return the image's reference (id)."""

    async def list_images(self) -> Sequence[m.Image]:
        """Return all images."""

    async def remove_image(self, image: m.ImageSpec) -> None:
        """Remove an image. Idempotent."""


class EventKind(Enum):
    """What happened to a container or sandbox."""

    CREATED = "created"
    STARTED = "started"
    STOPPED = "stopped"
    DELETED = "deleted"
    OOM = "oom"
    EXEC_EXITED = "exec exited"
    """A process run by exec ended; its container goes on."""


@dataclass(frozen=True, slots=True)
class RuntimeEvent:
    """A hint that something happened; its payload is never taken for the state itself.

    `container_id` may be a sandbox's id. `pod_uid` is empty when the source doesn't know it.
    """

    kind: EventKind
    container_id: str
    pod_uid: str = ""
    exit_code: int = 0
    """Of an exec's process only: what the runtime doesn't tell as long as its pipes are open."""


class RuntimeEvents(Protocol):
    """Optional ability: a stream of events."""

    def subscribe(self) -> AbstractAsyncContextManager[AsyncIterator[RuntimeEvent]]:
        """Open the stream. Entering returns once the runtime has accepted the subscription.

        The iterator ends or raises CRIError when the stream breaks: events in between are lost and
        the caller must relist. Raises Unimplemented when the runtime has no such stream.
        """
