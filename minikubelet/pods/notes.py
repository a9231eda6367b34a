"""What must outlive the agent of one pod, written down when it has changed.

A full disk costs the memory, not the pod: what couldn't be kept is tried again. What a restart
makes of it is `recovery`'s. Who comes next: the worker, which says when.
"""

from minikubelet.pods.ending import Ending
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState


class Notes:
    """The written memory of one pod."""

    def __init__(self, kit: Kit, state: PodState) -> None:
        self._kit = kit
        self._state = state
        self._noted: Ending | None = None
        self._saved = None if state.termination is None else state.memory()

    async def save(self, ending: Ending | None) -> None:
        """Write down what differs from what is written. Raises OSError."""
        if ending is not None and ending != self._noted:
            now, wall_ns = self._kit.clock.monotonic(), self._kit.clock.wall_ns()
            self._state.termination = ending.note(self._state.verdict, now, wall_ns)
            self._noted = ending
        memory = self._state.memory()
        if memory == self._saved:
            return
        await self._kit.memories.save(memory)
        self._saved = memory
