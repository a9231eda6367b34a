"""The kubelet's named health checks, as far as they mean something here.

`ping` and `log` answer as long as anything does. `syncloop` fails when no pod could be looked after
for five minutes, which is when the runtime has been away for so long. Before its first answer it
passes, as in the kubelet. Source: kubelet.go SyncLoopHealthCheck.
"""

from collections.abc import Mapping

from minikubelet.host.clock import Clock

TOO_LONG = 300.0


class HealthChecks:
    """Remembers since when the runtime has been away."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._away_since: float | None = None

    def runtime_changed(self, problem: str) -> None:
        """Note that the runtime is away and why, or (with an empty text) that it is back."""
        if not problem:
            self._away_since = None
        elif self._away_since is None:
            self._away_since = self._clock.monotonic()

    def results(self) -> Mapping[str, str]:
        """Return each check with what is wrong, empty for nothing."""
        since = self._away_since
        late = since is not None and self._clock.monotonic() - since > TOO_LONG
        text = "sync Loop took longer than expected" if late else ""
        return {"ping": "", "log": "", "syncloop": text}
