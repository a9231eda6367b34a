"""Wait until the machine has nothing else to do, so that a sample is about its contestant only."""

import time
from pathlib import Path

from benchmark.room import say

_LOOK_SECONDS = 1.0
_BUSY = 0.2
"""The share of all CPUs that may be in use; an agent with a few pods and containerd need less."""
_MOST_SECONDS = 30.0


def wait_for_calm() -> bool:
    """Return True when the last second was calm, False after half a minute that had none."""
    started = time.monotonic()
    before = _times()
    while time.monotonic() < started + _MOST_SECONDS:
        time.sleep(_LOOK_SECONDS)
        now = _times()
        idle, whole = now[0] - before[0], now[1] - before[1]
        if idle >= whole * (1 - _BUSY):
            return True
        before = now
    say("  the machine does other things, too: the next figure will be high")
    return False


def _times() -> tuple[int, int]:
    """Return idle and all ticks of all CPUs since boot."""
    line = Path("/proc/stat").read_text().partition("\n")[0]
    ticks = [int(field) for field in line.split()[1:9]]
    return ticks[3] + ticks[4], sum(ticks)
