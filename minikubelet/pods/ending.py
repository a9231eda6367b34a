"""The wish to end a pod: many may come, they merge into one. Pure; time (seconds) is an argument.

Of several grace periods the shortest counts; removal and deletion stick; the first verdict stays.
Source: kubelet pod_workers.go (calculateEffectiveGracePeriod).
"""

from dataclasses import dataclass

from minikubelet.api.timestamp import NANOSECONDS
from minikubelet.lifecycle.status import Verdict
from minikubelet.state.pods import Termination

MIN_GRACE = 1.0
MAX_GRACE = 2**31 - 1
"""Runtimes count a stop's time in nanoseconds of 64 bits: more seconds would end at once there."""
NO_VERDICT = Verdict("", "", "")


@dataclass(frozen=True, slots=True)
class Kill:
    """A wish to end the pod.

    `removed`: no source has it any more, every trace goes with it. `deleted`: its object in the
    apiserver goes once it has ended; what is remembered of it stays until then. `grace` in seconds;
    None for the pod's own.
    """

    removed: bool
    deleted: bool = False
    grace: float | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """What all wishes together mean: `deadline` is the monotonic end of the grace."""

    deadline: float
    grace: float
    removed: bool = False
    deleted: bool = False

    @property
    def unwanted(self) -> bool:
        """True when nothing of the pod needs to be kept on the node once it has stopped."""
        return self.removed or self.deleted

    def note(self, verdict: Verdict | None, now: float, wall_ns: int) -> Termination:
        """Return it in wall time, to be written down: it is one budget over restarts, too."""
        said = verdict or NO_VERDICT
        return Termination(
            deadline_ns=wall_ns + round((self.deadline - now) * NANOSECONDS),
            removed=self.removed,
            deleted=self.deleted,
            phase=said.phase,
            reason=said.reason,
            message=said.message,
            disruption=said.disruption,
        )


def merged(earlier: Ending | None, kill: Kill, own_grace: float, now: float) -> Ending:
    """Return what one more wish makes of the earlier ones; `own_grace` is the pod's, in seconds."""
    grace = min(max(MIN_GRACE, own_grace if kill.grace is None else kill.grace), MAX_GRACE)
    if earlier is None:
        return Ending(now + grace, grace, kill.removed, kill.deleted)
    sooner = now + grace < earlier.deadline
    return Ending(
        now + grace if sooner else earlier.deadline,
        grace if sooner else earlier.grace,
        earlier.removed or kill.removed,
        earlier.deleted or kill.deleted,
    )
