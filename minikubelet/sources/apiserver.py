"""The apiserver source: the pods bound to this node, as one watch sees them.

Delivers the whole set after each change, mirror pods apart: they are no wish of anybody, only the
picture of a static pod. A pod that can't be read keeps its last version that could, with the error
beside it. Never starts or ends anything: `merge` compares, workers act.
Source: kubelet config/apiserver.go.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from minikubelet.api.codec import DecodeError, decode_pod, without_nulls
from minikubelet.api.meta import CONFIG_MIRROR
from minikubelet.api.record import PodRecord
from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.reflector import list_watch
from minikubelet.sources.reporting import Reporter
from minikubelet.sources.reports import ManifestReport
from minikubelet.sources.updates import API, SourceSet

Send = Callable[[SourceSet], Awaitable[None]]


class APISource:
    """The pods of one node. `on_mirrors` gets the mirror pods by full name (`name_namespace`)."""

    def __init__(
        self,
        api: kube.API,
        node_name: str,
        *,
        on_mirrors: Callable[[Mapping[str, Document]], None],
        on_problem: Callable[[ManifestReport], None] | None = None,
    ) -> None:
        self._api = api
        self._node_name = node_name
        self._on_mirrors = on_mirrors
        self._reporter = Reporter(on_problem)
        self._pods: dict[str, _Decoded] = {}
        self._newest: Mapping[str, Document] = {}
        self._changed = anyio.Event()
        self.problem = ""
        """Why the apiserver isn't heard now; empty when it is."""

    async def run(self, send: Send, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Deliver the set after the first list and after each change, until cancelled.

        Started at once: an apiserver that is away must not hold up static pods.
        """
        query = {"fieldSelector": f"spec.nodeName={self._node_name}"}
        task_status.started()
        async with anyio.create_task_group() as group:
            group.start_soon(self._deliver, send)
            await list_watch(
                self._api, kube.pods_path(), query, self._take, on_problem=self._note_problem
            )

    def reports(self) -> list[ManifestReport]:
        """Return what is wrong with pods that the apiserver sent."""
        return self._reporter.reports()

    def _note_problem(self, problem: str) -> None:
        self.problem = problem

    async def _take(self, documents: Mapping[str, Document]) -> None:
        self._newest = documents
        self._changed.set()

    async def _deliver(self, send: Send) -> None:
        """Send the newest set; what changes while a set is being taken comes with the next."""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            records, mirrors = self._read(self._newest)
            self._on_mirrors(mirrors)
            await send(SourceSet(API, records))

    def _read(
        self, documents: Mapping[str, Document]
    ) -> tuple[tuple[PodRecord, ...], dict[str, Document]]:
        decoded = {
            uid: _decode(document, self._pods.get(uid))
            for document in documents.values()
            if (uid := document.get("metadata", {}).get("uid"))
        }
        self._pods = decoded
        self._reporter.update([pod.report for pod in decoded.values() if pod.report is not None])
        mirrors: dict[str, Document] = {}
        records = []
        for pod in decoded.values():
            if is_mirror(pod.raw):
                mirrors[_full_name(pod.raw)] = pod.raw
            elif pod.record is not None:
                records.append(pod.record)
        return tuple(records), mirrors


@dataclass(frozen=True, slots=True)
class _Decoded:
    """One version of a pod: decoded once, however often the set is delivered."""

    raw: Document
    record: PodRecord | None
    report: ManifestReport | None

    @property
    def version(self) -> str:
        """The object's resource version."""
        version: str = self.raw["metadata"].get("resourceVersion", "")
        return version


def _decode(raw: Document, earlier: _Decoded | None) -> _Decoded:
    if earlier is not None and earlier.version == raw["metadata"].get("resourceVersion", ""):
        return earlier
    # Items of a list carry neither.
    document = {"apiVersion": "v1", "kind": "Pod", **without_nulls(raw)}
    try:
        return _Decoded(document, PodRecord(decode_pod(document), document), None)
    except DecodeError as error:
        name = _full_name(raw)
        kept = earlier.record if earlier is not None else None
        text = f"cannot read pod {name} as the apiserver sent it: {error}; correct the pod"
        report = ManifestReport(API, name, pods=(name,), errors=(text,), last_good=kept is not None)
        return _Decoded(document, kept, report)


def is_mirror(document: Mapping[str, Any]) -> bool:
    """Tell whether a pod only pictures a static pod."""
    return CONFIG_MIRROR in (document.get("metadata", {}).get("annotations") or {})


def _full_name(document: Mapping[str, Any]) -> str:
    metadata = document["metadata"]
    return f"{metadata.get('name', '')}_{metadata.get('namespace', '')}"
