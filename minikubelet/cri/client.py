"""A runtime that listens on a socket: `connect` makes its services and event sources.

One connection serves all of them, unless images have a socket of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from google.protobuf.message import Message

from minikubelet.cri import messages as m
from minikubelet.cri.containerd_events import ContainerdEvents
from minikubelet.cri.cri_events import CRIEvents
from minikubelet.cri.errors import NotFound
from minikubelet.cri.grpc import Connection, Reply, ReplyType
from minikubelet.cri.grpc_runtime import GrpcRuntime
from minikubelet.cri.messages import v1
from minikubelet.cri.services import ImageService, RuntimeEvents, RuntimeService


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits in seconds. `pull` None: a pull may take as long as it gets on."""

    request: float = 120.0
    pull: float | None = None


@dataclass(frozen=True, slots=True)
class Client:
    """A connected runtime. `events` lists possible event sources, the quickest first.

    Entering a source that the runtime doesn't have raises Unimplemented: then take the next one.
    """

    runtime: RuntimeService
    images: ImageService
    events: tuple[RuntimeEvents, ...]


def connect(endpoint: str, image_endpoint: str = "", timeouts: Timeouts | None = None) -> Client:
    """Make the clients of a runtime; no call is made yet and the socket needn't exist.

    Closing the runtime closes the image service's connection, too.
    """
    limits = timeouts or Timeouts()
    connection = Connection(endpoint)
    shared = image_endpoint in ("", endpoint)
    images = connection if shared else Connection(image_endpoint)
    runtime = GrpcRuntime(connection, limits.request, () if shared else (images,))
    events = (ContainerdEvents(connection, runtime.version), CRIEvents(connection, runtime.version))
    return Client(runtime, GrpcImages(images, limits), events)


class GrpcImages:
    """`ImageService` over a connection."""

    def __init__(self, connection: Connection, timeouts: Timeouts) -> None:
        self._connection = connection
        self._timeouts = timeouts

    async def image_status(self, image: m.ImageSpec) -> m.Image | None:
        """Return the image, or None when it isn't present."""
        request = v1.ImageStatusRequest(image=image)
        reply = await self._call("ImageStatus", request, v1.ImageStatusResponse)
        return reply.image if reply.image.id else None

    async def pull_image(
        self, image: m.ImageSpec, auth: m.AuthConfig | None, sandbox_config: m.PodSandboxConfig
    ) -> str:
        """Pull; may be cancelled, and takes as long as the pull limit allows."""
        request = v1.PullImageRequest(image=image, auth=auth, sandbox_config=sandbox_config)
        limit = self._timeouts.pull
        reply = await self._connection.call(
            "/runtime.v1.ImageService/PullImage", request, v1.PullImageResponse, timeout=limit
        )
        return reply.image_ref

    async def list_images(self) -> Sequence[m.Image]:
        """Return all images."""
        return (
            await self._call("ListImages", v1.ListImagesRequest(), v1.ListImagesResponse)
        ).images

    async def remove_image(self, image: m.ImageSpec) -> None:
        """Remove an image; an unknown one is fine."""
        request = v1.RemoveImageRequest(image=image)
        try:
            await self._call("RemoveImage", request, v1.RemoveImageResponse, shielded=True)
        except NotFound:
            return

    async def _call(
        self, method: str, request: Message, reply_type: ReplyType[Reply], *, shielded: bool = False
    ) -> Reply:
        return await self._connection.call(
            f"/runtime.v1.ImageService/{method}",
            request,
            reply_type,
            timeout=self._timeouts.request,
            shielded=shielded,
        )
