"""The way of each pod in time: one record that latency metrics and people's questions share."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

STEPS_PER_POD = 200


@dataclass(frozen=True, slots=True)
class Step:
    """Something a pod went through, at Unix nanoseconds."""

    at_ns: int
    name: str
    container: str = ""


class Timeline:
    """The newest steps of each pod."""

    def __init__(self, wall_ns: Callable[[], int]) -> None:
        self._wall_ns = wall_ns
        self._steps: dict[str, deque[Step]] = {}

    def mark(self, uid: str, name: str, container: str = "") -> None:
        """Note that a pod has reached a step."""
        steps = self._steps.setdefault(uid, deque(maxlen=STEPS_PER_POD))
        steps.append(Step(self._wall_ns(), name, container))

    def of(self, uid: str) -> tuple[Step, ...]:
        """Return a pod's steps, oldest first."""
        return tuple(self._steps.get(uid, ()))

    def forget(self, uid: str) -> None:
        """Drop a pod that is gone."""
        self._steps.pop(uid, None)
