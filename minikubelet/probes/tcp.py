"""tcpSocket: a connection can be opened. Source: kubelet pkg/probe/tcp/tcp.go."""

from collections.abc import Sequence

from minikubelet.probes.attempt import SUCCESS, Attempt, Outcome, failure
from minikubelet.probes.request import authority, port_number
from minikubelet.probes.sockets import connect
from minikubelet.probes.steps import OutOfTime


class TCPProbe:
    """The attempts of one probe. Raises ValueError for a bad port or host."""

    def __init__(self, attempt: Attempt) -> None:
        action = attempt.probe.tcp_socket
        assert action is not None  # noqa: S101  who dispatches knows
        self.host = action.host or attempt.pod_ip
        self._port = port_number(action.port, attempt.container)
        if not self.host:
            raise ValueError("failed to find networking container: the pod has no IP")

    async def attempt(self, addresses: Sequence[str]) -> Outcome:
        """Make one, as steps."""
        try:
            (await connect(addresses, self._port)).close()
        except OSError as error:
            return failure(str(error))
        except OutOfTime:
            return failure(f"dial tcp {authority(self.host, self._port)}: i/o timeout")
        return SUCCESS
