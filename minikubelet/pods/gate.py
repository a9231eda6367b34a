"""Whether a pod may go on: asked before its first step, and when its time is over.

A static pod that is refused is tried again; nobody else would bring it. One of the apiserver has
failed for good: its owner makes another. Who comes next: the worker, which carries out what is said
here. Source: kubelet kubelet.go rejectPod, active_deadline.go.
"""

from minikubelet.lifecycle.status import Verdict
from minikubelet.observe.events import NORMAL, WARNING
from minikubelet.pods.admission import Rejection
from minikubelet.pods.ending import Kill
from minikubelet.pods.kit import Kit
from minikubelet.pods.state import PodState

ADMISSION_DELAYS = (5.0, 10.0, 20.0, 40.0, 60.0)
PAST_DEADLINE = "Pod was active on the node longer than the specified deadline"


class Gate:
    """The refusals of one pod."""

    def __init__(self, kit: Kit, state: PodState) -> None:
        self._kit = kit
        self._state = state
        self._refusals = 0

    def admitted(self) -> None:
        """Note that the pod may run."""
        self._refusals = 0
        self._state.waits = ("", "")
        self._kit.timeline.mark(self._state.uid, "admitted")

    def refused(self, rejection: Rejection) -> float | Kill:
        """Tell a refusal; return the seconds to the next try, or the end of the pod."""
        state = self._state
        message = f"Pod was rejected: {rejection.message}"
        answer: float | Kill
        if state.static or rejection.passing:
            answer = ADMISSION_DELAYS[min(self._refusals, len(ADMISSION_DELAYS) - 1)]
            message += f" (tried again when something ends, or in {answer:.0f}s)"
            state.waits = (rejection.reason, message)
        else:
            state.rejected = True
            answer = Kill(removed=False, verdict=Verdict("Failed", rejection.reason, message))
        if not self._refusals or not rejection.passing:
            self._kit.events.emit(state.ref(), WARNING, rejection.reason, rejection.message)
        self._refusals += 1
        return answer

    def time_left(self) -> float | None:
        """Return the seconds until activeDeadlineSeconds is over; None without such a limit."""
        limit = self._state.pod.spec.active_deadline_seconds
        if limit is None or self._state.started_mono is None:
            return None
        return self._state.started_mono + limit - self._kit.clock.monotonic()

    def overdue(self) -> Kill:
        """Tell that the time is over; return the end of the pod."""
        self._kit.events.emit(self._state.ref(), NORMAL, "DeadlineExceeded", PAST_DEADLINE)
        return Kill(removed=False, verdict=Verdict("Failed", "DeadlineExceeded", PAST_DEADLINE))
