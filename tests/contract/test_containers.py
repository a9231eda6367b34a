"""Containers: their states in order, names, ends, commands run in them."""

import anyio
import pytest

from minikubelet.cri import messages as m
from minikubelet.cri.errors import AlreadyExists, CRIError, DeadlineExceeded, NotFound
from tests.contract.conftest import MISSING, SLEEP, STUBBORN, Harness

pytestmark = pytest.mark.anyio

UNKNOWN = "f" * 64


async def test_a_container_goes_through_its_states(harness: Harness) -> None:
    sandbox_id = await harness.sandbox()
    container_id = await harness.create(sandbox_id, "exit 3", attempt=1)
    created = await harness.runtime.container_status(container_id)
    assert (created.state, created.started_at, created.finished_at) == (m.CONTAINER_CREATED, 0, 0)
    assert (created.metadata.name, created.metadata.attempt) == ("c", 1)
    assert created.labels == {"name": "c"}
    assert created.annotations == {"note": "kept, too"}
    assert created.log_path == f"{harness.logs}/c-1.log"
    await harness.runtime.start_container(container_id)
    ended = await harness.exited(container_id)
    assert (ended.exit_code, ended.reason) == (3, "Error")
    assert 0 < ended.created_at <= ended.started_at
    # containerd notes the start after the fact: a short process may have "finished" before it.
    assert ended.created_at <= ended.finished_at


async def test_a_good_end_is_completed(harness: Harness) -> None:
    ended = await harness.exited(await harness.start("exit 0"))
    assert (ended.exit_code, ended.reason) == (0, "Completed")


async def test_lists_are_filtered_by_all_that_is_given(harness: Harness) -> None:
    sandbox_id = await harness.sandbox()
    one = await harness.start(SLEEP, sandbox_id, "one")
    two = await harness.create(sandbox_id, SLEEP, "two")

    async def ids(**filters: object) -> set[str]:
        found = await harness.runtime.list_containers(**filters)  # type: ignore[arg-type]  # varied
        return {each.id for each in found} & {one, two}

    assert await ids() == {one, two}
    assert await ids(id=two) == {two}
    assert await ids(pod_sandbox_id=sandbox_id, state=m.CONTAINER_RUNNING) == {one}
    assert await ids(label_selector={"name": "two"}) == {two}
    assert await ids(pod_sandbox_id=UNKNOWN) == set()


async def test_a_taken_name_is_told_from_other_failures(harness: Harness) -> None:
    sandbox_id = await harness.sandbox()
    container_id = await harness.create(sandbox_id, SLEEP)
    with pytest.raises(AlreadyExists, match=r'name "c_pod_ns_.*_0" is reserved for'):
        await harness.create(sandbox_id, SLEEP)
    await harness.create(sandbox_id, SLEEP, attempt=1)
    await harness.runtime.remove_container(container_id)
    await harness.create(sandbox_id, SLEEP)


async def test_only_a_created_container_starts(harness: Harness) -> None:
    running = await harness.start(SLEEP)
    with pytest.raises(CRIError, match="container is in CONTAINER_RUNNING state"):
        await harness.runtime.start_container(running)
    with pytest.raises(NotFound):
        await harness.runtime.start_container(UNKNOWN)


async def test_a_program_that_is_missing_leaves_an_exited_container(harness: Harness) -> None:
    sandbox_id = await harness.sandbox()
    container_id = await harness.create(sandbox_id, MISSING)
    with pytest.raises(CRIError, match="no such file or directory"):
        await harness.runtime.start_container(container_id)
    status = await harness.runtime.container_status(container_id)
    assert (status.state, status.exit_code, status.reason) == (
        m.CONTAINER_EXITED,
        128,
        "StartError",
    )
    assert MISSING in status.message


async def test_creation_needs_a_sandbox_and_an_image(harness: Harness) -> None:
    with pytest.raises(NotFound):
        await harness.create(UNKNOWN, SLEEP)
    sandbox_id = await harness.sandbox()
    config = harness.container_config(SLEEP)
    config.image.image = "localhost/no/such:1"
    with pytest.raises(NotFound):
        await harness.runtime.create_container(sandbox_id, config, harness.sandbox_config())


@pytest.mark.parametrize(
    ("script", "timeout", "code", "least", "most"),
    [
        pytest.param(SLEEP, 20, 0, 0, 5, id="heeds TERM"),
        pytest.param(STUBBORN, 1, 137, 1, 6, id="ignores TERM"),
        pytest.param(STUBBORN, 0, 137, 0, 5, id="no grace"),
    ],
)
async def test_stop_waits_for_the_process_or_kills_it(
    harness: Harness, script: str, timeout: int, code: int, least: float, most: float
) -> None:
    container_id = await harness.start(script)
    await anyio.sleep(0.3)  # the shell sets its trap
    before = anyio.current_time()
    await harness.runtime.stop_container(container_id, timeout)
    assert least <= anyio.current_time() - before < most
    assert (await harness.exited(container_id)).exit_code == code
    await harness.runtime.stop_container(container_id, timeout)


async def test_a_shorter_second_stop_overtakes_the_first(harness: Harness) -> None:
    container_id = await harness.start(STUBBORN)
    await anyio.sleep(0.3)
    with anyio.fail_after(15):
        with anyio.move_on_after(0.5):
            await harness.runtime.stop_container(container_id, 1000)
        await harness.runtime.stop_container(container_id, 1)
        assert (await harness.exited(container_id)).exit_code == 137


async def test_unknown_ids_are_success_for_ending_and_not_found_for_asking(
    harness: Harness,
) -> None:
    await harness.runtime.stop_container(UNKNOWN, 1)
    await harness.runtime.remove_container(UNKNOWN)
    with pytest.raises(NotFound):
        await harness.runtime.container_status(UNKNOWN)


async def test_removal_kills(harness: Harness) -> None:
    container_id = await harness.start(SLEEP)
    for _ in range(2):
        await harness.runtime.remove_container(container_id)
    with pytest.raises(NotFound):
        await harness.runtime.container_status(container_id)


async def test_a_command_gives_its_code_and_output(harness: Harness) -> None:
    container_id = await harness.start(SLEEP)
    command = ["/bin/sh", "-c", "echo out; echo err >&2; exit 4"]
    result = await harness.runtime.exec_sync(container_id, command, 10)
    assert (result.exit_code, result.stdout, result.stderr) == (4, b"out\n", b"err\n")


async def test_a_command_that_takes_too_long_is_cut_off(harness: Harness) -> None:
    container_id = await harness.start(SLEEP)
    before = anyio.current_time()
    with pytest.raises(DeadlineExceeded):
        await harness.runtime.exec_sync(container_id, ["/bin/sh", "-c", "sleep 100"], 1)
    assert 1 <= anyio.current_time() - before < 10


async def test_no_command_runs_in_a_dead_container(harness: Harness) -> None:
    container_id = await harness.start("exit 0")
    await harness.exited(container_id)
    with pytest.raises(CRIError, match="container is in CONTAINER_EXITED state"):
        await harness.runtime.exec_sync(container_id, ["/bin/sh", "-c", "true"], 10)
