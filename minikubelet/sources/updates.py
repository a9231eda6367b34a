"""What sources say and what the sync loop gets: whole sets in, pod updates out. Values only.

Source: kubelet types/pod_update.go.
"""

from dataclasses import dataclass
from enum import StrEnum

from minikubelet.api.record import PodRecord

FILE = "file"
HTTP = "http"
API = "api"


class Op(StrEnum):
    """What happened to the pods of an update."""

    ADD = "ADD"
    UPDATE = "UPDATE"
    REMOVE = "REMOVE"
    DELETE = "DELETE"
    RECONCILE = "RECONCILE"


@dataclass(frozen=True, slots=True)
class SourceSet:
    """Every pod that one source wants now; a source always delivers the whole set."""

    source: str
    pods: tuple[PodRecord, ...]


@dataclass(frozen=True, slots=True)
class PodUpdate:
    """Pods of one source to which the same thing happened."""

    op: Op
    source: str
    pods: tuple[PodRecord, ...]
