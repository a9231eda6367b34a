"""What must outlive the agent about one pod, as one document.

Holds the accepted pod, its last status, postStart hooks that haven't ended, and the deadline of a
termination under way. `pods.worker` writes it, `pods.recovery` reads it at start.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import structlog

from minikubelet.api import timestamp
from minikubelet.api.pod import Pod, ResourceRequirements
from minikubelet.api.record import PodRecord
from minikubelet.api.status import PodStatus
from minikubelet.state.directory import StateDirectory

SUBJECT = "pods"
NO_STATUS = PodStatus()


@dataclass(frozen=True, slots=True)
class Termination:
    """A termination begun: the wall-clock end of its grace, and what it says of the pod."""

    deadline_ns: int
    removed: bool
    """True when no source has the pod any more."""
    deleted: bool = False
    """True when the pod's object in the apiserver is to go once the pod has ended."""
    phase: str = ""
    reason: str = ""
    message: str = ""
    disruption: str = ""


@dataclass(frozen=True, slots=True)
class PodMemory:
    """One pod's document."""

    record: PodRecord
    source: str
    status: PodStatus = NO_STATUS
    sandbox_id: str = ""
    completed_init: frozenset[str] = frozenset()
    pending_hooks: Mapping[str, str] = field(default_factory=dict)
    """Container id to container name: started, its postStart hook not known to have ended."""
    termination: Termination | None = None
    allocated: Mapping[str, ResourceRequirements] = field(default_factory=dict)
    """By container name: the resources that the pod was admitted with."""


class PodMemories:
    """The documents of all pods."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory
        self._log = structlog.get_logger("state")

    async def save(self, memory: PodMemory) -> None:
        """Write one pod's document."""
        ending = memory.termination
        document: dict[str, Any] = {
            "source": memory.source,
            "origin": memory.record.origin,
            "manifestUID": memory.record.manifest_uid,
            "pod": memory.record.raw,
            "status": msgspec.to_builtins(memory.status),
            "sandboxID": memory.sandbox_id,
            "completedInitContainers": sorted(memory.completed_init),
            "pendingPostStartHooks": dict(memory.pending_hooks),
            "allocatedResources": msgspec.to_builtins(dict(memory.allocated)),
        }
        if ending is not None:
            document["termination"] = {
                "deadlineUnixNano": ending.deadline_ns,
                "removed": ending.removed,
                "deleted": ending.deleted,
                "phase": ending.phase,
                "reason": ending.reason,
                "message": ending.message,
                "disruption": ending.disruption,
            }
        await self._directory.save(SUBJECT, memory.record.uid, document)

    async def forget(self, uid: str) -> None:
        """Remove one pod's document."""
        await self._directory.delete(SUBJECT, uid)

    async def load(self) -> dict[str, PodMemory]:
        """Return every pod's document by uid; one that doesn't decode is left out."""
        memories = {}
        for uid, document in (await self._directory.load(SUBJECT)).items():
            memory = _decode(document)
            # A copy under another name isn't another pod.
            if memory is not None and memory.record.uid == uid:
                memories[uid] = memory
            else:
                self._log.warning("cannot use what is remembered of a pod", uid=uid)
        return memories


def _decode(document: Mapping[str, Any]) -> PodMemory | None:
    try:
        raw = document["pod"]
        ending = document.get("termination")
        return PodMemory(
            record=PodRecord(
                msgspec.convert(raw, Pod),
                raw,
                document.get("origin", ""),
                document.get("manifestUID", ""),
            ),
            source=document.get("source", ""),
            status=_status(document),
            sandbox_id=document.get("sandboxID", ""),
            completed_init=frozenset(document.get("completedInitContainers", ())),
            pending_hooks=dict(document.get("pendingPostStartHooks", {})),
            allocated=msgspec.convert(
                document.get("allocatedResources", {}), dict[str, ResourceRequirements]
            ),
            termination=None
            if ending is None
            else Termination(
                int(ending["deadlineUnixNano"]),
                bool(ending["removed"]),
                bool(ending.get("deleted", False)),
                ending.get("phase", ""),
                ending.get("reason", ""),
                ending.get("message", ""),
                ending.get("disruption", ""),
            ),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _status(document: Mapping[str, Any]) -> PodStatus:
    """Return the status; one with a broken time would trip whoever reads it. Raises ValueError."""
    status = msgspec.convert(document.get("status", {}), PodStatus)
    if status.start_time:
        timestamp.parse(status.start_time)
    return status
