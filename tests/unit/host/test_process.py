"""The subprocess door: output, failures, limits, and that nothing keeps running."""

import os
import signal
import time
from pathlib import Path

import anyio
import pytest

from minikubelet.host.process import CommandError, run

pytestmark = pytest.mark.anyio


async def test_output_and_input_pass_through() -> None:
    output = await run(["cat"], timeout=10, stdin=b"hello")
    assert (output.exit_code, output.stdout, output.stderr) == (0, b"hello", b"")


async def test_arguments_are_data_and_no_shell_sees_them() -> None:
    output = await run(["echo", "$(id); `id`"], timeout=10)
    assert output.stdout == b"$(id); `id`\n"


async def test_the_environment_is_the_given_one() -> None:
    output = await run(["/usr/bin/env"], timeout=10, env={"A": "1"})
    assert output.stdout == b"A=1\n"


async def test_a_failure_names_the_command_and_its_words() -> None:
    with pytest.raises(CommandError, match=r"cannot run ls '/no such': exit code 2: .*No such"):
        await run(["ls", "/no such"], timeout=10)


async def test_an_exit_code_can_be_left_to_the_caller() -> None:
    assert (await run(["false"], timeout=10, check=False)).exit_code == 1


async def test_a_signal_is_named() -> None:
    with pytest.raises(CommandError, match="killed by signal SIGKILL"):
        await run(["sh", "-c", "kill -9 $$"], timeout=10)


async def test_a_missing_program_is_an_error_of_the_same_kind() -> None:
    with pytest.raises(CommandError, match="cannot run /no/such: No such file"):
        await run(["/no/such"], timeout=10)


async def test_input_that_nobody_reads_is_no_failure() -> None:
    assert (await run(["true"], timeout=10, stdin=b"x" * (1 << 20))).exit_code == 0


async def test_too_much_output_is_cut_and_the_program_goes_on() -> None:
    output = await run(["head", "-c", "3000000", "/dev/zero"], timeout=10)
    assert (output.exit_code, len(output.stdout)) == (0, 1 << 20)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


@pytest.mark.parametrize("ended_by", ["its limit", "its caller"])
async def test_grandchildren_die_with_an_overdue_program(tmp_path: Path, ended_by: str) -> None:
    pid_file = tmp_path / "pid"
    argv = ["sh", "-c", f"sleep 1000 & echo $! >{pid_file}; wait"]
    if ended_by == "its limit":
        with pytest.raises(CommandError, match=r"no end after 0\.5 s, killed"):
            await run(argv, timeout=0.5)
    else:
        with anyio.move_on_after(0.5):
            await run(argv, timeout=1000)
    pid = int(pid_file.read_text())
    deadline = time.monotonic() + 5
    while alive(pid) and time.monotonic() < deadline:  # noqa: ASYNC110  no event of its own
        await anyio.sleep(0.01)
    try:
        assert not alive(pid)
    finally:
        if alive(pid):
            os.kill(pid, signal.SIGKILL)
