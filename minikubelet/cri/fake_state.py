"""What the in-memory runtime holds: sandboxes, containers, reserved names, and things due later.

All changes are plain synchronous methods at one point of time, so no half state is ever visible.
`fake.FakeRuntime` puts CRI's calls on top; a test may use the methods here to play the world:
a process ends, the machine reboots.
"""

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.fake_events import EventPolicy, FakeEvents
from minikubelet.cri.fake_script import NEVER, Exec, Program, exit_reason
from minikubelet.cri.services import EventKind, RuntimeEvent

KILLED = 137
START_ERROR = 128  # containerd internal/cri/server/helpers.go errorStartExitCode
UNKNOWN_EXIT = 255  # containerd internal/cri/server/helpers.go unknownExitCode
_EPOCH_NS = 1_700_000_000_000_000_000


@dataclass(slots=True)
class FakeSandbox:
    """One sandbox as the runtime remembers it."""

    id: str
    config: m.PodSandboxConfig
    created_at: int
    handler: str = ""
    ready: bool = True
    ip: str = ""


@dataclass(slots=True)
class FakeContainer:
    """One container as the runtime remembers it. Times are Unix nanoseconds."""

    id: str
    sandbox: FakeSandbox
    config: m.ContainerConfig
    created_at: int
    image_ref: str = ""
    log_path: str = ""
    program: Program = field(default_factory=Program)
    state: int = m.CONTAINER_CREATED
    started_at: int = 0
    finished_at: int = 0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    term_sent: bool = False

    @property
    def running(self) -> bool:
        """True while its process runs."""
        return self.state == m.CONTAINER_RUNNING


StartHook = Callable[[m.ContainerConfig], Program | int | None]
ExecHook = Callable[[m.ContainerConfig, list[str]], Exec | int]


