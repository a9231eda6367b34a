"""tcpSocket: a connection can be opened. Source: kubelet pkg/probe/tcp/tcp.go."""

import anyio

from minikubelet.probes.attempt import SUCCESS, Attempt, Outcome, Run, failure
from minikubelet.probes.request import authority, port_number
from minikubelet.probes.sockets import connect


def prepare(attempt: Attempt) -> Run:
    """Return a callable that makes the attempt. Raises ValueError for a bad port."""
    action = attempt.probe.tcp_socket
    assert action is not None  # noqa: S101  who dispatches knows
    host = action.host or attempt.pod_ip
    port = port_number(action.port, attempt.container)
    if not host:
        raise ValueError("failed to find networking container: the pod has no IP")

    async def run() -> Outcome:
        try:
            with anyio.move_on_after(attempt.timeout):
                (await connect(host, port)).close()
                return SUCCESS
        except OSError as error:
            return failure(str(error))
        return failure(f"dial tcp {authority(host, port)}: i/o timeout")

    return run
