"""Mirror pods: the pictures of static pods in the apiserver.

One task keeps them right: made when the Node object exists, made again when somebody deletes one,
replaced when the manifest changed (another hash), deleted when the static pod is gone. What is done
to a mirror never starts or ends the static pod. `decide` is pure, the rest carries it out.
Source: kubelet pod/mirror_client.go, kubelet.go tryReconcileMirrorPods.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

import anyio
import structlog

from minikubelet.api.meta import CONFIG_HASH, CONFIG_MIRROR
from minikubelet.api.record import PodRecord
from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.errors import (
    AlreadyExists,
    APIError,
    Conflict,
    NotFound,
    Unavailable,
)
from minikubelet.observe.events import WARNING, EventSink, node_ref

FIRST_PAUSE, MAX_PAUSE = 1.0, 60.0

_log = structlog.get_logger("mirror")


class Action(Enum):
    """What a mirror pod needs."""

    NOTHING = "nothing"
    CREATE = "create"
    DELETE = "delete"


def decide(
    static: PodRecord | None, mirror: Document | None, node_uid: str, *, sources_ready: bool
) -> Action:
    """Return the next step for one full name; a replacement is a deletion first."""
    if mirror is not None:
        if static is None:
            # Before every source has spoken a missing static pod may only not be known yet.
            return Action.DELETE if sources_ready else Action.NOTHING
        shown = mirror["metadata"].get("annotations", {}).get(CONFIG_MIRROR)
        is_leaving = bool(mirror["metadata"].get("deletionTimestamp"))
        return Action.DELETE if is_leaving or shown != hash_of(static) else Action.NOTHING
    return Action.CREATE if static is not None and node_uid else Action.NOTHING


def hash_of(static: PodRecord) -> str:
    """Return what tells versions of a manifest apart."""
    return static.pod.metadata.annotations.get(CONFIG_HASH, static.uid)


def mirror_document(static: PodRecord, node_name: str, node_uid: str) -> Document:
    """Return the mirror pod to create: the static pod as it is, owned by the Node."""
    metadata = dict(static.raw["metadata"])
    metadata.pop("uid", None)
    annotations = {**metadata.get("annotations", {}), CONFIG_MIRROR: hash_of(static)}
    owner = {
        "apiVersion": "v1",
        "kind": "Node",
        "name": node_name,
        "uid": node_uid,
        "controller": True,
    }
    return {
        **static.raw,
        "metadata": {**metadata, "annotations": annotations, "ownerReferences": [owner]},
    }


@dataclass(slots=True)
class _Try:
    """Tries since a name was as it should be, and when (monotonic seconds) the next one is due."""

    count: int = 0
    due: float = 0.0
    told: str = ""

    def put_off(self) -> None:
        """Let the next try come ever later."""
        pause = min(MAX_PAUSE, FIRST_PAUSE * 2.0 ** min(self.count, 10))
        self.due = anyio.current_time() + pause


class MirrorPods:
    """The mirror pods of one node. `node_uid` is empty while there is no Node object."""

    def __init__(
        self,
        api: kube.API,
        node_name: str,
        node_uid: Callable[[], str],
        events: EventSink,
    ) -> None:
        self._api = api
        self._node_name = node_name
        self._node_uid = node_uid
        self._events = events
        self._wanted: dict[str, dict[str, PodRecord]] = {}
        self._mirrors: Mapping[str, Document] = {}
        self._tries: dict[str, _Try] = {}
        self._sources_ready = False
        self._wake = anyio.Event()

    @property
    def problems(self) -> dict[str, str]:
        """Why a static pod has no mirror pod, by full name."""
        return {name: tried.told for name, tried in self._tries.items() if tried.told}

    def of(self, full_name: str) -> Document | None:
        """Return the mirror pod of a static pod."""
        return self._mirrors.get(full_name)

    def want(self, static: PodRecord) -> None:
        """Take a static pod that has a worker; of several of one name the first is shown."""
        known = self._wanted.setdefault(static.pod.full_name, {})
        if static.uid not in known:
            known[static.uid] = static
            self._wake.set()

    def forget(self, uid: str) -> None:
        """Drop a static pod of which nothing is left."""
        for name, records in list(self._wanted.items()):
            if records.pop(uid, None) is not None:
                self._tries.pop(name, None)
                self._wake.set()
            if not records:
                del self._wanted[name]

    def seen(self, mirrors: Mapping[str, Document]) -> None:
        """Take the mirror pods that the apiserver has now, by full name."""
        self._mirrors = mirrors
        self._wake.set()

    def look(self, *, sources_ready: bool = False) -> None:
        """Look again: the Node object changed, or every source has spoken."""
        self._sources_ready = self._sources_ready or sources_ready
        self._wake.set()

    async def run(self) -> None:
        """Keep them right until cancelled."""
        while True:
            self._wake = anyio.Event()
            pause = await self._pass()
            with anyio.move_on_after(pause):
                await self._wake.wait()

    async def _pass(self) -> float:
        """Do what is due; return the seconds until something else is."""
        soonest = float("inf")
        for name in {*self._wanted, *self._mirrors}:
            records = self._wanted.get(name, {})
            static = next(iter(records.values()), None)
            mirror = self._mirrors.get(name)
            action = decide(static, mirror, self._node_uid(), sources_ready=self._sources_ready)
            tried = self._tries.setdefault(name, _Try())
            if action is Action.NOTHING:
                self._tries.pop(name)
                continue
            now = anyio.current_time()
            if tried.due > now:
                soonest = min(soonest, tried.due - now)
                continue
            await self._carry_out(name, static, mirror, tried)
            soonest = min(soonest, max(0.0, tried.due - anyio.current_time()))
        return soonest

    async def _carry_out(
        self, name: str, static: PodRecord | None, mirror: Document | None, tried: _Try
    ) -> None:
        try:
            if mirror is not None:
                await self._delete(mirror)
            if static is not None and self._node_uid():
                await self._create(static)
        except APIError as error:
            self._failed(name, error, tried)
        else:
            # The watch brings what was done; where it is slow, it is done again ever later.
            tried.put_off()
            tried.count, tried.told = tried.count + 1, ""

    def _failed(self, name: str, error: APIError, tried: _Try) -> None:
        tried.count += 1
        tried.put_off()
        text = f"cannot keep the mirror pod of static pod {name}: {error.message}"
        if text == tried.told:
            return
        tried.told = text
        _log.warning("mirror pod isn't as it should be", error=text)
        if not isinstance(error, Unavailable):
            self._events.emit(node_ref(self._node_name), WARNING, "FailedMirrorPod", text)

    async def _delete(self, mirror: Document) -> None:
        meta = mirror["metadata"]
        options = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": meta["uid"]},
        }
        try:
            await self._api.request(
                "DELETE", kube.pods_path(meta["namespace"], meta["name"]), body=options
            )
        except (NotFound, Conflict):
            return
        _log.info("mirror pod deleted", pod=f"{meta['namespace']}/{meta['name']}")

    async def _create(self, static: PodRecord) -> None:
        body = mirror_document(static, self._node_name, self._node_uid())
        path = kube.core_path(static.pod.metadata.namespace, "pods")
        try:
            await self._api.request("POST", path, body=body)
        except AlreadyExists:
            # Either ours, and the watch will say so, or somebody else's: then the next pass sees.
            return
        _log.info("mirror pod created", pod=static.pod.full_name)
