"""Images through CRI: pull policies, back-off and its words, serial and parallel pulls."""

from collections.abc import AsyncIterator, Iterator

import anyio
import pytest

from minikubelet.cri import messages as m
from tests.containerds import Containerd
from tests.e2e.agent import Agent, a_manifest, a_shell
from tests.e2e.registry import Registry, a_registry

pytestmark = pytest.mark.anyio

SLEEP = "trap 'exit 0' TERM; while :; do sleep 0.2; done"


@pytest.fixture
def registry(containerd: Containerd) -> Iterator[Registry]:
    with a_registry() as registry:
        registry.trust(containerd.folder)
        yield registry


@pytest.fixture(autouse=True)
async def no_images_left(agent: Agent) -> AsyncIterator[None]:
    yield
    for image in await agent.client.images.list_images():
        if any(tag.startswith("127.0.0.1:") for tag in image.repo_tags):
            await agent.client.images.remove_image(m.ImageSpec(image=image.id))


def a_pod(name: str, image: str, policy: str) -> dict[str, object]:
    return a_manifest(
        name,
        a_shell("main", SLEEP, image=image, imagePullPolicy=policy),
        terminationGracePeriodSeconds=1,
    )


async def runs(agent: Agent, pod: str) -> None:
    async def running() -> bool:
        return await agent.running(pod) == ["main"]

    await agent.wait_until(f"{pod} runs", running)


async def test_always_asks_the_registry_and_if_not_present_only_once(
    agent: Agent, registry: Registry
) -> None:
    await agent.start()
    agent.write("one.yaml", a_pod("one", registry.image("a"), "IfNotPresent"))
    await runs(agent, "one")
    agent.write("two.yaml", a_pod("two", registry.image("a"), "IfNotPresent"))
    await runs(agent, "two")
    assert registry.pulls == ["a"]
    agent.write("three.yaml", a_pod("three", registry.image("a"), "Always"))
    await runs(agent, "three")
    assert registry.pulls == ["a", "a"]
    status = await agent.container_status("one", "main")
    assert status["image"] == registry.image("a")


async def test_a_missing_image_backs_off_in_the_kubelets_words_and_recovers(
    agent: Agent, registry: Registry
) -> None:
    registry.missing.add("late")
    image = registry.image("late")
    await agent.start()
    agent.write("web.yaml", a_pod("web", image, "IfNotPresent"))
    await agent.wait_until("it failed", lambda: agent.waits("web", "main", "ErrImagePull"))
    await agent.wait_until("it waits", lambda: agent.waits("web", "main", "ImagePullBackOff"))
    waiting = (await agent.container_status("web", "main"))["state"]["waiting"]
    assert waiting["message"].startswith(f'Back-off pulling image "{image}": ErrImagePull: ')
    registry.missing.clear()
    await runs(agent, "web")


async def test_a_long_pull_hides_no_address(agent: Agent, registry: Registry) -> None:
    registry.gate.clear()
    await agent.start()
    agent.write("web.yaml", a_pod("web", registry.image("slow"), "Always"))

    async def has_an_address() -> bool:
        return "podIP" in await agent.status("web")

    await agent.wait_until("its address is shown", has_an_address)
    status = await agent.status("web")
    ready = {c["type"]: c["status"] for c in status["conditions"]}["PodReadyToStartContainers"]
    assert (status["phase"], ready) == ("Pending", "True")
    registry.gate.set()
    await runs(agent, "web")


async def test_never_does_not_ask(agent: Agent, registry: Registry) -> None:
    await agent.start()
    agent.write("web.yaml", a_pod("web", registry.image("absent"), "Never"))
    await agent.wait_until("it is told", lambda: agent.waits("web", "main", "ErrImageNeverPull"))
    assert registry.pulls == []


async def test_an_invalid_name_is_told(agent: Agent) -> None:
    await agent.start()
    agent.write("web.yaml", a_pod("web", "Not A Name", "IfNotPresent"))
    await agent.wait_until("it is told", lambda: agent.waits("web", "main", "InvalidImageName"))


async def test_B66_containers_that_wait_for_one_image_cause_one_pull(
    agent: Agent, registry: Registry
) -> None:
    await agent.start()
    image = registry.image("shared")
    names = ("a", "b", "c", "d")
    containers = [a_shell(name, SLEEP, image=image) for name in names]
    agent.write("web.yaml", a_manifest("web", *containers, terminationGracePeriodSeconds=1))

    async def running() -> bool:
        return await agent.running("web") == list(names)

    await agent.wait_until("all run", running)
    assert registry.pulls == ["shared"]


@pytest.mark.parametrize("serial", [True, False], ids=["serial", "parallel"])
async def test_pulls_of_different_images(agent: Agent, registry: Registry, serial: bool) -> None:
    registry.delay = 1.0
    agent.settings = {"serializeImagePulls": serial}
    await agent.start()
    async with anyio.create_task_group() as group:
        for name in ("x", "y", "z"):
            agent.write(f"{name}.yaml", a_pod(name, registry.image(name), "Always"))
            group.start_soon(runs, agent, name)
    assert sorted(registry.pulls) == ["x", "y", "z"]
    assert (registry.at_once == 1) is serial
