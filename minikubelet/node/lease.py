"""The node's heartbeat: a Lease renewed every quarter of its duration.

Owned by the Node object of this moment: while there is none, nothing is renewed, so that a deleted
node doesn't look alive. Source: component-helpers apimachinery/lease/controller.go (KEP-589).
"""

from collections.abc import Callable
from datetime import UTC, datetime

import anyio
import structlog

from minikubelet.host.clock import Clock
from minikubelet.kube.api import API, Document, Pool
from minikubelet.kube.errors import AlreadyExists, APIError, Conflict, NotFound

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
RENEW_FRACTION = 0.25
JITTER = 0.04
FIRST_PAUSE, MAX_PAUSE = 0.2, 7.0

_log = structlog.get_logger("lease")


class LeaseKeeper:
    """Renews one lease. `node_uid` gives the uid of the Node object, empty while there is none."""

    def __init__(
        self,
        api: API,
        name: str,
        duration: int,
        clock: Clock,
        random: Callable[[], float],
        node_uid: Callable[[], str],
    ) -> None:
        self._api = api
        self._name = name
        self._duration = duration
        self._clock = clock
        self._random = random
        self._node_uid = node_uid
        self._lease: Document | None = None
        self._failures = 0
        self._registered = anyio.Event()

    def registered(self) -> None:
        """Say that there is a Node object (again): the next renewal comes at once."""
        self._registered.set()

    async def run(self) -> None:
        """Renew until cancelled."""
        while True:
            self._registered = anyio.Event()
            pause = self._duration * RENEW_FRACTION * (1 + JITTER * self._random())
            if uid := self._node_uid():
                pause = await self._renewed(uid, pause)
            with anyio.move_on_after(pause):
                await self._registered.wait()

    async def _renewed(self, uid: str, pause: float) -> float:
        """Renew once; return the seconds to the next try."""
        try:
            await self._renew(uid)
        except APIError as error:
            if not self._failures:
                _log.warning("cannot renew the node's lease, tried again", error=error.message)
            self._failures += 1
            return min(pause, MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures, 10))
        if self._failures:
            _log.info("the node's lease is renewed again", failures=self._failures)
        self._failures = 0
        return pause

    async def _renew(self, uid: str) -> None:
        path = f"{LEASES}/{self._name}"
        try:
            if self._lease is not None:
                self._lease = await self._ask("PUT", path, self._document(self._lease, uid))
                return
        except (Conflict, NotFound):
            # Somebody else wrote it, or it is another one by now, or none: only a look tells.
            self._lease = None
        try:
            found = await self._ask("GET", path)
        except NotFound:
            self._lease = await self._created(uid)
        else:
            self._lease = await self._ask("PUT", path, self._document(found, uid))

    async def _created(self, uid: str) -> Document | None:
        try:
            return await self._ask("POST", LEASES, self._document(None, uid))
        except AlreadyExists:
            return None

    async def _ask(self, method: str, path: str, body: Document | None = None) -> Document:
        # An answer that comes after the lease has run out is of no use to anybody.
        return await self._api.request(
            method, path, body=body, pool=Pool.HEARTBEAT, timeout=self._duration * RENEW_FRACTION
        )

    def _document(self, earlier: Document | None, uid: str) -> Document:
        metadata = {
            "name": self._name,
            "namespace": "kube-node-lease",
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": self._name, "uid": uid}
            ],
        }
        spec = {
            "holderIdentity": self._name,
            "leaseDurationSeconds": self._duration,
            "renewTime": _micro_time(self._clock.wall_ns()),
        }
        if earlier is not None:
            metadata = {**earlier["metadata"], **metadata}
            spec = {**earlier.get("spec", {}), **spec}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": metadata,
            "spec": spec,
        }


def _micro_time(wall_ns: int) -> str:
    moment = datetime.fromtimestamp(wall_ns / 1e9, tz=UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
