"""From a probe's handler to the executor that makes its attempts; each kind is one file."""

from minikubelet.probes import grpc, http, tcp
from minikubelet.probes.attempt import Attempt, Outcome, ProbeError, Run
from minikubelet.probes.exec import ExecProber


class NodeProber:
    """Makes attempts from the node: nothing is asked of the container's image."""

    def __init__(self, execs: ExecProber) -> None:
        self._execs = execs

    def prepare(self, attempt: Attempt) -> Run:
        """Return a callable that makes this attempt, any number of times."""
        try:
            return self._prepare(attempt)
        except ValueError as error:
            return _refusing(str(error))

    def _prepare(self, attempt: Attempt) -> Run:
        probe = attempt.probe
        if probe.exec is not None:
            return self._execs.prepare(attempt)
        if probe.http_get is not None:
            return http.prepare(attempt)
        if probe.tcp_socket is not None:
            return tcp.prepare(attempt)
        if probe.grpc is not None:
            return grpc.prepare(attempt)
        raise ValueError(
            f"missing probe handler for {attempt.pod.description}:{attempt.container.name}"
        )


def _refusing(text: str) -> Run:
    async def run() -> Outcome:
        raise ProbeError(text)

    return run
