"""What the probes found, as the decisions of this room read it: results by container id.

The probers write these, `actions` and `status` read them. `NO_PROBES` is the view of a node without
probers: its pods' probes don't exist for any decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from minikubelet.api.pod import Container


class Result(Enum):
    """A settled probe result."""

    SUCCESS = "success"
    FAILURE = "failure"


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """Settled results by container id; an id that is missing has no result yet."""

    liveness: Mapping[str, Result] = field(default_factory=dict)
    readiness: Mapping[str, Result] = field(default_factory=dict)
    startup: Mapping[str, Result] = field(default_factory=dict)
    probing: bool = True
    """False on a node without probers: probes then gate nothing."""

    def has_startup(self, container: Container) -> bool:
        """True when a startup probe gates the container."""
        return self.probing and container.startup_probe is not None

    def has_liveness(self, container: Container) -> bool:
        """True when a liveness probe may restart the container."""
        return self.probing and container.liveness_probe is not None

    def has_readiness(self, container: Container) -> bool:
        """True when a readiness probe gates the Ready condition."""
        return self.probing and container.readiness_probe is not None


NO_PROBES = ProbeResults(probing=False)
