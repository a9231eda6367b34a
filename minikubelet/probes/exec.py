"""exec: a command in the container exits with 0; nothing of it is left when its time is over.

The runtime counts the time and kills the command, but not its children, and its answer doesn't come
while one of them holds the pipes. So shortly before that it is noted which processes belong to the
command, and when it has ended they are killed. Source: kubelet pkg/probe/exec/exec.go.
"""

import os
from collections.abc import Callable, Iterable

import anyio
import anyio.to_thread
import structlog

from minikubelet.api.duration import go_duration_seconds
from minikubelet.api.pod import Pod
from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError, DeadlineExceeded
from minikubelet.cri.execs import Execs
from minikubelet.criconfig.expansion import expand
from minikubelet.host import processes
from minikubelet.host.processes import Process
from minikubelet.probes.attempt import SUCCESS, Attempt, Outcome, ProbeError, Run, failure
from minikubelet.probes.leftovers import Leftovers, now

MAX_OUTPUT = 10 * 1024
ALLOWANCE_SECONDS = 2.0
"""How long after its time the runtime may still be about to kill a command."""
ANSWER_SECONDS = 0.25
"""A command that ended by itself is answered for within this time."""
CLEAN_UP_SECONDS = 1.0

ProcessesOf = Callable[[Pod, str], Iterable[int]]
"""Lists the pids in the cgroup of a container (its id) of a pod."""

_log = structlog.get_logger("probes")


class ExecProber:
    """Runs commands in containers."""

    def __init__(self, execs: Execs, processes_of: ProcessesOf) -> None:
        self._execs = execs
        self._processes_of = processes_of
        self._leaders: set[Process] = set()

    def prepare(self, attempt: Attempt) -> Run:
        """Return a callable that makes the attempt."""
        action = attempt.probe.exec
        assert action is not None  # noqa: S101  who dispatches knows
        literal = {each.name: each.value for each in attempt.container.env if not each.value_from}
        command = [expand(word, literal) for word in action.command]

        async def run() -> Outcome:
            return await _Command(self, attempt, command).run()

        return run

    def pids(self, attempt: Attempt) -> Iterable[int]:
        """List the processes of the attempt's container."""
        return self._processes_of(attempt.pod, attempt.container_id)

    async def look(self, leftovers: Leftovers) -> list[Process]:
        """Find what belongs to a command; commands that run at the same time are kept apart."""
        taken = self._leaders - {leftovers.leader} if leftovers.leader else self._leaders
        found = await anyio.to_thread.run_sync(leftovers.look, taken)
        if leftovers.leader is not None:
            self._leaders.add(leftovers.leader)
        return found

    async def sync(self, attempt: Attempt, command: list[str]) -> m.ExecSyncResponse:
        """Let the runtime run the command. Raises CRIError."""
        return await self._execs.sync(attempt.container_id, command, attempt.timeout)

    def forget(self, leftovers: Leftovers) -> None:
        """Note the end of a command."""
        if leftovers.leader is not None:
            self._leaders.discard(leftovers.leader)


class _Command:
    """One run of a command."""

    def __init__(self, prober: ExecProber, attempt: Attempt, command: list[str]) -> None:
        self._prober = prober
        self._attempt = attempt
        self._command = command
        self._leftovers = Leftovers(lambda: prober.pids(attempt), command, now())
        self._answered = anyio.Event()
        self._reply: m.ExecSyncResponse | None = None
        self._failure: CRIError | None = None
        self._overdue = False

    async def run(self) -> Outcome:
        """Run it to its end. Raises ProbeError."""
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._call)
                with anyio.move_on_after(self._attempt.timeout):
                    await self._answered.wait()
                if not self._answered.is_set():
                    await self._end_overdue()
                    group.cancel_scope.cancel()
        except anyio.get_cancelled_exc_class():
            # Nobody would ever look for what it leaves.
            with anyio.move_on_after(CLEAN_UP_SECONDS, shield=True):
                await self._kill()
            raise
        finally:
            self._prober.forget(self._leftovers)
        return self._judge()

    async def _call(self) -> None:
        try:
            self._reply = await self._prober.sync(self._attempt, self._command)
        except CRIError as error:
            self._failure = error
        self._answered.set()

    async def _end_overdue(self) -> None:
        """See the command end, by the runtime's hand or ours, and kill what stays."""
        await self._prober.look(self._leftovers)
        leader = self._leftovers.leader
        if leader is not None:
            with anyio.move_on_after(ALLOWANCE_SECONDS):
                await _ended(leader)
        with anyio.move_on_after(ANSWER_SECONDS):
            await self._answered.wait()
        if self._reply is not None:
            return
        self._overdue = self._failure is None
        await self._kill()
        with anyio.move_on_after(CLEAN_UP_SECONDS):
            await self._answered.wait()

    async def _kill(self) -> None:
        for process in await self._prober.look(self._leftovers):
            _log.debug("killing what an exec probe left", pid=process.pid)
            processes.kill(process)

    def _judge(self) -> Outcome:
        if self._overdue or isinstance(self._failure, DeadlineExceeded):
            took = go_duration_seconds(self._attempt.timeout)
            shown = " ".join(self._command)
            return failure(f'command timed out: "{shown}" timed out after {took}')
        if self._failure is not None:
            raise ProbeError(str(self._failure)) from self._failure
        assert self._reply is not None  # noqa: S101  answered without failure
        if self._reply.exit_code == 0:
            return SUCCESS
        output = (self._reply.stdout + self._reply.stderr)[:MAX_OUTPUT]
        return failure(output.decode(errors="replace"))


async def _ended(process: Process) -> None:
    """Wait for a process' end."""
    fd = processes.open_fd(process)
    if fd is None:
        return
    try:
        await anyio.wait_readable(fd)
    finally:
        os.close(fd)
