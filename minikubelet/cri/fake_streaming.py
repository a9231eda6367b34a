"""Exec, Attach and PortForward of the in-memory runtime: tickets, as containerd hands them out.

A ticket is a URL that is good for one connection. Nobody listens there: whoever wants streams puts
a server at `streaming_url` that takes the tickets (`take_ticket`) and speaks whatever is asked for.
"""

from collections.abc import Sequence

from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.fake_calls import fail, state_name
from minikubelet.cri.fake_sandboxes import FakeSandboxes
from minikubelet.cri.fake_script import Ticket
from minikubelet.cri.services import Streams


class FakeStreaming(FakeSandboxes):
    """The calls that return a URL."""

    async def exec(self, container_id: str, cmd: Sequence[str], streams: Streams) -> str:
        """Return the URL of a command's streams."""

        def effect() -> str:
            config = self._attachable("Exec", container_id, streams)
            return self._ticket(Ticket("exec", container_id, config, tuple(cmd), streams))

        return await self.run("Exec", container_id, effect)

    async def attach(self, container_id: str, streams: Streams) -> str:
        """Return the URL of a container's own streams."""

        def effect() -> str:
            config = self._attachable("Attach", container_id, streams)
            return self._ticket(Ticket("attach", container_id, config, streams=streams))

        return await self.run("Attach", container_id, effect)

    async def port_forward(self, pod_sandbox_id: str, ports: Sequence[int]) -> str:
        """Return the URL of connections into a sandbox."""

        def effect() -> str:
            if not self.sandbox("PortForward", pod_sandbox_id).ready:
                fail("PortForward", f'sandbox container "{pod_sandbox_id}" is not running')
            return self._ticket(Ticket("portforward", pod_sandbox_id, ports=tuple(ports)))

        return await self.run("PortForward", pod_sandbox_id, effect)

    def take_ticket(self, path: str) -> Ticket | None:
        """Return what a URL's path stands for, once."""
        return self.tickets.pop(path, None)

    def _attachable(self, method: str, container_id: str, streams: Streams) -> m.ContainerConfig:
        if not (streams.stdin or streams.stdout or streams.stderr):
            text = "one of stdin, stdout, or stderr must be set"
            raise CRIError(method, "InvalidArgument", text)
        if streams.tty and streams.stderr:
            raise CRIError(method, "InvalidArgument", "tty and stderr cannot both be true")
        container = self.container(method, container_id)
        if not container.running:
            fail(method, f"container is in {state_name(container)} state")
        return container.config

    def _ticket(self, ticket: Ticket) -> str:
        path = f"/{ticket.kind}/{self.new_id()[-8:]}"
        self.tickets[path] = ticket
        return self.streaming_url + path
