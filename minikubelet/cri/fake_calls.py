"""What the in-memory runtime's calls share: records, planned faults, reserved names, look-ups."""

from collections.abc import Callable, Iterable
from typing import NoReturn, TypeVar

from minikubelet.cri import messages as m
from minikubelet.cri.errors import AlreadyExists, CRIError, NotFound
from minikubelet.cri.fake_events import EventPolicy
from minikubelet.cri.fake_images import FakeImages
from minikubelet.cri.fake_script import Call, Script, Ticket
from minikubelet.cri.fake_state import ExecHook, FakeContainer, FakeSandbox, FakeWorld, StartHook

T = TypeVar("T")


class FakeCalls(FakeWorld):
    """The state with a script and images beside it, and how a call is carried out on them.

    `images` names what is present; None means that every image is. `handlers` are the runtime
    classes' handlers that are configured.
    """

    def __init__(
        self,
        *,
        on_start: StartHook | None = None,
        on_exec: ExecHook | None = None,
        images: Iterable[str] | None = None,
        registry: Iterable[str] | None = None,
        events: EventPolicy | None = None,
        handlers: Iterable[str] = ("", "runc"),
    ) -> None:
        super().__init__(events or EventPolicy())
        self.on_start = on_start or self.on_start
        self.on_exec = on_exec or self.on_exec
        self.script = Script()
        self.images = FakeImages(self.script, images or (), registry, self.later)
        self.network_ready = True
        self.driver = "cgroupfs"
        self.pod_cidr = ""
        self.streaming_url = "http://127.0.0.1:1"
        self.tickets: dict[str, Ticket] = {}
        self._any_image = images is None
        self._handlers = set(handlers)
        self._addresses = 0

    async def run(self, method: str, subject: str, effect: Callable[[], T]) -> T:
        """Carry out a call, with the faults planned for it, at one point of time."""
        self.settle()

        def settled() -> T:
            self.settle()
            return effect()

        return await self.script.run(method, subject, settled, self.later)

    async def create(
        self, method: str, kind: str, name: str, new_id: str, effect: Callable[[], None]
    ) -> None:
        """Reserve a name, create, and let the name go if nothing came or will come of it."""
        self.settle()
        holder = self.names.get(name)
        if holder is not None:
            self.script.calls.append(Call(method, name))
            text = (
                f'failed to reserve {kind} name "{name}": name "{name}" is reserved for "{holder}"'
            )
            raise AlreadyExists(method, "Unknown", text)
        self.names[name] = new_id
        still_coming = False

        def later(delay: float, late: Callable[[], object]) -> None:
            nonlocal still_coming
            still_coming = True
            self.later(delay, late)

        def guarded() -> None:
            try:
                effect()
            except CRIError:
                self.release(new_id)
                raise

        try:
            await self.script.run(method, name, guarded, later)
        finally:
            if not still_coming and new_id not in self.sandboxes | self.containers:
                self.release(new_id)

    def sandbox(self, method: str, sandbox_id: str) -> FakeSandbox:
        """Return a sandbox; raises NotFound with containerd's text."""
        if sandbox_id not in self.sandboxes:
            text = f'an error occurred when try to find sandbox "{sandbox_id}": not found'
            raise NotFound(method, "NotFound", text)
        return self.sandboxes[sandbox_id]

    def container(self, method: str, container_id: str) -> FakeContainer:
        """Return a container; raises NotFound with containerd's text."""
        if container_id not in self.containers:
            text = f'an error occurred when try to find container "{container_id}": not found'
            raise NotFound(method, "NotFound", text)
        return self.containers[container_id]


def state_name(container: FakeContainer) -> str:
    """Return a state as containerd writes it."""
    return str(m.v1.ContainerState.Name(container.state))  # type: ignore[arg-type]  # an enum's int


def fail(method: str, text: str) -> NoReturn:
    """Raise what containerd reports without a code of its own."""
    raise CRIError(method, "Unknown", text)
