"""What the local API shows: pods as an apiserver would, manifests with what is wrong with them."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from minikubelet.api.pod import Pod
from minikubelet.api.record import PodRecord
from minikubelet.api.render import status_document
from minikubelet.api.status import PodStatus
from minikubelet.pods.registry import Registry
from minikubelet.pods.worker import Worker
from minikubelet.sources.merge import NameConflict
from minikubelet.sources.reports import ManifestReport, Source


def pod_list(registry: Registry | None) -> dict[str, Any]:
    """Return a v1 PodList, sorted by namespace and name; empty while nothing is known yet."""
    records = registry.records() if registry is not None else ()
    items = [_pod(record, status, worker) for record, status, worker in records]
    items.sort(key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]))
    return {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}


def find_pod(registry: Registry | None, namespace: str, name: str) -> Pod | None:
    """Return the pod of a name; the running instance goes before one that waits for its turn."""
    for worker in registry.workers if registry is not None else ():
        metadata = worker.state.pod.metadata
        if (metadata.namespace, metadata.name) == (namespace, name):
            return worker.state.pod
    return None


def _pod(record: PodRecord, status: PodStatus, worker: Worker) -> dict[str, Any]:
    """Return the raw document with the status of this moment laid over."""
    metadata = dict(record.raw.get("metadata", {}))
    if worker.termination_text:
        metadata["deletionTimestamp"] = worker.termination_text
        metadata["deletionGracePeriodSeconds"] = worker.termination_grace
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": record.raw.get("spec", {}),
        "status": status_document(status),
    }


def manifest_list(
    sources: Iterable[Source],
    conflicts: Sequence[NameConflict],
    runtime_problem: str,
    mirror_problems: Mapping[str, str],
) -> dict[str, Any]:
    """Return what each file and URL holds, and what is wrong with it or with the runtime.

    `mirror_problems` say by full name why a static pod can't be seen in the apiserver.
    """
    return {
        "manifests": [
            manifest_document(report) for source in sources for report in source.reports()
        ],
        "conflicts": [str(conflict) for conflict in conflicts],
        "runtime": runtime_problem,
        "mirrors": dict(mirror_problems),
    }


def manifest_document(report: ManifestReport) -> dict[str, Any]:
    """Return one report as the API shows it."""
    return {
        "source": report.source,
        "location": report.location,
        "document": report.document,
        "pods": list(report.pods),
        "errors": list(report.errors),
        "warnings": list(report.warnings),
        "lastGoodRuns": report.last_good,
    }
