"""The Services of the cluster, for the variables of containers: one watch for the node.

Source: kubelet kubelet.go (serviceLister, field selector spec.clusterIP!=None).
"""

from collections.abc import Iterable, Mapping

import anyio

from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.errors import Unavailable
from minikubelet.kube.reflector import list_watch

WAIT_SECONDS = 10.0
QUERY = {"fieldSelector": "spec.clusterIP!=None"}


class Services:
    """The Services that have an address."""

    def __init__(self, api: kube.API) -> None:
        self._api = api
        self._services: Mapping[str, Document] = {}
        self._read = anyio.Event()

    async def run(self) -> None:
        """Watch until cancelled."""
        await list_watch(self._api, "/api/v1/services", QUERY, self._take)

    @property
    def known(self) -> Iterable[Document]:
        """Those that have been heard of; none before the first list."""
        return self._services.values()

    async def all(self) -> Iterable[Document]:
        """Return all of them; waits for the first list. Raises Unavailable."""
        with anyio.move_on_after(WAIT_SECONDS):
            await self._read.wait()
            return self._services.values()
        raise Unavailable("services have not yet been read at least once, cannot construct envvars")

    async def _take(self, services: Mapping[str, Document]) -> None:
        self._services = services
        self._read.set()
