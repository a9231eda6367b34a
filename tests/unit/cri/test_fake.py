"""What the in-memory runtime adds to a real one: plans, records, late answers, bad streams."""

from collections import Counter

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.errors import AlreadyExists, CRIError, DeadlineExceeded, NotFound, Unavailable
from minikubelet.cri.fake import NEVER, EventPolicy, FakeRuntime, Program
from minikubelet.cri.services import EventKind, RuntimeEvent

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(
    simulated_backend: tuple[str, dict[str, object]],
) -> tuple[str, dict[str, object]]:
    return simulated_backend


def sandbox_config(uid: str = "u1", attempt: int = 0) -> m.PodSandboxConfig:
    metadata = m.PodSandboxMetadata(name="p", namespace="ns", uid=uid, attempt=attempt)
    return m.PodSandboxConfig(metadata=metadata, log_directory="/logs")


def container_config(name: str = "c", attempt: int = 0) -> m.ContainerConfig:
    return m.ContainerConfig(
        metadata=m.ContainerMetadata(name=name, attempt=attempt),
        image=m.ImageSpec(image="i"),
        log_path="c/0.log",
    )


async def start_one(fake: FakeRuntime, name: str = "c") -> str:
    sandbox_id = await fake.run_pod_sandbox(sandbox_config(uid=f"uid-of-{name}"))
    container_id = await fake.create_container(sandbox_id, container_config(name), sandbox_config())
    await fake.start_container(container_id)
    return container_id


async def test_a_program_ends_at_its_own_time_with_its_code() -> None:
    fake = FakeRuntime(on_start=lambda _config: Program(exit_code=3, runs_for=600))
    container_id = await start_one(fake)
    await anyio.sleep(599)
    assert (await fake.container_status(container_id)).state == m.CONTAINER_RUNNING
    await anyio.sleep(2)
    status = await fake.container_status(container_id)
    assert (status.state, status.exit_code, status.reason) == (m.CONTAINER_EXITED, 3, "Error")
    assert status.log_path == "/logs/c/0.log"


@pytest.mark.parametrize(
    ("term_takes", "timeout", "waited", "code"),
    [
        pytest.param(5, 30, 5, 143, id="heeds TERM"),
        pytest.param(NEVER, 30, 30, 137, id="ignores TERM"),
        pytest.param(5, 2, 2, 137, id="too slow"),
        pytest.param(5, 0, 0, 137, id="no grace"),
    ],
)
async def test_stop_waits_for_the_process_or_kills_it(
    term_takes: float, timeout: int, waited: float, code: int
) -> None:
    fake = FakeRuntime(on_start=lambda _config: Program(term_takes=term_takes))
    container_id = await start_one(fake)
    before = anyio.current_time()
    await fake.stop_container(container_id, timeout)
    assert anyio.current_time() - before == pytest.approx(waited)
    assert (await fake.container_status(container_id)).exit_code == code


async def test_a_cancelled_stop_has_sent_its_signal() -> None:
    fake = FakeRuntime(on_start=lambda _config: Program(term_takes=10))
    container_id = await start_one(fake)
    with anyio.move_on_after(1):
        await fake.stop_container(container_id, 30)
    await anyio.sleep(9.5)
    assert fake.running() == []


async def test_a_shorter_second_stop_overtakes_the_first() -> None:
    fake = FakeRuntime(on_start=lambda _config: Program(term_takes=NEVER))
    container_id = await start_one(fake)
    async with anyio.create_task_group() as group:
        group.start_soon(fake.stop_container, container_id, 1000)
        await anyio.sleep(1)
        await fake.stop_container(container_id, 2)
    assert anyio.current_time() == pytest.approx(3)


async def test_the_nth_call_fails_before_or_after_its_effect() -> None:
    fake = FakeRuntime()
    refused = CRIError("RunPodSandbox", "Unknown", "no network")
    fake.script.inject("RunPodSandbox", refused, nth=2)
    fake.script.inject("RunPodSandbox", refused, nth=3, when="after")
    await fake.run_pod_sandbox(sandbox_config("u1"))
    for uid in ("u2", "u3"):
        with pytest.raises(CRIError, match="no network"):
            await fake.run_pod_sandbox(sandbox_config(uid))
    assert {each.metadata.uid for each in await fake.list_pod_sandbox()} == {"u1", "u3"}
    assert fake.script.count("RunPodSandbox") == 3
    await fake.run_pod_sandbox(sandbox_config("u2"))  # its name was let go


