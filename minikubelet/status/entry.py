"""What is known of one pod's status: what it should be, and what the apiserver holds of it.

Pure: the manager decides when to write, by what this says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from minikubelet.api.meta import CONFIG_HASH, CONFIG_MIRROR
from minikubelet.api.record import PodRecord
from minikubelet.api.render import status_document
from minikubelet.api.status import PodStatus
from minikubelet.kube.api import Document
from minikubelet.kube.documents import version_of
from minikubelet.status.patch import continued


@dataclass(slots=True)
class Entry:
    """What is known of one pod: the status it should have and the one the apiserver holds."""

    record: PodRecord
    status: PodStatus
    static: bool
    live: Mapping[str, Any] = field(default_factory=dict)
    live_uid: str = ""
    live_version: int = -1
    due: float | None = None
    finished: bool = False
    deleted: bool = False
    sending: bool = False
    settled: Document | None = None
    """What was left to patch after a patch: this apiserver doesn't know these fields."""

    def take_live(self, document: Mapping[str, Any]) -> None:
        """Note the object as the apiserver holds it, unless a newer one is known."""
        metadata = document.get("metadata") or {}
        version = version_of(document)
        uid = metadata.get("uid", "")
        if uid != self.live_uid or version >= self.live_version:
            self.live = document.get("status") or {}
            self.live_uid, self.live_version = uid, version

    @property
    def name(self) -> str:
        """The pod's full name, for logs."""
        return self.record.pod.full_name

    def wanted(self) -> Document:
        """Return the status as the apiserver should hold it."""
        wanted = status_document(self.status)
        return continued(self.live, wanted) if self.record.manifest_uid else wanted

    def pictured_by(self, mirror: Document) -> bool:
        """Tell whether a mirror pod shows this version of a static pod and not an earlier one."""
        shown = mirror["metadata"].get("annotations", {}).get(CONFIG_MIRROR)
        return bool(shown == self.record.pod.metadata.annotations.get(CONFIG_HASH))

    def is_urgent(self) -> bool:
        """Tell whether somebody waits for this status: a new phase, readiness, an end."""
        status, live = self.status, self.live
        if status.phase not in (live.get("phase"), "Pending"):
            return True
        return _ready(live.get("conditions") or ()) != next(
            (c.status == "True" for c in status.conditions if c.type == "Ready"), False
        )

    def may_be_deleted(self) -> bool:
        """Tell whether the object of a deleted pod may go: nothing of it is left on the node."""
        asked = bool(self.record.pod.metadata.deletion_timestamp)
        return self.finished and asked and not self.deleted and not self.static


def _ready(conditions: Any) -> bool:
    return any(c.get("type") == "Ready" and c.get("status") == "True" for c in conditions)
