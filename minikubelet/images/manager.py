"""Making sure that a container's image is there, by its pull policy.

Pulls of one image wait for each other, so that containers and pods that want it at the same time
cause one pull. `ahead` starts the checks and pulls of several containers at once while the earlier
ones are still being started. A cancelled caller cancels its pull. Source: images/image_manager.go.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace

import anyio

from minikubelet.api.duration import go_duration_seconds
from minikubelet.api.pod import Container, Pod
from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.services import ImageService
from minikubelet.criconfig.context import ImageInfo
from minikubelet.host.clock import Clock
from minikubelet.images import policy
from minikubelet.images.access import ImageAccess
from minikubelet.images.keyring import Credential, chosen
from minikubelet.images.name import with_default_tag
from minikubelet.images.policy import ImageProblem, ImageSettings, TokenBucket
from minikubelet.images.turns import Turns
from minikubelet.lifecycle.backoff import Backoff
from minikubelet.observe.events import NORMAL, WARNING, EventSink, PodRef


@dataclass(slots=True)
class _Slot:
    """The image of one container, looked after ahead of its start."""

    done: anyio.Event = field(default_factory=anyio.Event)
    info: ImageInfo | None = None
    problem: ImageProblem | None = None


class ImagesAhead:
    """The images of a pod's containers while `ImageManager.ahead` is open."""

    def __init__(self, slots: dict[str, _Slot]) -> None:
        self._slots = slots

    async def get(self, container: Container) -> ImageInfo:
        """Wait for one container's image; raises ImageProblem."""
        slot = self._slots[container.name]
        await slot.done.wait()
        if slot.info is None:
            raise slot.problem or ImageProblem(policy.ERR_IMAGE_PULL, "the pull was cancelled")
        return slot.info


