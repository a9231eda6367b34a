"""What the container runtime says of itself, asked every few seconds: is it ready, its network too.

CRI has no event for this. Keeps the newest facts and tells when they changed; who comes next: the
node's status. Source: kubelet kubelet.go updateRuntimeUp, runtime.go, images/image_gc_manager.go.
"""

from collections.abc import Callable

import anyio
import structlog

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.services import ImageService, RuntimeService
from minikubelet.host.clock import Clock
from minikubelet.node.facts import Handler, NodeImage, RuntimeFacts

PERIOD = 5.0
AGAIN = 1.0
CALL_SECONDS = 4.0
DOWN_AFTER = 7.0
"""Silence that is taken for an end; a restart of the runtime takes a second or two."""
IMAGES_PERIOD = 30.0

_log = structlog.get_logger("node")


class RuntimeWatch:
    """Holds the runtime's facts. `on_change` is called when they changed."""

    def __init__(
        self,
        runtime: RuntimeService,
        images: ImageService,
        clock: Clock,
        on_change: Callable[[], None],
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._clock = clock
        self._on_change = on_change
        self._answered = float("-inf")
        self.answered = anyio.Event()
        """Set once the runtime has answered for the first time."""
        self._listed = float("-inf")
        self.facts = RuntimeFacts(
            problems=("container runtime status check may not have completed yet",)
        )

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            pause = PERIOD
            before = self.facts
            try:
                with anyio.fail_after(CALL_SECONDS):
                    await self._look()
            except (CRIError, TimeoutError):
                pause = AGAIN
                if self._clock.monotonic() - self._answered > DOWN_AFTER:
                    self.facts = _with_problems(self.facts, ("container runtime is down",))
            if self.facts != before:
                self._on_change()
            await anyio.sleep(pause)

    async def look(self) -> None:
        """Ask once, for the first status. Raises CRIError."""
        await self._look()

    async def _look(self) -> None:
        if not self.facts.version:
            version = await self._runtime.version()
            text = f"{version.runtime_name}://{version.runtime_version.removeprefix('v')}"
            self.facts = RuntimeFacts(version=text, problems=self.facts.problems)
        status = await self._runtime.status()
        self._answered = self._clock.monotonic()
        images = self.facts.images
        if self._answered - self._listed >= IMAGES_PERIOD:
            images = tuple(_image(image) for image in await self._images.list_images())
            self._listed = self._answered
        self.facts = RuntimeFacts(
            version=self.facts.version,
            handlers=tuple(
                Handler(
                    handler.name,
                    handler.features.recursive_read_only_mounts,
                    handler.features.user_namespaces,
                )
                for handler in status.runtime_handlers
            ),
            supplemental_groups_policy=status.features.supplemental_groups_policy
            if status.HasField("features")
            else None,
            problems=tuple(_problems(status)),
            images=images,
        )
        self.answered.set()


def _problems(status: m.StatusResponse) -> list[str]:
    texts = {
        "NetworkReady": "container runtime network not ready",
        "RuntimeReady": "container runtime not ready",
    }
    conditions = {condition.type: condition for condition in status.status.conditions}
    problems = []
    for kind in ("RuntimeReady", "NetworkReady"):
        condition = conditions.get(kind)
        if condition is not None and not condition.status:
            problems.append(
                f"{texts[kind]}: {kind}=false reason:{condition.reason} message:{condition.message}"
            )
    return problems


def _with_problems(facts: RuntimeFacts, problems: tuple[str, ...]) -> RuntimeFacts:
    return RuntimeFacts(
        facts.version, facts.handlers, facts.supplemental_groups_policy, problems, facts.images
    )


def _image(image: m.Image) -> NodeImage:
    return NodeImage((*image.repo_digests, *image.repo_tags), image.size)
