"""Attempts under way: each is an exchange in the reactor or a task, has its time, and is repeated.

`manager` says which probe's turn it is and hears how the attempt ended.
"""

from collections.abc import Callable
from dataclasses import dataclass

import anyio
import structlog
from anyio.abc import TaskGroup

from minikubelet.probes.attempt import Attempt, Outcome, Prepared, ProbeError, Prober, Run
from minikubelet.probes.schedule import NEVER, Schedule
from minikubelet.probes.steps import Flight, Reactor
from minikubelet.probes.worker import Worker

TRIES = 3
"""Attempts that can't tell anything are repeated at once, so often in all."""

_log = structlog.get_logger("probes")


@dataclass(slots=True, eq=False)
class Try:
    """One attempt; `due` is when an exchange's time is over, `tick` when it fell due itself."""

    worker: Worker
    container_id: str
    tick: float
    left: int = TRIES
    due: float = NEVER
    flight: Flight[Outcome] | None = None
    is_over: bool = False


class Attempts:
    """Makes attempts. `done` is told how each ended."""

    def __init__(
        self,
        prober: Prober,
        schedule: Schedule[Worker | Try],
        done: Callable[[Try, Outcome | ProbeError], None],
    ) -> None:
        self._prober = prober
        self._schedule = schedule
        self._done = done
        self._reactor = Reactor()

    def start(self, worker: Worker, group: TaskGroup) -> None:
        """Make an attempt; it may be over before this returns."""
        worker.in_flight = True
        made = Try(worker, worker.state.container_id, worker.due)
        worker.due = NEVER
        prepared = self._prepared(worker)
        if prepared.exchange is not None:
            self._begin(made, prepared)
        elif prepared.run is not None:
            group.start_soon(self._run, made, prepared.run)

    def expire(self, made: Try) -> None:
        """End an exchange whose time is over."""
        if made.flight is not None:
            self._reactor.expire(made.flight)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._reactor.run()

    def _prepared(self, worker: Worker) -> Prepared:
        """Return what makes attempts at this container, made once."""
        key = (worker.state.container_id, worker.pod_ip)
        if worker.prepared is not None and worker.prepared[0] == key:
            return worker.prepared[1]
        attempt = Attempt(worker.pod, worker.container, worker.kind, worker.probe, *key)
        prepared = self._prober.prepare(attempt)
        worker.prepared = (key, prepared)
        return prepared

    def _begin(self, made: Try, prepared: Prepared) -> None:
        assert prepared.exchange is not None  # noqa: S101  `start` looked
        made.left -= 1

        def ended(outcome: Outcome | Exception) -> None:
            made.due = NEVER
            if isinstance(outcome, ProbeError) and made.left:
                self._begin(made, prepared)
                return
            made.is_over = True
            self._done(made, _told(made, outcome))

        made.flight = Flight(prepared.exchange(), ended)
        self._reactor.start(made.flight)
        if not made.is_over:
            timeout = max(1, made.worker.probe.timeout_seconds)
            self._schedule.put(made, anyio.current_time() + timeout)

    async def _run(self, made: Try, run: Run) -> None:
        while True:
            made.left -= 1
            outcome: Outcome | Exception
            try:
                outcome = await run()
            except ProbeError as error:
                outcome = error
                if made.left:
                    continue
            except Exception as error:  # noqa: BLE001  one prober's crash is not the agent's
                outcome = error
            break
        self._done(made, _told(made, outcome))


def _told(made: Try, outcome: Outcome | Exception) -> Outcome | ProbeError:
    """Return the outcome; a crash of a prober says nothing about the container."""
    if isinstance(outcome, (Outcome, ProbeError)):
        return outcome
    _log.error("prober crashed", container=made.worker.container.name, exc_info=outcome)
    return ProbeError(f"{type(outcome).__name__}: {outcome}")