class ImageManager:
    """Images of this node's containers."""

    def __init__(
        self,
        service: ImageService,
        events: EventSink,
        clock: Clock,
        settings: ImageSettings,
        access: ImageAccess | None = None,
    ) -> None:
        self._service = service
        self._access = access or ImageAccess()
        self._events = events
        self._clock = clock
        self._backoff = Backoff(
            settings.backoff_initial, settings.backoff_max, 2 * settings.backoff_max
        )
        self._last_problem: dict[str, str] = {}
        self._bucket = TokenBucket(settings.qps, settings.burst, float(settings.burst), 0.0)
        parallel = 1 if settings.serialize else settings.max_parallel
        self._places = anyio.Semaphore(parallel) if parallel else None
        self._turns = Turns()

    async def ensure(
        self, pod: Pod, container: Container, sandbox_config: m.PodSandboxConfig, ref: PodRef
    ) -> ImageInfo:
        """Return the image once it is there; raises ImageProblem. `ref` names the container."""
        try:
            image = with_default_tag(container.image)
        except ValueError as problem:
            text = f'Failed to apply default image tag "{container.image}": {problem}'
            self._events.emit(ref, WARNING, "InspectFailed", text)
            raise ImageProblem(policy.INVALID_IMAGE_NAME, text) from problem
        spec = m.ImageSpec(image=image, user_specified_image=container.image)
        if container.image_pull_policy == policy.ALWAYS:
            return await self._pull(pod, container, spec, sandbox_config, ref)
        present = await self._present(pod, container, spec, ref)
        if present is not None:
            return present
        async with self._turns.take(image):
            # Someone else may have pulled it while this container waited for its turn.
            present = await self._present(pod, container, spec, ref)
            if present is not None:
                return present
            return await self._pull(pod, container, spec, sandbox_config, ref)

    @asynccontextmanager
    async def ahead(
        self,
        pod: Pod,
        containers: Iterable[Container],
        sandbox_config: m.PodSandboxConfig,
        ref_of: Callable[[Container], PodRef],
    ) -> AsyncIterator[ImagesAhead]:
        """Look after the images of several containers at once; leaving cancels what isn't done."""
        wanted = list(containers)
        slots = {container.name: _Slot() for container in wanted}
        failure: Exception | None = None

        async def look_after(container: Container, slot: _Slot) -> None:
            try:
                slot.info = await self.ensure(pod, container, sandbox_config, ref_of(container))
            except ImageProblem as problem:
                slot.problem = problem
            finally:
                slot.done.set()

        async with anyio.create_task_group() as group:
            for container in wanted:
                group.start_soon(look_after, container, slots[container.name])
            try:
                yield ImagesAhead(slots)
            except Exception as error:  # noqa: BLE001  raised again below, outside the group
                failure = error
            group.cancel_scope.cancel()
        if failure is not None:
            raise failure

    def forget(self, pod_uid: str) -> None:
        """Drop the back-off of a pod that is gone."""
        for key in [key for key in self._backoff.entries if key.startswith(f"{pod_uid}_")]:
            self._backoff = self._backoff.forget(key)
            self._last_problem.pop(key, None)

    async def _present(
        self, pod: Pod, container: Container, spec: m.ImageSpec, ref: PodRef
    ) -> ImageInfo | None:
        """Return the image if it is on the node and the pod may use it without a pull.

        Under Never its absence is the end.
        """
        found = await self._inspect(container, spec, ref)
        if found is not None and not await self._access.must_pull(pod, spec.image, found.ref):
            text = (
                f'Container image "{container.image}" already present on machine and can be'
                " accessed by the pod"
            )
            self._events.emit(ref, NORMAL, "Pulled", text)
            return found
        if container.image_pull_policy == policy.NEVER:
            text = f'Container image "{container.image}" is not present with pull policy of Never'
            self._events.emit(ref, WARNING, policy.ERR_IMAGE_NEVER_PULL, text)
            raise ImageProblem(policy.ERR_IMAGE_NEVER_PULL, text)
        return None

    async def _inspect(
        self, container: Container, spec: m.ImageSpec, ref: PodRef
    ) -> ImageInfo | None:
        try:
            image = await self._service.image_status(spec)
        except CRIError as error:
            text = f'Failed to inspect image "{container.image}": {error}'
            self._events.emit(ref, WARNING, "InspectFailed", text)
            raise ImageProblem(policy.IMAGE_INSPECT_ERROR, text) from error
        return _info(image, container) if image is not None else None

    async def _pull(
        self,
        pod: Pod,
        container: Container,
        spec: m.ImageSpec,
        sandbox_config: m.PodSandboxConfig,
        ref: PodRef,
    ) -> ImageInfo:
        key = f"{pod.metadata.uid}_{container.image}"
        self._refuse_in_back_off(key, container, ref)
        self._events.emit(ref, NORMAL, "Pulling", f'Pulling image "{container.image}"')
        asked = self._clock.monotonic()
        try:
            async with self._places or nullcontext():
                began = self._clock.monotonic()
                pulled, credential = await self._pull_once(pod, spec, sandbox_config, ref)
                took = self._clock.monotonic() - began
        except _PullError as error:
            problem = self._pull_failed(key, container, str(error), ref)
            raise problem from error
        waited = self._clock.monotonic() - asked
        self._backoff = self._backoff.gc(self._clock.monotonic())
        image = await self._pulled_image(container, pulled, ref)
        await self._access.pulled(spec.image, image.id, credential)
        text = (
            f'Successfully pulled image "{container.image}" in {_milliseconds(took)}'
            f" ({_milliseconds(waited)} including waiting). Image size: {image.size} bytes."
        )
        self._events.emit(ref, NORMAL, "Pulled", text)
        return _info(image, container)

    def _refuse_in_back_off(self, key: str, container: Container, ref: PodRef) -> None:
        until = self._backoff.until(key)
        if until is None or self._clock.monotonic() >= until:
            self._last_problem.pop(key, None)
            return
        text = f'Back-off pulling image "{container.image}"'
        self._events.emit(ref, NORMAL, "BackOff", text)
        last = self._last_problem.get(key)
        raise ImageProblem(policy.IMAGE_PULL_BACK_OFF, f"{text}: {last}" if last else text)

    async def _pull_once(
        self, pod: Pod, spec: m.ImageSpec, sandbox_config: m.PodSandboxConfig, ref: PodRef
    ) -> tuple[str, Credential | None]:
        """Pull with the first login that works; without any the registry is asked as anybody."""
        granted, self._bucket = self._bucket.take(self._clock.monotonic())
        if not granted:
            raise _PullError(policy.QPS_EXCEEDED)
        logins = await self._access.logins_of(pod)
        if logins.missing:
            text = (
                f"Unable to retrieve some image pull secrets ({', '.join(logins.missing)}); "
                "attempting to pull the image may not succeed."
            )
            whole = replace(ref, field_path="")
            self._events.emit(whole, WARNING, "FailedToRetrieveImagePullSecret", text)
        errors: list[str] = []
        found: list[Credential | None] = [*chosen(logins.secrets, logins.node, spec.image)]
        for credential in found or [None]:
            auth = _auth(credential) if credential is not None else None
            try:
                pulled = await self._service.pull_image(spec, auth, sandbox_config)
            except CRIError as error:
                errors.append(policy.pull_error_text(error))
            else:
                return pulled, credential
        different = list(dict.fromkeys(errors))
        raise _PullError(different[0] if len(different) == 1 else f"[{', '.join(different)}]")

    def _pull_failed(self, key: str, container: Container, text: str, ref: PodRef) -> ImageProblem:
        now = self._clock.monotonic()
        self._backoff = self._backoff.next(key, now)
        message = f'Failed to pull image "{container.image}": {text}'
        self._events.emit(ref, WARNING, "Failed", message)
        problem = policy.pull_problem(container.image, text)
        self._last_problem[key] = str(problem)
        return problem

    async def _pulled_image(self, container: Container, pulled: str, ref: PodRef) -> m.Image:
        """Return the image just pulled; its USER and size are known only to the runtime."""
        try:
            found = await self._service.image_status(m.ImageSpec(image=pulled))
        except CRIError as error:
            text = f'Failed to inspect image "{container.image}": {error}'
            self._events.emit(ref, WARNING, "InspectFailed", text)
            raise ImageProblem(policy.IMAGE_INSPECT_ERROR, text) from error
        return found if found is not None else m.Image(id=pulled)


class _PullError(Exception):
    """A pull failed; the text is what people see."""


def _auth(credential: Credential) -> m.AuthConfig:
    return m.AuthConfig(
        username=credential.username,
        password=credential.password,
        identity_token=credential.identity_token,
    )


def _info(image: m.Image, container: Container) -> ImageInfo:
    uid = image.uid.value if image.HasField("uid") else None
    return ImageInfo(image.id, uid, image.username, container.image)


def _milliseconds(seconds: float) -> str:
    return go_duration_seconds(int(seconds * 1000) / 1000)
