"""Static pods that another agent started: which of them a manifest means.

A kubelet hashes manifests in its own way, so its static pods have other uids than ours. A pod of
the runtime that nobody here knows, that has the manifest's full name and no container with another
name or hash is that manifest's pod: the manifest takes its uid, and nothing restarts. The hash
covers name and image (`criconfig.hash`), so an edit of anything else that was made while no agent
ran isn't seen; the next edit is. Source of the hash: kuberuntime, container/helpers.go.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Any, Protocol

import msgspec
import structlog

from minikubelet.api.meta import CONFIG_HASH
from minikubelet.api.record import PodRecord
from minikubelet.criconfig.hash import container_hash
from minikubelet.lifecycle.runtime import PodRuntimeStatus

_log = structlog.get_logger("pods")


class Views(Protocol):
    """The runtime's pods, as `pleg.cache` has them."""

    def uids(self) -> set[str]:
        """Return all that the runtime holds."""

    def get(self, uid: str) -> PodRuntimeStatus:
        """Return one pod's view."""


class Adoptions:
    """Which manifests' pods run under another uid; `remembered` are those of the last run."""

    def __init__(self, remembered: Iterable[PodRecord]) -> None:
        self._uids = {each.manifest_uid: each.uid for each in remembered if each.manifest_uid}

    def as_it_runs(self, record: PodRecord, views: Views, known: AbstractSet[str]) -> PodRecord:
        """Return a manifest's pod under the uid that it runs with; `known` uids are nobody else's.

        Once found it stays, so that each look at an unchanged manifest means the same pod.
        """
        uid = self._uids.get(record.uid, "")
        if not uid:
            held, ours = views.uids(), known | set(self._uids.values())
            if record.uid in ours or record.uid in held:
                return record
            uid = runtime_uid(record, map(views.get, held - ours))
            if not uid:
                return record
            self._uids[record.uid] = uid
            _log.info("static pod taken over as it runs", pod=record.pod.full_name, uid=uid)
        return under_uid(record, uid)


def runtime_uid(record: PodRecord, unknown: Iterable[PodRuntimeStatus]) -> str:
    """Return the uid that the manifest's pod has in the runtime; empty if it isn't there. Pure.

    `unknown` are the runtime's pods that no worker and no memory of ours belongs to. Of several
    the one with the newest sandbox counts.
    """
    hashes = {each.name: container_hash(each) for each in record.pod.all_containers()}
    found = [view for view in unknown if _is_the_pod(view, record, hashes)]
    newest = max(found, key=_age, default=None)
    return newest.uid if newest is not None else ""


def _is_the_pod(view: PodRuntimeStatus, record: PodRecord, hashes: Mapping[str, str]) -> bool:
    if f"{view.name}_{view.namespace}" != record.pod.full_name:
        return False
    newest = {each.name: view.newest(each.name) for each in view.containers}
    return bool(newest) and all(
        each is not None and each.hash == hashes.get(name) for name, each in newest.items()
    )


def _age(view: PodRuntimeStatus) -> int:
    return max((sandbox.created_at for sandbox in view.sandboxes), default=0)


def under_uid(record: PodRecord, uid: str) -> PodRecord:
    """Return the manifest's pod under the uid that it runs with. Pure.

    Its mirror pod is told apart by the same hash as before, so that it stays, too.
    """
    metadata = record.pod.metadata
    annotations = {**metadata.annotations, CONFIG_HASH: uid}
    raw_metadata: dict[str, Any] = dict(record.raw["metadata"])
    raw_metadata |= {
        "uid": uid,
        "annotations": {**raw_metadata.get("annotations", {}), CONFIG_HASH: uid},
    }
    return replace(
        record,
        pod=msgspec.structs.replace(
            record.pod,
            metadata=msgspec.structs.replace(metadata, uid=uid, annotations=annotations),
        ),
        raw={**record.raw, "metadata": raw_metadata},
        manifest_uid=record.uid,
    )