class FakeWorld:
    """The state and its changes. `on_start` decides what a container's process does."""

    def __init__(self, events: EventPolicy) -> None:
        self.on_start: StartHook = lambda _config: None
        self.on_exec: ExecHook = lambda _config, _command: 0
        self.sandboxes: dict[str, FakeSandbox] = {}
        self.containers: dict[str, FakeContainer] = {}
        self.names: dict[str, str] = {}
        self.events = FakeEvents(events)
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = 0
        self._last_ns = 0
        self._changed = anyio.Event()

    # time

    def now_ns(self) -> int:
        """Return the runtime's wall clock; every answer is later than the one before."""
        self._last_ns = max(self._last_ns + 1, _EPOCH_NS + int(anyio.current_time() * 1e9))
        return self._last_ns

    def later(self, delay: float, effect: Callable[[], object]) -> None:
        """Carry `effect` out after `delay` seconds, seen by whoever looks then."""
        self._numbers += 1
        heapq.heappush(self._due, (anyio.current_time() + delay, self._numbers, effect))
        self._notify()

    def settle(self) -> None:
        """Carry out all that is due."""
        while self._due and self._due[0][0] <= anyio.current_time():
            effect = heapq.heappop(self._due)[2]
            try:
                effect()
            except CRIError:
                continue  # a late answer that nobody waits for any more

    def next_change(self) -> float:
        """Return when something will be due; infinity for nothing planned."""
        return self._due[0][0] if self._due else NEVER

    async def wait_until(self, condition: Callable[[], bool], seconds: float = NEVER) -> bool:
        """Wait for a condition on the state; False when the time passed first."""
        deadline = anyio.current_time() + seconds
        while True:
            self.settle()
            if condition():
                return True
            now = anyio.current_time()
            if now >= deadline:
                return False
            changed = self._changed
            with anyio.move_on_after(min(deadline, self.next_change()) - now):
                await changed.wait()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = anyio.Event()

    # changes

    def new_id(self) -> str:
        """Return an id of 64 hexadecimal digits, as containerd's."""
        self._numbers += 1
        return f"{self._numbers:064x}"

    def emit(self, kind: EventKind, subject: str, sandbox: FakeSandbox) -> None:
        """Tell the subscribers."""
        self.events.emit(RuntimeEvent(kind, subject, sandbox.config.metadata.uid))
        self._notify()

    def start(self, container: FakeContainer) -> None:
        """Run the container's program; `on_start` raising CRIError is a failing start."""
        try:
            answer = self.on_start(container.config)
        except CRIError as error:
            self._finish(container, START_ERROR, "StartError", error.message)
            raise
        if isinstance(answer, int):
            answer = Program(exit_code=answer, runs_for=0.0)
        container.program = answer or Program()
        container.state = m.CONTAINER_RUNNING
        container.started_at = self.now_ns()
        self.emit(EventKind.STARTED, container.id, container.sandbox)
        program = container.program
        if program.runs_for != NEVER:
            self.later(
                program.runs_for,
                lambda: self.exit(container.id, program.exit_code, message=program.message),
            )

    def exit(self, container_id: str, code: int, reason: str = "", message: str = "") -> None:
        """End a running container's process; without effect when it doesn't run."""
        container = self.containers.get(container_id)
        if container is not None and container.running:
            self._finish(container, code, reason or exit_reason(code), message)

    def oom(self, container_id: str) -> None:
        """Kill a container's process as the kernel does when its memory is used up."""
        container = self.containers[container_id]
        self.emit(EventKind.OOM, container_id, container.sandbox)
        self.exit(container_id, KILLED, "OOMKilled")

    def term(self, container: FakeContainer) -> None:
        """Send the stop signal; a second one changes nothing."""
        if container.term_sent:
            return
        container.term_sent = True
        program = container.program
        if program.term_takes != NEVER:
            self.later(program.term_takes, lambda: self.exit(container.id, program.term_code))

    def kill(self, container: FakeContainer) -> None:
        """Send KILL."""
        self.exit(container.id, KILLED)

    def stop_sandbox(self, sandbox: FakeSandbox) -> None:
        """Kill all processes and take the network away."""
        for container in self.of(sandbox):
            self.kill(container)
        if sandbox.ready:
            sandbox.ready = False
            sandbox.ip = ""
            self.emit(EventKind.STOPPED, sandbox.id, sandbox)

    def remove(self, container: FakeContainer) -> None:
        """Kill and forget a container."""
        self.kill(container)
        del self.containers[container.id]
        self.release(container.id)
        self.emit(EventKind.DELETED, container.id, container.sandbox)

    def remove_sandbox(self, sandbox: FakeSandbox) -> None:
        """Stop and forget a sandbox with its containers."""
        self.stop_sandbox(sandbox)
        for container in self.of(sandbox):
            self.remove(container)
        del self.sandboxes[sandbox.id]
        self.release(sandbox.id)
        self.emit(EventKind.DELETED, sandbox.id, sandbox)

    def reboot(self) -> None:
        """End all processes without any event: what a runtime finds after the machine's reboot."""
        self._due.clear()
        for container in self.containers.values():
            if container.running:
                container.state = m.CONTAINER_EXITED
                container.exit_code = UNKNOWN_EXIT
                container.reason = "Unknown"
                container.finished_at = self.now_ns()
        for sandbox in self.sandboxes.values():
            sandbox.ready, sandbox.ip = False, ""
        self._notify()

    def of(self, sandbox: FakeSandbox) -> list[FakeContainer]:
        """Return a sandbox's containers."""
        return [each for each in self.containers.values() if each.sandbox is sandbox]

    def _finish(self, container: FakeContainer, code: int, reason: str, message: str) -> None:
        container.state = m.CONTAINER_EXITED
        container.exit_code, container.reason, container.message = code, reason, message
        container.finished_at = self.now_ns()
        self.emit(EventKind.STOPPED, container.id, container.sandbox)

    def release(self, holder: str) -> None:
        """Free the names that a sandbox or container holds."""
        self.names = {name: each for name, each in self.names.items() if each != holder}
