"""The container runtime at the agent's start: fault points before it, its first answer."""

import os

import anyio
import structlog

from minikubelet.cri import faults
from minikubelet.cri.client import Client
from minikubelet.cri.errors import CRIError
from minikubelet.pleg.monitor import Monitor

FIRST_ANSWER_PAUSES = (0.1, 0.2, 0.5, 1.0)

_log = structlog.get_logger("agent")


async def first_answer(client: Client, endpoint: str, monitor: Monitor) -> str:
    """Wait until the runtime has said who it is; return its name."""
    attempt = 0
    while True:
        try:
            version = await client.runtime.version()
        except CRIError as error:
            monitor.problem = f"container runtime is down: {error}"
            if attempt == 0:
                _log.warning(
                    "the container runtime doesn't answer, waiting for it",
                    endpoint=endpoint,
                    error=str(error),
                )
            await anyio.sleep(FIRST_ANSWER_PAUSES[min(attempt, len(FIRST_ANSWER_PAUSES) - 1)])
            attempt += 1
        else:
            return version.runtime_name


def with_faults(client: Client) -> Client:
    """Put the fault points of MINIKUBELET_FAULTS between the agent and the runtime."""
    text = os.environ.get("MINIKUBELET_FAULTS", "")
    if not text:
        return client
    points, problems = faults.parse(text)
    if problems:
        raise SystemExit("cannot read MINIKUBELET_FAULTS: " + "; ".join(problems))
    _log.warning("fault points are set", faults=text)
    active = faults.Faults(points)
    return Client(active.wrap(client.runtime), active.wrap(client.images), client.events)
