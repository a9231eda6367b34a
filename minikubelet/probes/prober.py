"""From a probe's handler to the executor that makes its attempts; each kind is one file."""

from functools import partial

import anyio

from minikubelet.probes import grpc
from minikubelet.probes.attempt import (
    Attempt,
    Outcome,
    Prepared,
    ProbeError,
    Run,
    failure,
)
from minikubelet.probes.exec import ExecProber
from minikubelet.probes.http import HTTPProbe
from minikubelet.probes.sockets import addresses_of, is_address
from minikubelet.probes.steps import drive
from minikubelet.probes.tcp import TCPProbe


class NodeProber:
    """Makes attempts from the node: nothing is asked of the container's image."""

    def __init__(self, execs: ExecProber) -> None:
        self._execs = execs

    def prepare(self, attempt: Attempt) -> Prepared:
        """Return what makes this attempt."""
        try:
            return self._prepare(attempt)
        except ValueError as error:
            return Prepared(run=_refusing(str(error)))

    def _prepare(self, attempt: Attempt) -> Prepared:
        probe = attempt.probe
        if probe.exec is not None:
            return Prepared(run=self._execs.prepare(attempt))
        if probe.http_get is not None:
            return _exchanging(attempt, HTTPProbe(attempt))
        if probe.tcp_socket is not None:
            return _exchanging(attempt, TCPProbe(attempt))
        if probe.grpc is not None:
            return Prepared(run=grpc.prepare(attempt))
        raise ValueError(
            f"missing probe handler for {attempt.pod.description}:{attempt.container.name}"
        )


def _exchanging(attempt: Attempt, probe: HTTPProbe | TCPProbe) -> Prepared:
    """Return an exchange; for a host given by name a task that looks it up each time."""
    if is_address(probe.host):
        return Prepared(exchange=partial(probe.attempt, [probe.host]))

    async def run() -> Outcome:
        try:
            with anyio.fail_after(attempt.timeout):
                found = await addresses_of(probe.host)
        except TimeoutError:
            return failure(f"dial tcp: lookup {probe.host}: i/o timeout")
        except OSError as error:
            return failure(str(error))
        return await drive(probe.attempt(found), attempt.timeout)

    return Prepared(run=run)


def _refusing(text: str) -> Run:
    async def run() -> Outcome:
        raise ProbeError(text)

    return run
