"""Fault points: end this process, or wait, right before or after a CRI call.

    MINIKUBELET_FAULTS=after:CreateContainer:2
    MINIKUBELET_FAULTS=before:StopContainer:1,delay-after:RunPodSandbox:1:300

Each entry is `before|after:CALL:N` (SIGKILL to this process) or
`delay-before|delay-after:CALL:N:SECONDS`. CALL is CRI's name of the method, N counts from 1: the
first example ends the agent after the runtime answered its 2nd CreateContainer. This is how tests
check that a kubelet recovers: a call cut off in the middle leaves exactly what a crash leaves. The
agent reads the environment variable once; here is only the text's meaning and the wrapping.
"""

import os
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import anyio

S = TypeVar("S")

_METHODS = {
    "RunPodSandbox": "run_pod_sandbox",
    "StopPodSandbox": "stop_pod_sandbox",
    "RemovePodSandbox": "remove_pod_sandbox",
    "PodSandboxStatus": "pod_sandbox_status",
    "ListPodSandbox": "list_pod_sandbox",
    "CreateContainer": "create_container",
    "StartContainer": "start_container",
    "StopContainer": "stop_container",
    "RemoveContainer": "remove_container",
    "ListContainers": "list_containers",
    "ContainerStatus": "container_status",
    "ExecSync": "exec_sync",
    "Exec": "exec",
    "Attach": "attach",
    "PortForward": "port_forward",
    "ReopenContainerLog": "reopen_container_log",
    "Version": "version",
    "Status": "status",
    "ImageStatus": "image_status",
    "PullImage": "pull_image",
    "ListImages": "list_images",
    "RemoveImage": "remove_image",
}
CALLS = tuple(_METHODS)
"""The calls that can be named."""


@dataclass(frozen=True, slots=True)
class FaultPoint:
    """One planned fault: at the `number`th call; `seconds` is None for a kill."""

    after: bool
    call: str
    number: int
    seconds: float | None = None


def parse(text: str) -> tuple[tuple[FaultPoint, ...], tuple[str, ...]]:
    """Return the fault points of a MINIKUBELET_FAULTS text, and all that is wrong with it."""
    points: list[FaultPoint] = []
    errors: list[str] = []
    for entry in filter(None, (part.strip() for part in text.split(","))):
        found = _parse_entry(entry)
        if isinstance(found, FaultPoint):
            points.append(found)
        else:
            errors.append(f"cannot read the fault {entry!r}: {found}")
    return tuple(points), tuple(errors)


def _parse_entry(entry: str) -> FaultPoint | str:
    kind, *rest = entry.split(":")
    delay = kind.startswith("delay-")
    when = kind.removeprefix("delay-")
    if when not in {"before", "after"} or len(rest) != 2 + delay:
        return "expected before|after:CALL:N or delay-before|delay-after:CALL:N:SECONDS"
    call, number = rest[0], rest[1]
    if call not in _METHODS:
        return f"{call!r} is no CRI call, one of {', '.join(CALLS)}"
    if not number.isdecimal() or int(number) < 1:
        return f"the count {number!r} is no whole number from 1"
    if not delay:
        return FaultPoint(when == "after", call, int(number))
    try:
        seconds = float(rest[2])
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < float("inf"):
        return f"the delay {rest[2]!r} is no number of seconds"
    return FaultPoint(when == "after", call, int(number), seconds)


def kill_self() -> None:
    """End this process as `kill -9` does: nothing is cleaned up, no handler runs."""
    os.kill(os.getpid(), signal.SIGKILL)


class Faults:
    """Counts calls over everything it wraps and carries out the planned faults."""

    def __init__(
        self, points: tuple[FaultPoint, ...], kill: Callable[[], None] = kill_self
    ) -> None:
        self._points = points
        self._kill = kill
        self._counts = dict.fromkeys(CALLS, 0)

    def wrap(self, service: S) -> S:
        """Return the same runtime or image service with the fault points in place."""
        return cast("S", _Wrapped(service, self)) if self._points else service

    async def around(self, call: str, run: Callable[[], Awaitable[Any]]) -> Any:
        """Carry a call out with its faults."""
        self._counts[call] += 1
        number = self._counts[call]
        await self._strike(call, number, after=False)
        result = await run()
        await self._strike(call, number, after=True)
        return result

    async def _strike(self, call: str, number: int, *, after: bool) -> None:
        for point in self._points:
            if (point.call, point.number, point.after) != (call, number, after):
                continue
            if point.seconds is None:
                self._kill()
            else:
                await anyio.sleep(point.seconds)


class _Wrapped:
    """A service whose CRI calls pass `Faults.around`; all else is the service's own."""

    def __init__(self, service: object, faults: Faults) -> None:
        self._service = service
        self._faults = faults
        self._calls = {method: call for call, method in _METHODS.items()}

    def __getattr__(self, name: str) -> Any:
        inner = getattr(self._service, name)
        call = self._calls.get(name)
        if call is None:
            return inner

        async def faulty(*args: Any, **kwargs: Any) -> Any:
            return await self._faults.around(call, lambda: inner(*args, **kwargs))

        return faulty
