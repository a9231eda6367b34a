"""Which processes of a container belong to one command that was run in it, seen from the node.

A runtime kills the command itself when its time is over, not the children it has made. Runtimes
start a command in a session of its own, as a child of no process of the container: that is how its
first process (the leader) is told from the container's. What belongs to it are its descendants, all
of its sessions, and whoever writes to its pipes; when the leader has gone before, the sessions
without leader that came up since and hold other pipes than the container's own process.
"""

from collections.abc import Callable, Iterable, Sequence

from minikubelet.host.processes import Process, argv, outputs, read_all, ticks_now

Pids = Callable[[], Iterable[int]]
"""Lists the processes of a container."""


class Leftovers:
    """The processes of one command. Looking takes milliseconds: in a thread."""

    def __init__(self, pids: Pids, command: Sequence[str], began: int) -> None:
        self._pids = pids
        self._command = list(command)
        self._began = began - 1
        """Clock ticks; a process' start is cut to whole ones."""
        self.leader: Process | None = None
        self._known: set[int] = set()
        self._sessions: set[int] = set()
        self._pipes: set[str] = set()

    def look(self, taken: Iterable[Process] = ()) -> list[Process]:
        """Return what belongs to the command now, the leader included.

        `taken` are leaders of other commands in the same container.
        """
        alive = read_all(self._pids())
        if not alive:
            return []
        if self.leader is None:
            self.leader = self._find_leader(alive, set(taken))
        if self.leader is None:
            return self._orphans(alive)
        self._known.add(self.leader.pid)
        self._sessions.add(self.leader.session)
        # A probe may write to its container's log by /proc/1/fd/1: others do so, too.
        self._pipes |= _pipes(self.leader) - _pipes(alive[0])
        since = [process for process in alive if process.started >= self._began]
        for process in since:  # the earliest first: parents come before their children
            if process.parent in self._known or self._pipes & _pipes(process):
                self._known.add(process.pid)
                if process.leads_session:
                    self._sessions.add(process.session)
        return [
            process
            for process in since
            if process.pid in self._known or process.session in self._sessions
        ]

    def _find_leader(self, alive: list[Process], taken: set[Process]) -> Process | None:
        own = {process.pid for process in alive}
        candidates = [
            process
            for process in alive[1:]  # the first is the container's own process
            if process.parent not in own
            and process.leads_session
            and process.started >= self._began
            and process not in taken
        ]
        exact = [process for process in candidates if argv(process) == self._command]
        # In a pod that shares its processes a daemon may be nobody's child, too; but it has no pipe
        # to the runtime.
        piped = [process for process in candidates if _pipes(process) - _pipes(alive[0])]
        return next(iter(exact or piped), None)

    def _orphans(self, alive: list[Process]) -> list[Process]:
        first = alive[0]
        leaders = {process.pid for process in alive}
        own = _pipes(first)
        return [
            process
            for process in alive[1:]
            if process.started >= self._began
            and process.session not in leaders
            and process.session != first.session
            and _pipes(process) - own
        ]


def _pipes(process: Process) -> set[str]:
    return {each for each in outputs(process) if each.startswith("pipe:")}


def now() -> int:
    """Return the moment before a command begins, for `Leftovers`."""
    return ticks_now()
