"""The Services of the cluster, for the variables of containers: one watch for the node.

What is known is written down, so that containers can be restarted by an agent that started while
the apiserver was away. Source: kubelet kubelet.go (serviceLister, field selector
spec.clusterIP!=None).
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import anyio
import structlog

from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.errors import Unavailable
from minikubelet.kube.reflector import list_watch

WAIT_SECONDS = 10.0
SILENT_SECONDS = 3.0
"""After so long what is remembered serves; whoever asks later doesn't wait again."""
SAVE_PAUSE = 10.0
"""Services of a large cluster change all the time: between two writes is at least this pause."""
QUERY = {"fieldSelector": "spec.clusterIP!=None"}

_log = structlog.get_logger("objects")


class Memory(Protocol):
    """Keeps the Services over a restart of the agent."""

    async def load(self) -> Sequence[Document]:
        """Return what was saved last."""

    async def save(self, services: Sequence[Document]) -> None:
        """Replace what was saved. Raises OSError."""


class Services:
    """The Services that have an address. `memory` may be set before `run`."""

    def __init__(self, api: kube.API) -> None:
        self._api = api
        self.memory: Memory | None = None
        self._services: Mapping[str, Document] = {}
        self._remembered: Sequence[Document] = ()
        self._loaded = anyio.Event()
        self._read = anyio.Event()
        self._changed = anyio.Event()
        self._is_silent = False

    async def run(self) -> None:
        """Watch until cancelled."""
        async with anyio.create_task_group() as group:
            if self.memory is not None:
                self._remembered = await self.memory.load()
                group.start_soon(self._keep, self.memory)
            self._loaded.set()
            await list_watch(self._api, "/api/v1/services", QUERY, self._take)

    @property
    def known(self) -> Iterable[Document]:
        """Those that have been heard of, or are remembered; none before that."""
        return self._services.values() if self._read.is_set() else self._remembered

    async def all(self) -> Iterable[Document]:
        """Return all of them; waits for the first list. Raises Unavailable."""
        if not self._is_silent:
            with anyio.move_on_after(SILENT_SECONDS):
                await self._loaded.wait()
            with anyio.move_on_after(SILENT_SECONDS if self._remembered else WAIT_SECONDS):
                await self._read.wait()
        if self._read.is_set():
            return self._services.values()
        if not self._remembered:
            text = "services have not yet been read at least once, cannot construct envvars"
            raise Unavailable(text)
        self._is_silent = True
        return self._remembered

    async def _take(self, services: Mapping[str, Document]) -> None:
        self._services = services
        self._read.set()
        self._changed.set()

    async def _keep(self, memory: Memory) -> None:
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            known = [_needed(service) for service in self._services.values()]
            if known == self._remembered:
                continue
            try:
                await memory.save(known)
                self._remembered = known
            except OSError as error:
                _log.warning("cannot keep the services, tried again", error=str(error))
                self._changed.set()
            await anyio.sleep(SAVE_PAUSE)


def _needed(service: Document) -> Document:
    """Return what variables are made of."""
    meta, spec = service["metadata"], service.get("spec", {})
    ports = [
        {key: port[key] for key in ("name", "port", "protocol") if key in port}
        for port in spec.get("ports") or ()
    ]
    return {
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "spec": {"clusterIP": spec.get("clusterIP", ""), "ports": ports},
    }
