"""One question is asked once; answers are limited in number and time."""

import anyio
import pytest

from minikubelet.server.remembered import Answers, Remembered

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(
    simulated_backend: tuple[str, dict[str, object]],
) -> tuple[str, dict[str, object]]:
    return simulated_backend


async def test_many_who_wait_cause_one_question() -> None:
    asked = 0
    remembered: Remembered[str, int] = Remembered(lambda _answer: 60)

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await anyio.sleep(5)
        return 7

    async def want() -> None:
        assert await remembered.get("q", ask) == 7

    async with anyio.create_task_group() as group:
        for _ in range(50):
            group.start_soon(want)
    assert asked == 1


async def test_a_failure_goes_to_who_asked_and_the_next_asks_again() -> None:
    asked = 0
    failures = 0
    remembered: Remembered[str, int] = Remembered(lambda _answer: 60)

    async def ask() -> int:
        nonlocal asked
        asked += 1
        await anyio.sleep(1)
        if asked < 3:
            raise OSError("away")
        return 7

    async def want() -> None:
        nonlocal failures
        try:
            assert await remembered.get("q", ask) == 7
        except OSError:
            failures += 1

    async with anyio.create_task_group() as group:
        for _ in range(5):
            group.start_soon(want)
    assert (asked, failures) == (3, 2)


async def test_who_leaves_while_asking_does_not_take_the_answer_along() -> None:
    remembered: Remembered[str, int] = Remembered(lambda _answer: 60)

    async def ask() -> int:
        await anyio.sleep(5)
        return 7

    async with anyio.create_task_group() as group:

        async def leave() -> None:
            with anyio.move_on_after(1):
                await remembered.get("q", ask)

        group.start_soon(leave)
        await anyio.sleep(0.5)
        assert await remembered.get("q", ask) == 7


async def test_the_oldest_answers_go_first() -> None:
    answers: Answers[int, str] = Answers(limit=2)
    for question in range(3):
        answers.put(question, "yes", until=100)
    assert [answers.get(question, 0) for question in range(3)] == [None, "yes", "yes"]
    assert answers.get(2, 100) is None
    assert len(answers) == 1
