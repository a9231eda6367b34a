"""The apiserver as its administrator sees it: JSON over HTTPS, without a kubectl process a look.

Requests run in threads, so that a test waits for nothing else; a `Watch` collects what an apiserver
tells of some objects, with the second in which it came.
"""

import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode, urlsplit

import anyio.to_thread

from tests.clusters import Cluster, Keys

GROUPS = {
    "leases": "/apis/coordination.k8s.io/v1",
    "csinodes": "/apis/storage.k8s.io/v1",
    "deployments": "/apis/apps/v1",
    "runtimeclasses": "/apis/node.k8s.io/v1",
    "priorityclasses": "/apis/scheduling.k8s.io/v1",
    "clusterrolebindings": "/apis/rbac.authorization.k8s.io/v1",
}
CLUSTER_WIDE = {
    "nodes",
    "namespaces",
    "csinodes",
    "runtimeclasses",
    "priorityclasses",
    "clusterrolebindings",
}


def path_of(kind: str, namespace: str, name: str = "", sub: str = "") -> str:
    """Return where objects of a kind (its singular) live."""
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    parts = [GROUPS.get(plural, "/api/v1")]
    if plural not in CLUSTER_WIDE:
        parts.append(f"namespaces/{namespace}")
    parts += [part for part in (plural, name, sub) if part]
    return "/".join(parts)


class Administrator:
    """One cluster's administrator, or whoever else `keys` belong to."""

    def __init__(self, cluster: Cluster, keys: Keys | None = None) -> None:
        url = urlsplit(cluster.server)
        self._address = (str(url.hostname), int(url.port or 443))
        self._keys = keys or cluster.admin
        self._context = ssl.create_default_context(cafile=str(cluster.ca))
        self._context.load_cert_chain(self._keys.certificate, self._keys.key)
        self._idle: list[http.client.HTTPSConnection] = []

    def connect(self, seconds: float = 20.0) -> http.client.HTTPSConnection:
        """Return a connection of its own."""
        return http.client.HTTPSConnection(*self._address, timeout=seconds, context=self._context)

    async def request(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, dict[str, Any]]:
        """Make a request; return the status and the answer's document."""
        return await anyio.to_thread.run_sync(self._request, method, path, body, kind)

    async def get(self, path: str) -> dict[str, Any]:
        """Return an object; empty when there is none."""
        status, document = await self.request("GET", path)
        if status == http.client.NOT_FOUND:
            return {}
        assert status == http.client.OK, document
        return document

    async def ask(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        """Make a request that must succeed."""
        status, document = await self.request(method, path, body, kind)
        assert status < http.client.BAD_REQUEST, f"{method} {path}: {status} {document}"
        return document

    def close(self) -> None:
        """Close what is open."""
        while self._idle:
            self._idle.pop().close()

    def watch(self, path: str, **query: str) -> "Watch":
        """Collect what is told from now on: `with administrator.watch(path) as watch`."""
        return Watch(self, path, query)

    def _request(self, method: str, path: str, body: Any, kind: str) -> tuple[int, dict[str, Any]]:
        data = None if body is None else json.dumps(body)
        while True:
            is_idle = bool(self._idle)
            connection = self._idle.pop() if is_idle else self.connect()
            try:
                connection.request(method, path, data, {"Content-Type": kind})
                answer = connection.getresponse()
                text = answer.read()
            except (OSError, http.client.HTTPException):
                connection.close()
                if is_idle:
                    continue  # it may have been closed long ago; a new one tells the truth
                raise
            self._idle.append(connection)
            return answer.status, json.loads(text) if text.startswith(b"{") else {}


@dataclass(frozen=True)
class Told:
    """One event of a watch, and the monotonic second when it came."""

    type: str
    object: dict[str, Any]
    second: float = field(default_factory=time.monotonic)


class Watch:
    """What an apiserver tells of some objects. `on_event` is called in the watch's own thread."""

    def __init__(self, administrator: Administrator, path: str, query: Mapping[str, str]) -> None:
        self.told: list[Told] = []
        self.on_event: Callable[[Told], None] = lambda _told: None
        self._connection = administrator.connect(600.0)
        self._url = f"{path}?{urlencode({'watch': 'true', 'resourceVersion': '0', **query})}"
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._connection.request("GET", self._url)
        self._answer = self._connection.getresponse()
        assert self._answer.status == http.client.OK, self._answer.read()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with suppress(OSError):
            self._connection.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join(10)
        self._connection.close()

    def _run(self) -> None:
        with suppress(OSError, http.client.HTTPException, ValueError, AttributeError):
            while line := self._answer.readline():
                document = json.loads(line)
                told = Told(document["type"], document["object"])
                self.on_event(told)
                self.told.append(told)

    def of(self, name: str) -> list[Told]:
        """Return what was told of one object."""
        strange = [told for told in self.told if "name" not in told.object["metadata"]]
        assert not strange, strange
        return [told for told in self.told if told.object["metadata"]["name"] == name]

    def gone(self, name: str) -> bool:
        """Tell whether an object was seen going."""
        return any(told.type == "DELETED" for told in self.of(name))
