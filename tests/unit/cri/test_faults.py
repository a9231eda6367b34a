"""The meaning of MINIKUBELET_FAULTS, and that faults strike at the named call only."""

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.fake import FakeRuntime
from minikubelet.cri.faults import FaultPoint, Faults, parse


@pytest.fixture
def anyio_backend(
    simulated_backend: tuple[str, dict[str, object]],
) -> tuple[str, dict[str, object]]:
    return simulated_backend


class Killed(Exception):
    pass


def killed() -> None:
    raise Killed


def sandbox_config() -> m.PodSandboxConfig:
    return m.PodSandboxConfig(metadata=m.PodSandboxMetadata(name="p", uid="u"))


def test_entries_are_read_in_order() -> None:
    points, errors = parse("after:CreateContainer:2, delay-before:RunPodSandbox:1:2.5,")
    assert errors == ()
    assert points == (
        FaultPoint(after=True, call="CreateContainer", number=2),
        FaultPoint(after=False, call="RunPodSandbox", number=1, seconds=2.5),
    )


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param("during:StopContainer:1", "expected before|after", id="unknown moment"),
        pytest.param("before:StopContainer", "expected before|after", id="no count"),
        pytest.param("before:Stop:1", "no CRI call", id="unknown call"),
        pytest.param("before:StopContainer:0", "from 1", id="zero"),
        pytest.param("before:StopContainer:x", "from 1", id="no number"),
        pytest.param("delay-after:StopContainer:1", "expected before|after", id="no delay"),
        pytest.param("delay-after:StopContainer:1:soon", "no number of seconds", id="bad delay"),
        pytest.param("delay-after:StopContainer:1:-1", "no number of seconds", id="negative"),
    ],
)
def test_a_bad_entry_is_named_and_the_good_ones_are_kept(text: str, word: str) -> None:
    points, errors = parse(f"{text},after:StopContainer:1")
    assert len(points) == 1
    assert len(errors) == 1
    assert repr(text) in errors[0]
    assert word in errors[0]


@pytest.mark.anyio
@pytest.mark.parametrize("moment", ["before", "after"])
async def test_the_process_ends_around_the_nth_call(moment: str) -> None:
    fake = FakeRuntime()
    points, _ = parse(f"{moment}:RunPodSandbox:2")
    runtime = Faults(points, kill=killed).wrap(fake)
    await runtime.remove_pod_sandbox(await runtime.run_pod_sandbox(sandbox_config()))
    with pytest.raises(Killed):
        await runtime.run_pod_sandbox(sandbox_config())
    assert len(fake.sandboxes) == (1 if moment == "after" else 0)


@pytest.mark.anyio
async def test_a_delay_delays_and_goes_on() -> None:
    points, _ = parse("delay-before:Version:1:20,delay-after:ListImages:1:30")
    faults = Faults(points, kill=killed)
    fake = FakeRuntime()
    await faults.wrap(fake).version()
    assert anyio.current_time() == pytest.approx(20)
    await faults.wrap(fake.images).list_images()
    assert anyio.current_time() == pytest.approx(50)
    await faults.wrap(fake).version()
    assert anyio.current_time() == pytest.approx(50)


def test_without_faults_nothing_is_wrapped() -> None:
    fake = FakeRuntime()
    assert Faults(()).wrap(fake) is fake
