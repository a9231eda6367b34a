"""An apiserver's lists and watches in memory: one collection, its history, and faults on demand."""

import copy
import math
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from anyio.abc import ObjectReceiveStream
from anyio.lowlevel import checkpoint

from minikubelet.kube.api import JSON, REQUEST_SECONDS, Document, Pool
from minikubelet.kube.errors import APIError, Gone, Unavailable


@dataclass
class Call:
    second: float
    verb: str
    query: Mapping[str, str]


@dataclass(eq=False)
class Watch(ObjectReceiveStream[Document]):
    """One open watch."""

    ends_at: float
    given_up_at: float
    waiting: deque[Document | APIError | None] = field(default_factory=deque)
    arrived: anyio.Event = field(default_factory=anyio.Event)
    silent: bool = False

    def go_silent(self) -> None:
        """Let the connection die without anybody being told."""
        self.silent = True
        self.arrived.set()

    def send(self, item: Document | APIError | None) -> None:
        """Send an event, an error of the connection, or None for the end."""
        if not self.silent:
            self.waiting.append(copy.deepcopy(item) if isinstance(item, dict) else item)
            self.arrived.set()

    async def receive(self) -> Document:
        while not self.waiting:
            self.arrived = anyio.Event()
            deadline = self.given_up_at if self.silent else min(self.ends_at, self.given_up_at)
            with anyio.CancelScope(deadline=deadline) as scope:
                await self.arrived.wait()
            if scope.cancelled_caught:
                if deadline == self.given_up_at:
                    raise Unavailable("the connection is silent")
                raise anyio.EndOfStream
        item = self.waiting.popleft()
        if item is None:
            raise anyio.EndOfStream
        if isinstance(item, APIError):
            raise item
        return item

    async def aclose(self) -> None:
        self.ends_at = -math.inf


@dataclass
class MemoryAPI:
    """Implements `kube.api.API` for one collection of ConfigMaps.

    `failures` are raised by the next lists and watches, in order; None lets one pass.
    """

    version: int = 10
    objects: dict[str, Document] = field(default_factory=dict)
    history: list[tuple[int, Document]] = field(default_factory=list)
    compacted: int = 0
    failures: deque[APIError | None] = field(default_factory=deque)
    calls: list[Call] = field(default_factory=list)
    watches: list[Watch] = field(default_factory=list)
    page_size: int = 500
    pages_expire: bool = False

    def put(self, name: str, **fields: Any) -> None:
        kind = "MODIFIED" if name in self.objects else "ADDED"
        self.version += 1
        metadata = {"name": name, "namespace": "default", "managedFields": [{"manager": "x"}]}
        metadata["resourceVersion"] = str(self.version)
        self.objects[name] = {"metadata": metadata, **fields}
        self._publish(kind, {"apiVersion": "v1", "kind": "ConfigMap", **self.objects[name]})

    def delete(self, name: str) -> None:
        self.version += 1
        document = copy.deepcopy(self.objects.pop(name))
        document["metadata"]["resourceVersion"] = str(self.version)
        self._publish("DELETED", document)

    def bookmark(self) -> None:
        """Let the version move on by changes elsewhere, and say so."""
        self.version += 100
        self.send(
            {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": f"{self.version}"}}}
        )

    def send(self, item: Document | APIError | None) -> None:
        """Send to all open watches."""
        for watch in self.watches:
            watch.send(item)

    def verbs(self) -> list[str]:
        return [call.verb for call in self.calls]

    def _publish(self, kind: str, document: Document) -> None:
        event = {"type": kind, "object": document}
        self.history.append((self.version, event))
        self.send(event)

    async def request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = JSON,
        pool: Pool = Pool.REST,
        timeout: float = REQUEST_SECONDS,
    ) -> Document:
        assert (method, pool) == ("GET", Pool.WATCH)
        await self._enter("list", query or {})
        query = query or {}
        if "continue" in query and self.pages_expire:
            raise Gone("The provided continue parameter is too old", code=410)
        begin = int(query.get("continue", "0"))
        end = begin + self.page_size if "limit" in query else len(self.objects)
        items = copy.deepcopy(list(self.objects.values())[begin:end])
        meta = {"resourceVersion": str(self.version)}
        if end < len(self.objects):
            meta["continue"] = str(end)
        return {"apiVersion": "v1", "kind": "ConfigMapList", "metadata": meta, "items": items}

    @asynccontextmanager
    async def watch(
        self, path: str, query: Mapping[str, str], timeout: float
    ) -> AsyncIterator[ObjectReceiveStream[Document]]:
        await self._enter("watch", query)
        since, now = int(query["resourceVersion"]), anyio.current_time()
        if since < self.compacted:
            raise Gone("too old resource version", code=410)
        watch = Watch(now + int(query["timeoutSeconds"]), now + timeout)
        for version, event in self.history:
            if version > since:
                watch.send(event)
        self.watches.append(watch)
        try:
            yield watch
        finally:
            self.watches.remove(watch)

    async def _enter(self, verb: str, query: Mapping[str, str]) -> None:
        self.calls.append(Call(anyio.current_time(), verb, query))
        await checkpoint()
        failure = self.failures.popleft() if self.failures else None
        if failure is not None:
            raise failure
