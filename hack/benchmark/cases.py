"""The cases and what each may cost: a share of the kubelet's figure, or a figure of its own.

A share can't ask for less than the bare CRI calls take: a case's limit is the larger one of both.
"""

from dataclasses import dataclass
from typing import NamedTuple

BARE_SHARE = 1.1


@dataclass(frozen=True, slots=True)
class Case:
    """One line of the table. `share` is of the kubelet's median, `most` an absolute limit."""

    key: str
    title: str
    unit: str = "s"
    share: float | None = None
    most: float | None = None

    def limit(self, kubelet: float | None, bare: float | None) -> float | None:
        """Return what minikubelet's median may be; None where nothing is asked for."""
        if self.most is not None:
            return self.most
        if self.share is None or kubelet is None:
            return None
        return max(self.share * kubelet, BARE_SHARE * (bare or 0))


START = Case("start", "manifest renamed into place → container running", share=0.85)
INITS = Case("inits", "the same with 3 init containers", share=0.3)
STOPPED = Case("stopped", "manifest removed → container stopped", share=1.0)
YOUNG = Case("young", "the same, of a pod just started", share=0.3)
GONE = Case("gone", "manifest removed → sandbox gone from the runtime", most=2.0)
PROBES = Case(
    "probes", "500 probes (httpGet, tcpSocket) every second: CPU of the agent", "s/min", share=1.0
)
FEW = (START, INITS, STOPPED, YOUNG, GONE)


class Many(NamedTuple):
    """The cases of a number of pods."""

    running: Case
    agent_cpu: Case
    runtime_cpu: Case
    memory: Case


def many(pods: int) -> Many:
    """Return the cases of so many pods. Keys are `many30`, `agent30`, `runtime30`, `rss30`."""
    idle = f"idle with {pods} pods: CPU of"
    return Many(
        Case(f"many{pods}", f"{pods} pods at once, all running", share=0.8),
        Case(f"agent{pods}", f"{idle} the agent", "s/min", share=0.3),
        Case(f"runtime{pods}", f"{idle} containerd and its shims", "s/min", share=0.3),
        Case(f"rss{pods}", f"memory (VmRSS) of the agent with {pods} pods", "MiB", share=0.8),
    )