async def test_a_late_answer_takes_effect_and_holds_the_name_meanwhile() -> None:
    fake = FakeRuntime()
    fake.script.inject("RunPodSandbox", 300.0)
    with pytest.raises(DeadlineExceeded):
        await fake.run_pod_sandbox(sandbox_config())
    assert anyio.current_time() == pytest.approx(240)
    with pytest.raises(AlreadyExists, match="is reserved for"):
        await fake.run_pod_sandbox(sandbox_config())
    assert await fake.list_pod_sandbox() == []
    await anyio.sleep(61)
    assert len(await fake.list_pod_sandbox()) == 1


async def test_a_start_that_fails_leaves_an_exited_container() -> None:
    def refuse(_config: m.ContainerConfig) -> None:
        raise CRIError("StartContainer", "Unknown", "exec: not found")

    fake = FakeRuntime(on_start=refuse)
    with pytest.raises(CRIError, match="exec: not found"):
        await start_one(fake)
    status = await fake.container_status(fake.named("c")[0].id)
    assert (status.exit_code, status.reason, status.message) == (
        128,
        "StartError",
        "exec: not found",
    )


async def test_reboot_ends_everything_with_an_unknown_code() -> None:
    fake = FakeRuntime()
    container_id = await start_one(fake)
    fake.reboot()
    status = await fake.container_status(container_id)
    assert (status.state, status.exit_code, status.reason) == (m.CONTAINER_EXITED, 255, "Unknown")
    assert [each.state for each in await fake.list_pod_sandbox()] == [m.SANDBOX_NOTREADY]


async def test_a_stopped_runtime_is_unavailable_and_its_streams_break() -> None:
    fake = FakeRuntime()
    await start_one(fake)
    async with fake.subscribe() as stream:
        fake.stop_runtime()
        with pytest.raises(Unavailable):
            await anext(stream)
    with pytest.raises(Unavailable):
        await fake.version()
    fake.start_runtime()
    assert fake.running() == ["c"]
    await fake.version()


async def collect(fake: FakeRuntime, rounds: int) -> list[RuntimeEvent]:
    """Events of `rounds` containers that are started and removed, until none came for a minute."""
    events: list[RuntimeEvent] = []
    async with fake.subscribe() as stream:
        for number in range(rounds):
            container_id = await start_one(fake, f"c{number}")
            await fake.remove_container(container_id)
        with anyio.move_on_after(60):
            async for event in stream:
                events.append(event)  # noqa: PERF401  the loop ends by its scope
    return events


async def test_events_come_in_order_by_default() -> None:
    kinds = [event.kind for event in await collect(FakeRuntime(), 1)]
    both = [EventKind.CREATED, EventKind.STARTED]
    assert kinds == [*both, *both, EventKind.STOPPED, EventKind.DELETED]


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        pytest.param(EventPolicy(seed=1, dropped=1), "none", id="all lost"),
        pytest.param(EventPolicy(seed=1, doubled=1), "twice", id="all doubled"),
        pytest.param(EventPolicy(seed=1, delay_max=5), "shuffled", id="reordered"),
    ],
)
async def test_events_suffer_what_the_policy_says(policy: EventPolicy, expected: str) -> None:
    def key(event: RuntimeEvent) -> tuple[str, str]:
        return (event.kind.value, event.container_id)

    good = [key(event) for event in await collect(FakeRuntime(), 5)]
    seen = [key(event) for event in await collect(FakeRuntime(events=policy), 5)]
    if expected == "none":
        assert seen == []
    elif expected == "twice":
        assert Counter(seen) == Counter(good + good)
    else:
        assert seen != good
        assert Counter(seen) == Counter(good)


async def test_events_may_not_know_their_pod() -> None:
    fake = FakeRuntime(events=EventPolicy(with_pod_uid=False))
    assert {event.pod_uid for event in await collect(fake, 1)} == {""}


async def test_images_are_found_only_when_present_and_pulled_only_when_known() -> None:
    fake = FakeRuntime(images=["a:1"], registry=["i"])
    assert await fake.images.image_status(m.ImageSpec(image="b:1")) is None
    with pytest.raises(NotFound):
        await fake.images.pull_image(m.ImageSpec(image="b:1"), None, sandbox_config())
    with pytest.raises(NotFound, match='failed to resolve image "i"'):
        await start_one(fake)
    await fake.images.pull_image(m.ImageSpec(image="i"), None, sandbox_config())
    await start_one(fake, "second")
    await fake.images.remove_image(m.ImageSpec(image="i"))
    assert [image.id for image in await fake.images.list_images()] == ["sha256:a:1"]
