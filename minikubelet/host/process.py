"""The one door to other programs: argv in, output out, always with a time limit, never a shell.

A program gets a session of its own; when its time is over or the caller is cancelled, the whole
process group is killed, so that no grandchild keeps running or holds the output open.
"""

import os
import shlex
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE

import anyio
from anyio.abc import ByteReceiveStream, Process

_KEPT_BYTES = 1 << 20
_SHOWN_CHARACTERS = 2000


@dataclass(frozen=True, slots=True)
class Output:
    """What a program left. Each stream is cut after 1 MiB."""

    exit_code: int
    stdout: bytes
    stderr: bytes


class CommandError(Exception):
    """Raised when a program can't be started, fails or takes too long.

    `output` is None when it wasn't started or had to be killed.
    """

    def __init__(self, argv: Sequence[str], problem: str, output: Output | None = None) -> None:
        text = b"" if output is None else output.stderr or output.stdout
        tail = text.decode(errors="replace").strip()[-_SHOWN_CHARACTERS:]
        super().__init__(
            f"cannot run {shlex.join(argv)}: {problem}" + (f": {tail}" if tail else "")
        )
        self.argv = tuple(argv)
        self.output = output


async def run(
    argv: Sequence[str],
    *,
    timeout: float,
    stdin: bytes | None = None,
    env: Mapping[str, str] | None = None,
    check: bool = True,
) -> Output:
    """Run a program to its end; `timeout` in seconds, `env` instead of the agent's environment.

    Raises CommandError; with check=False an exit code other than 0 is left to the caller.
    """
    try:
        process = await anyio.open_process(
            argv,
            stdin=DEVNULL if stdin is None else PIPE,
            stdout=PIPE,
            stderr=PIPE,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        raise CommandError(argv, error.strerror or str(error)) from error
    output: Output | None = None
    try:
        with anyio.move_on_after(timeout):
            output = await _talk(process, stdin)
    finally:
        if output is None:
            await _kill(process)
    if output is None:
        raise CommandError(argv, f"no end after {timeout:g} s, killed")
    if check and output.exit_code != 0:
        raise CommandError(argv, _explain(output.exit_code), output)
    return output


async def _talk(process: Process, stdin: bytes | None) -> Output:
    kept: dict[str, bytes] = {}

    async def drain(name: str, stream: ByteReceiveStream | None) -> None:
        data = bytearray()
        if stream is not None:
            async for chunk in stream:
                data += chunk[: _KEPT_BYTES - len(data)]
        kept[name] = bytes(data)

    async with anyio.create_task_group() as group:
        group.start_soon(drain, "stdout", process.stdout)
        group.start_soon(drain, "stderr", process.stderr)
        if process.stdin is not None:
            # A program may end without reading all that it is given.
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await process.stdin.send(stdin or b"")
            await process.stdin.aclose()
        code = await process.wait()
    await process.aclose()
    return Output(code, kept["stdout"], kept["stderr"])


async def _kill(process: Process) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with anyio.CancelScope(shield=True), anyio.move_on_after(5):
        await process.aclose()


def _explain(exit_code: int) -> str:
    if exit_code >= 0:
        return f"exit code {exit_code}"
    return f"killed by signal {signal.Signals(-exit_code).name}"
