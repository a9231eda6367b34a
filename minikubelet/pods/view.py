"""The pods as the API shows them: raw documents with the status of this moment laid over."""

from typing import Any

from minikubelet.api.render import status_document
from minikubelet.pods.registry import Registry


def pod_list(registry: Registry) -> dict[str, Any]:
    """Return a v1 PodList, sorted by namespace and name."""
    items = []
    for record, status, worker in registry.records():
        item = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": dict(record.raw.get("metadata", {})),
            "spec": record.raw.get("spec", {}),
            "status": status_document(status),
        }
        if worker.ending and worker.termination_text:
            item["metadata"]["deletionTimestamp"] = worker.termination_text
        items.append(item)
    items.sort(key=lambda item: (item["metadata"].get("namespace", ""), item["metadata"]["name"]))
    return {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}
