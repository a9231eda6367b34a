from collections.abc import Iterable
from typing import Any

import anyio
import pytest

from minikubelet.api.pod import Pod
from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.fake_images import FakeImages
from minikubelet.cri.fake_script import Script
from minikubelet.criconfig.context import ImageInfo
from minikubelet.host.clock import SystemClock
from minikubelet.images.manager import ImageManager
from minikubelet.images.policy import ImageProblem, ImageSettings
from minikubelet.observe.events import PodRef
from tests.builders import a_container, a_pod

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(simulated_backend: tuple[str, dict[str, object]]) -> Any:
    return simulated_backend


class Seen:
    """An event sink that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[str, str, str]] = []

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        self.events.append((type_, reason, message))

    @property
    def reasons(self) -> list[str]:
        return [reason for _, reason, _ in self.events]


class World:
    """An image manager before a fake runtime."""

    def __init__(
        self,
        local: Iterable[str] = (),
        registry: Iterable[str] | None = None,
        **settings: Any,
    ) -> None:
        self.script = Script()
        self.images = FakeImages(self.script, local, registry)
        self.seen = Seen()
        self.manager = ImageManager(
            self.images, self.seen, SystemClock(), ImageSettings(**settings)
        )

    async def ensure(
        self, image: str = "busybox:1", policy: str = "IfNotPresent", **pod: Any
    ) -> ImageInfo:
        a = a_pod(a_container(image=image, imagePullPolicy=policy), **pod)
        return await self.manager.ensure(a, a.spec.containers[0], m.PodSandboxConfig(), ref_of(a))

    async def problem(self, *args: Any, **kwargs: Any) -> ImageProblem:
        with pytest.raises(ImageProblem) as caught:
            await self.ensure(*args, **kwargs)
        return caught.value


def ref_of(pod: Pod) -> PodRef:
    return PodRef("default", pod.metadata.name, pod.metadata.uid, "spec.containers{c}")


@pytest.mark.parametrize("policy", ["IfNotPresent", "Never"])
async def test_a_present_image_is_used(policy: str) -> None:
    world = World(local=["busybox:1"])
    world.images.add("busybox:1", uid=7)
    assert await world.ensure(policy=policy) == ImageInfo("sha256:busybox:1", 7, "", "busybox:1")
    assert world.seen.events == [
        (
            "Normal",
            "Pulled",
            'Container image "busybox:1" already present on machine and can be accessed by the pod',
        )
    ]
    assert world.script.count("PullImage") == 0


async def test_an_absent_image_is_pulled() -> None:
    world = World(registry=["busybox:1"])
    world.script.inject("PullImage", 2.5)
    assert (await world.ensure()).ref == "sha256:busybox:1"
    assert world.seen.events == [
        ("Normal", "Pulling", 'Pulling image "busybox:1"'),
        (
            "Normal",
            "Pulled",
            (
                'Successfully pulled image "busybox:1" in 2.5s (2.5s including waiting).'
                " Image size: 1000000 bytes."
            ),
        ),
    ]


async def test_always_pulls_what_is_present() -> None:
    world = World(local=["busybox:1"])
    await world.ensure(policy="Always")
    assert world.script.count("PullImage") == 1


async def test_never_does_not_pull() -> None:
    world = World()
    problem = await world.problem(policy="Never")
    text = 'Container image "busybox:1" is not present with pull policy of Never'
    assert (problem.reason, problem.message) == ("ErrImageNeverPull", text)
    assert world.seen.events == [("Warning", "ErrImageNeverPull", text)]


async def test_a_name_that_is_none() -> None:
    world = World()
    problem = await world.problem("Busy Box")
    assert problem.reason == "InvalidImageName"
    assert world.seen.reasons == ["InspectFailed"]


async def test_a_runtime_that_does_not_answer_the_inspection() -> None:
    world = World()
    world.script.inject("ImageStatus", CRIError("ImageStatus", "Internal", "broken"))
    problem = await world.problem()
    assert problem.reason == "ImageInspectError"
    assert world.seen.events == [
        (
            "Warning",
            "InspectFailed",
            'Failed to inspect image "busybox:1": rpc error: code = Internal desc = broken',
        )
    ]


FAILURE = 'rpc error: code = NotFound desc = failed to pull and unpack image "busybox:1": not found'


async def test_failed_pulls_back_off_and_remember_why() -> None:
    world = World(registry=[])
    first = await world.problem()
    assert (first.reason, first.message) == ("ErrImagePull", FAILURE)
    assert world.seen.events[-1] == (
        "Warning",
        "Failed",
        f'Failed to pull image "busybox:1": {FAILURE}',
    )
    await anyio.sleep(9.9)
    waiting = await world.problem()
    assert (waiting.reason, waiting.message) == (
        "ImagePullBackOff",
        f'Back-off pulling image "busybox:1": ErrImagePull: {FAILURE}',
    )
    assert world.seen.events[-1] == ("Normal", "BackOff", 'Back-off pulling image "busybox:1"')
    assert world.script.count("PullImage") == 1
    await anyio.sleep(0.1)
    assert (await world.problem()).reason == "ErrImagePull"
    await anyio.sleep(19)
    assert (await world.problem()).reason == "ImagePullBackOff"
    world.images.registry = None
    await anyio.sleep(1)
    assert (await world.ensure()).ref == "sha256:busybox:1"


async def test_back_off_grows_to_its_maximum() -> None:
    world = World(registry=[], qps=0)
    waits = []
    for _ in range(7):
        began = anyio.current_time()
        # A worker asks again just so; there is no event to wait for.
        while (await world.problem()).reason == "ImagePullBackOff":  # noqa: ASYNC110
            await anyio.sleep(1)
        waits.append(anyio.current_time() - began)
    assert waits == [0, 10, 20, 40, 80, 160, 300]


async def test_back_off_belongs_to_pod_and_image() -> None:
    world = World(registry=["other:1"])
    await world.problem()
    assert (await world.problem(uid="uid-2")).reason == "ErrImagePull"
    await world.ensure("other:1")
    world.manager.forget("uid-1")
    assert (await world.problem()).reason == "ErrImagePull"
    assert (await world.problem(uid="uid-2")).reason == "ImagePullBackOff"


async def test_too_many_pulls_fail_at_once() -> None:
    world = World(qps=1, burst=2)
    for n in range(2):
        await world.ensure(f"image:{n}")
    problem = await world.problem("image:2")
    assert (problem.reason, problem.message) == ("ErrImagePull", "pull QPS exceeded")
    await anyio.sleep(1)
    await world.ensure("image:3")


async def pull_times(world: World, images: list[str]) -> list[float]:
    ends = []

    async def one(image: str) -> None:
        await world.ensure(image, uid=f"uid-{image}")
        ends.append(anyio.current_time() - began)

    for n in range(len(images)):
        world.script.inject("PullImage", 10.0, nth=n + 1)
    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        for image in images:
            group.start_soon(one, image)
    return ends


@pytest.mark.parametrize(
    ("settings", "ends"),
    [
        ({}, [10, 20, 30, 40]),
        ({"serialize": False}, [10, 10, 10, 10]),
        ({"serialize": False, "max_parallel": 2}, [10, 10, 20, 20]),
    ],
)
async def test_pulls_in_turn_or_at_once(settings: dict[str, Any], ends: list[float]) -> None:
    world = World(**settings)
    assert await pull_times(world, ["a:1", "b:1", "c:1", "d:1"]) == ends


async def test_one_image_wanted_twice_is_pulled_once() -> None:
    world = World(serialize=False)
    assert await pull_times(world, ["a:1", "a:1"]) == [10, 10]
    assert world.script.count("PullImage") == 1


async def test_waiting_for_a_turn_counts_as_waiting() -> None:
    world = World()
    await pull_times(world, ["a:1", "b:1"])
    assert "in 10s (20s including waiting)." in world.seen.events[-1][2]


async def test_B66_images_run_ahead_of_the_containers() -> None:
    world = World(serialize=False)
    containers = [a_container(name, image=f"{name}:1") for name in "abcd"]
    for n in range(4):
        world.script.inject("PullImage", 10.0, nth=n + 1)
    pod = a_pod(*containers)
    began = anyio.current_time()
    async with world.manager.ahead(
        pod, pod.spec.containers, m.PodSandboxConfig(), lambda _: ref_of(pod)
    ) as ahead:
        refs = [(await ahead.get(container)).ref for container in pod.spec.containers]
    assert refs == [f"sha256:{name}:1" for name in "abcd"]
    assert anyio.current_time() - began == 10


async def test_ahead_each_container_hears_of_its_own_problem() -> None:
    world = World(registry=["good:1"])
    pod = a_pod(a_container("x", image="bad:1"), a_container("y", image="good:1"))
    bad, good = pod.spec.containers
    async with world.manager.ahead(
        pod, pod.spec.containers, m.PodSandboxConfig(), lambda _: ref_of(pod)
    ) as ahead:
        with pytest.raises(ImageProblem):
            await ahead.get(bad)
        assert (await ahead.get(good)).ref == "sha256:good:1"


async def test_leaving_ahead_cancels_and_passes_errors_on() -> None:
    world = World()
    world.script.inject("PullImage", 1000.0)
    pod = a_pod(a_container(image="slow:1"))
    began = anyio.current_time()

    async def break_off() -> None:
        async with world.manager.ahead(
            pod, pod.spec.containers, m.PodSandboxConfig(), lambda _: ref_of(pod)
        ):
            await anyio.sleep(1)
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        await break_off()
    assert anyio.current_time() - began == 1
    world.script.inject("PullImage", 0.0)
    await world.ensure("slow:1")
