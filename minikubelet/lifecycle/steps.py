"""The small values that actions are made of."""

from dataclasses import dataclass
from enum import Enum


class KillCause(Enum):
    """Why a container is killed before its own end; the texts are the kubelet's."""

    DEFINITION_CHANGED = "definition changed"
    LIVENESS = "failed liveness probe"
    STARTUP = "failed startup probe"
    UNKNOWN = "unknown state"
    POST_START = "FailedPostStartHook"

    def text(self, name: str, prefix: str = "Container") -> str:
        """Return the message of the Killing event."""
        return f"{prefix} {name} {self.value}"


@dataclass(frozen=True, slots=True)
class ContainerKill:
    """Kill one container; `message` is the text of the Killing event."""

    id: str
    name: str
    message: str
    cause: KillCause
