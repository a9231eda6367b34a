from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.logs.read import LogOptions, read_log, read_tail

pytestmark = pytest.mark.anyio


def entry(text: str, second: int = 0, stream: str = "stdout", tag: str = "F") -> bytes:
    return f"2026-01-01T00:00:{second:02d}Z {stream} {tag} {text}\n".encode()


async def never() -> None:
    await anyio.sleep_forever()


async def read(path: Path, **options: Any) -> bytes:
    return b"".join([piece async for piece in read_log(str(path), LogOptions(**options))])


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "0.log"
    path.write_bytes(
        entry("one", 1)
        + entry("two", 2, "stderr")
        + entry("th", 3, tag="P")
        + entry("ree", 4)
        + entry("four", 5)
    )
    return path


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({}, b"one\ntwo\nthree\nfour\n"),
        ({"tail_lines": 0}, b""),
        ({"tail_lines": 1}, b"four\n"),
        ({"tail_lines": 2}, b"ree\nfour\n"),
        ({"tail_lines": 100}, b"one\ntwo\nthree\nfour\n"),
        ({"since_ns": 1767225602 * 10**9}, b"two\nthree\nfour\n"),
        ({"limit_bytes": 5}, b"one\nt"),
        ({"limit_bytes": 0}, b""),
        ({"stream": "stderr"}, b"two\n"),
        (
            {"timestamps": True, "tail_lines": 3},
            b"2026-01-01T00:00:03.000000000Z three\n2026-01-01T00:00:05.000000000Z four\n",
        ),
        ({"timestamps": True, "limit_bytes": 33}, b"2026-01-01T00:00:01.000000000Z on"),
    ],
)
async def test_options(log: Path, options: dict[str, Any], text: bytes) -> None:
    assert await read(log, **options) == text


async def test_a_missing_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await read(tmp_path / "none.log")
    with pytest.raises(FileNotFoundError):
        await read(tmp_path / "none.log", follow=True)


async def test_lines_that_are_no_entries_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(entry("a") + b"garbage\n" + entry("b") + b"2026-01-01T00:00:00Z stdout F cut")
    assert await read(path) == b"a\nb\ncut"


@pytest.mark.parametrize("lines", [1, 700, 5000])
async def test_tail_over_many_blocks(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(b"".join(entry(f"line {n}") for n in range(5000)))
    expected = b"".join(b"line %d\n" % n for n in range(5000 - lines, 5000))
    assert await read(path, tail_lines=lines) == expected


async def test_a_very_long_line(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(entry("x" * 1_000_000))
    assert await read(path) == b"x" * 1_000_000 + b"\n"


class Follower:
    """Follows a log in the background; what it read is awaited, not slept for."""

    def __init__(self) -> None:
        self.text = b""
        self._more = anyio.Event()

    async def run(self, path: Path, ended: Callable[[], Awaitable[None]], **options: Any) -> None:
        async with aclosing(read_log(str(path), LogOptions(follow=True, **options), ended)) as log:
            async for piece in log:
                self.text += piece
                self._more.set()
                self._more = anyio.Event()

    async def has(self, text: bytes) -> None:
        with anyio.fail_after(5):
            while self.text != text:
                await self._more.wait()


async def test_follow_until_the_container_is_done(log: Path) -> None:
    follower, done = Follower(), anyio.Event()

    async def ended() -> None:
        await done.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: follower.run(log, ended, tail_lines=1))
        await follower.has(b"four\n")
        with log.open("ab") as file:
            file.write(entry("five"))
            file.flush()
            await follower.has(b"four\nfive\n")
            file.write(entry("last"))
        done.set()
    assert follower.text == b"four\nfive\nlast\n"


async def test_B56_follow_over_a_rotation_loses_and_doubles_nothing(log: Path) -> None:
    follower, done = Follower(), anyio.Event()

    async def ended() -> None:
        await done.wait()

    async with anyio.create_task_group() as group:
        group.start_soon(lambda: follower.run(log, ended, tail_lines=1))
        await follower.has(b"four\n")
        with log.open("ab") as old:
            log.rename(log.with_name("0.log.20260101-000000"))
            old.write(entry("after the rename"))
            old.flush()
            await follower.has(b"four\nafter the rename\n")
            log.touch()
            old.write(entry("after the new file"))
        log.write_bytes(entry("new"))
        await follower.has(b"four\nafter the rename\nafter the new file\nnew\n")
        with log.open("ab") as file:
            file.write(entry("newer"))
        await follower.has(b"four\nafter the rename\nafter the new file\nnew\nnewer\n")
        done.set()


async def test_follow_of_a_truncated_file_starts_again(log: Path) -> None:
    follower = Follower()
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: follower.run(log, never, tail_lines=1))
        await follower.has(b"four\n")
        log.write_bytes(entry("x"))
        await follower.has(b"four\nx\n")
        group.cancel_scope.cancel()


async def test_follow_ends_at_the_byte_limit(log: Path) -> None:
    follower = Follower()
    with anyio.fail_after(5):
        await follower.run(log, never, limit_bytes=6)
    assert follower.text == b"one\ntw"


def test_tail_is_cut_to_its_last_bytes(log: Path) -> None:
    assert read_tail(str(log), 2, 100) == b"ree\nfour\n"
    assert read_tail(str(log), 80, 7) == b"e\nfour\n"


async def test_a_log_that_grows_faster_than_it_is_read_has_an_end(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(entry("x" * 60) * 2000)
    size = 0
    with anyio.fail_after(5):
        async for piece in read_log(str(path), LogOptions()):
            size += len(piece)
            with path.open("ab") as stream:
                stream.write(entry("y" * 60) * 2000)
    assert size == 2000 * 61
