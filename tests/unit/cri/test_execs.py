import anyio
import pytest

from minikubelet.cri.errors import CRIError, DeadlineExceeded
from minikubelet.cri.execs import DRAIN_SECONDS, Execs
from minikubelet.cri.fake import NEVER, Exec, FakeRuntime
from tests.unit.pleg.test_monitor import a_container

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(simulated_backend: object) -> object:
    return simulated_backend


async def test_B57_a_command_ends_with_its_process_though_a_child_keeps_the_pipes() -> None:
    fake = FakeRuntime()
    container_id = await a_container(fake)
    fake.on_exec = lambda _config, _command: Exec(takes=NEVER)
    execs = Execs(fake)
    began = anyio.current_time()
    async with anyio.create_task_group() as group:

        async def exit_soon() -> None:
            await anyio.sleep(3)
            execs.exited(container_id, 5)

        group.start_soon(exit_soon)
        with anyio.fail_after(60):
            reply = await execs.run(container_id, ["sh", "-c", "sleep 999 &"], 0)
    assert reply.exit_code == 5
    assert anyio.current_time() - began == pytest.approx(3 + DRAIN_SECONDS)


async def test_the_answer_of_the_runtime_counts_when_it_comes() -> None:
    fake = FakeRuntime()
    container_id = await a_container(fake)
    fake.on_exec = lambda _config, _command: Exec(exit_code=2, stdout=b"out", takes=1)
    execs = Execs(fake)
    reply = await execs.run(container_id, ["x"], 0)
    assert (reply.exit_code, reply.stdout) == (2, b"out")


async def test_errors_pass_through_plain() -> None:
    execs = Execs(FakeRuntime())
    with pytest.raises(CRIError):
        await execs.run("nobody", ["x"], 0)


async def test_two_commands_at_once_are_not_mixed_up() -> None:
    fake = FakeRuntime()
    container_id = await a_container(fake)
    fake.on_exec = lambda _config, _command: Exec(takes=20)
    execs = Execs(fake)
    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        for _ in range(2):
            group.start_soon(execs.run, container_id, ["x"], 0)
        await anyio.sleep(1)
        execs.exited(container_id, 1)
    assert anyio.current_time() - began == pytest.approx(20)


async def test_a_synchronous_command_is_waited_for_with_its_children() -> None:
    fake = FakeRuntime()
    container_id = await a_container(fake)
    fake.on_exec = lambda _config, _command: Exec(takes=NEVER)
    execs = Execs(fake)
    began = anyio.current_time()

    async def exit_soon() -> None:
        await anyio.sleep(1)
        execs.exited(container_id, 0)

    async with anyio.create_task_group() as group:
        group.start_soon(execs.run, container_id, ["y"], 0)
        await anyio.sleep(1)
        # Two commands run: nobody knows whose exit this is.
        group.start_soon(exit_soon)
        with pytest.raises(DeadlineExceeded):
            await execs.sync(container_id, ["x"], 5)
        group.cancel_scope.cancel()
    assert anyio.current_time() - began == pytest.approx(6)
