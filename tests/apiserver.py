"""An apiserver in memory for unit tests: objects by path, merge patches, errors on demand.

Never stands in for the real one where that one's behaviour is what is tested.
"""

import copy
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.streams.memory import MemoryObjectSendStream

from minikubelet.kube import api as kube
from minikubelet.kube.api import Document, Pool
from minikubelet.kube.errors import APIError, of

COLLECTIONS = {"pods", "nodes", "configmaps", "secrets", "services", "leases"} | {
    "certificatesigningrequests"
}
MERGE_KEYS = {"conditions": "type", "podIPs": "ip", "hostIPs": "ip", "taints": "key"}


@dataclass(frozen=True)
class Request:
    """One request as it came."""

    method: str
    path: str
    body: Any
    query: Mapping[str, str]
    pool: Pool


@dataclass
class MemoryAPI:
    """Holds documents by path; `failures` are raised by the next requests, `gate` holds them."""

    objects: dict[str, Document] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    failures: list[APIError] = field(default_factory=list)
    always: APIError | None = None
    gate: anyio.Event | None = None
    on_create: Callable[[str, Document], Document] | None = None
    watchers: list[tuple["Selection", MemoryObjectSendStream[Document]]] = field(
        default_factory=list
    )
    on_change: Callable[[str, Document | None], None] = lambda _path, _document: None
    version: int = 0

    def put(self, path: str, document: Document) -> Document:
        """Store an object with a new resource version."""
        self.version += 1
        stored = copy.deepcopy(document)
        stored.setdefault("metadata", {})["resourceVersion"] = str(self.version)
        kind = "MODIFIED" if path in self.objects else "ADDED"
        self.objects[path] = stored
        self._tell(kind, path, stored)
        self.on_change(path, copy.deepcopy(stored))
        return copy.deepcopy(stored)

    def drop(self, path: str) -> None:
        """Remove an object."""
        self.version += 1
        gone = self.objects.pop(path)
        gone["metadata"]["resourceVersion"] = str(self.version)
        self._tell("DELETED", path, gone)
        self.on_change(path, None)

    def _tell(self, kind: str, path: str, document: Document) -> None:
        for selection, send in self.watchers:
            if selection.wants(path, document):
                send.send_nowait({"type": kind, "object": copy.deepcopy(document)})

    def sent(self, method: str) -> list[Request]:
        """Return the requests of one method."""
        return [request for request in self.requests if request.method == method]

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = kube.JSON,
        pool: Pool = Pool.REST,
        timeout: float = kube.REQUEST_SECONDS,
    ) -> Document:
        self.requests.append(Request(method, path, copy.deepcopy(body), query or {}, pool))
        await anyio.lowlevel.checkpoint()
        if self.gate is not None:
            await self.gate.wait()
        if self.failures:
            raise self.failures.pop(0)
        if self.always is not None:
            raise self.always
        return self._answer(method, path, body, query or {})

    def _answer(self, method: str, path: str, body: Any, query: Mapping[str, str]) -> Document:
        if method == "POST":
            return self._create(path, body)
        if method == "GET" and path.rpartition("/")[2] in COLLECTIONS:
            chosen = Selection(path, query.get("fieldSelector", ""))
            items = [d for p, d in self.objects.items() if chosen.wants(p, d)]
            return {
                "apiVersion": "v1",
                "kind": "List",
                "metadata": {"resourceVersion": str(self.version + 1)},
                "items": copy.deepcopy(items),
            }
        base = path.removesuffix("/status")
        stored = self.objects.get(base)
        if stored is None:
            raise of(404, f'"{base.rpartition("/")[2]}" not found', reason="NotFound")
        uid = stored["metadata"].get("uid", "")
        if method == "GET":
            return copy.deepcopy(stored)
        wanted = (body or {}).get("preconditions", {}).get("uid") or (
            (body or {}).get("metadata", {}).get("uid", "")
        )
        if wanted and wanted != uid:
            raise of(409, f"the UID in the precondition ({wanted}) differs", reason="Conflict")
        if method == "DELETE":
            self.drop(base)
            return {}
        if method == "PUT":
            return self.put(base, body)
        return self.put(base, merged(stored, body))

    def _create(self, path: str, body: Document) -> Document:
        name = body.get("metadata", {}).get("name", "")
        if not name or self.on_create is not None:
            answer = self.on_create(path, body) if self.on_create is not None else body
            if not name:
                return answer
            body = answer
        full = f"{path}/{name}"
        if full in self.objects:
            raise of(409, f'"{name}" already exists', reason="AlreadyExists")
        created = copy.deepcopy(body)
        created["metadata"].setdefault("uid", f"uid-of-{name}-{self.version}")
        return self.put(full, created)

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> AsyncIterator[ObjectReceiveStream[Document]]:
        if self.always is not None:
            raise self.always
        send, receive = anyio.create_memory_object_stream[Document](10_000)
        watcher = Selection(path, query.get("fieldSelector", "")), send
        self.watchers.append(watcher)
        try:
            yield receive
        finally:
            self.watchers.remove(watcher)
            send.close()
            receive.close()


class Selection:
    """What a list or watch is about: a collection and a field selector."""

    def __init__(self, path: str, selector: str) -> None:
        self.path = path
        parts = [part for part in selector.split(",") if part]
        self.fields = dict(part.split("=", 1) for part in parts if "!=" not in part)
        self.others = dict(part.split("!=", 1) for part in parts if "!=" in part)

    def wants(self, path: str, document: Document) -> bool:
        """Tell whether an object is one of these."""
        prefix, _, plural = self.path.rpartition("/")
        if (
            not path.startswith(f"{prefix}/")
            or path.rpartition("/")[0].rpartition("/")[2] != plural
        ):
            return False
        return all(_field(document, name) == value for name, value in self.fields.items()) and all(
            _field(document, name) != value for name, value in self.others.items()
        )


def _field(document: Any, name: str) -> Any:
    for part in name.split("."):
        document = (document or {}).get(part)
    return document


def merged(old: Any, patch: Any, name: str = "") -> Any:
    """Return a document after a strategic merge patch, as far as statuses need it."""
    if isinstance(patch, dict) and isinstance(old, dict):
        result = dict(old)
        for key, value in patch.items():
            if value is None:
                result.pop(key, None)
            elif key in MERGE_KEYS:
                result[key] = _merged_list(result.get(key, []), value, MERGE_KEYS[key])
            elif isinstance(value, list) and value[:1] == [{"$patch": "replace"}]:
                result[key] = copy.deepcopy(value[1:])
            else:
                result[key] = merged(result.get(key), value, key)
        return result
    return copy.deepcopy(patch)


def _merged_list(old: list[Any], patch: list[Any], key: str) -> list[Any]:
    result = {entry[key]: entry for entry in old}
    for entry in patch:
        if entry.get("$patch") == "delete":
            result.pop(entry[key], None)
        else:
            result[entry[key]] = merged(result.get(entry[key], {}), entry)
    return list(result.values())
