import anyio
import pytest

from minikubelet.agent.tended import CRASH_DELAY, tended

pytestmark = pytest.mark.anyio


async def test_a_part_that_crashes_starts_anew_and_harms_no_other() -> None:
    begun: list[float] = []

    async def crashes_twice() -> None:
        begun.append(anyio.current_time())
        if len(begun) < 3:
            async with anyio.create_task_group():
                raise KeyError("what nobody foresaw")

    began = anyio.current_time()
    async with anyio.create_task_group() as group:
        group.start_soon(tended, "part", crashes_twice)
        group.start_soon(anyio.sleep, 60)
    assert [round(second - began) for second in begun] == [0, CRASH_DELAY, 2 * CRASH_DELAY]


async def test_a_part_ends_with_the_agent() -> None:
    async with anyio.create_task_group() as group:
        group.start_soon(tended, "part", anyio.sleep_forever)
        await anyio.sleep(1)
        group.cancel_scope.cancel()


async def test_what_ends_the_agent_passes() -> None:
    async def stop() -> None:
        raise SystemExit("cannot go on")

    with pytest.raises(SystemExit):
        await tended("part", stop)
