"""The node's life in the cluster: registered, watched, its status told when it changed.

Starts once the container runtime has answered (or has been silent for a while), so that a restart
of the agent never shows a node that isn't ready only because nobody has looked yet. A Node object
that vanishes is made again. Lease, certificates and pods have tasks of their own.
Source: kubelet kubelet_node_status.go.
"""

from collections.abc import Callable, Mapping
from typing import Any

import anyio
import structlog
from anyio import TASK_STATUS_IGNORED
from anyio.abc import TaskStatus

from minikubelet.api.timestamp import rfc3339
from minikubelet.host.clock import Clock
from minikubelet.kube.api import API, STRATEGIC_MERGE_PATCH, Document, Pool, node_path
from minikubelet.kube.documents import version_of
from minikubelet.kube.errors import APIError, NotFound
from minikubelet.kube.reflector import list_watch
from minikubelet.node.conditions import condition_events
from minikubelet.node.document import heartbeat_patch, new_node, node_status, status_patch
from minikubelet.node.facts import MachineFacts, NodeSettings, RuntimeFacts
from minikubelet.node.lease import LeaseKeeper
from minikubelet.node.registration import ensure_csi_node, register
from minikubelet.observe.events import NORMAL, WARNING, EventSink, node_ref

JITTER = 0.04
RETRIES = 5

_log = structlog.get_logger("node")


class NodeManager:
    """One Node object. `runtime` tells the container runtime's newest facts."""

    def __init__(
        self,
        api: API,
        settings: NodeSettings,
        machine: MachineFacts,
        runtime: Callable[[], RuntimeFacts],
        clock: Clock,
        random: Callable[[], float],
        events: EventSink,
    ) -> None:
        self._api = api
        self._settings = settings
        self._machine = machine
        self._runtime = runtime
        self._clock = clock
        self._random = random
        self._events = events
        self._node: Document | None = None
        self._unschedulable = False
        self._changed = anyio.Event()
        self._seen = anyio.Event()
        self._gone = anyio.Event()
        self._reported = float("-inf")
        self._offset = 0.0
        self._lease = LeaseKeeper(
            api,
            settings.name,
            settings.lease_duration,
            clock,
            random,
            lambda: self.uid,
        )
        self.on_node: Callable[[Document | None], None] = lambda _node: None
        """Told each new version of the Node object; None when there is none."""

    @property
    def uid(self) -> str:
        """The uid of the Node object; empty while there is none, or while it is being deleted."""
        if self._node is None or self._node["metadata"].get("deletionTimestamp"):
            return ""
        return str(self._node["metadata"].get("uid", ""))

    @property
    def node(self) -> Document | None:
        """The Node object as it was seen last."""
        return self._node

    def changed(self) -> None:
        """Say that the status may have changed: it is looked at now."""
        self._changed.set()

    async def run(self, *, task_status: TaskStatus[None] = TASK_STATUS_IGNORED) -> None:
        """Live until cancelled; started at once, whatever the apiserver does."""
        query = {"fieldSelector": f"metadata.name={self._settings.name}"}
        task_status.started()
        async with anyio.create_task_group() as group:
            group.start_soon(list_watch, self._api, node_path(), query, self._take)
            group.start_soon(self._stay_registered)
            group.start_soon(self._lease.run)
            group.start_soon(self._report)

    async def _take(self, nodes: Mapping[str, Document]) -> None:
        node = nodes.get(self._settings.name)
        if node is None and self._node is not None:
            _log.warning("the Node object is gone", node=self._settings.name)
            self._gone.set()
        self._set(node)
        self._seen.set()

    def _set(self, node: Document | None) -> None:
        was = self.uid
        self._node = node
        self.on_node(node)
        self._tell_schedulable()
        if self.uid and self.uid != was:
            self._lease.registered()
            self._changed.set()

    def _tell_schedulable(self) -> None:
        """Say that the node was cordoned, or isn't any more."""
        if self._node is None:
            return
        is_cordoned = bool(self._node.get("spec", {}).get("unschedulable"))
        if is_cordoned == self._unschedulable:
            return
        self._unschedulable, name = is_cordoned, self._settings.name
        reason = "NodeNotSchedulable" if is_cordoned else "NodeSchedulable"
        text = f"Node {name} status is now: {reason}"
        self._events.emit(node_ref(name), NORMAL, reason, text)

    async def _stay_registered(self) -> None:
        """Register at start and each time the Node object has vanished."""
        settings = self._settings
        self._events.emit(node_ref(settings.name), NORMAL, "Starting", "Starting kubelet.")
        if not settings.register:
            await self._tell_missing()
            return
        while True:
            self._gone = anyio.Event()
            node, created = await register(self._api, self._build)
            if created:
                self._tell_events({}, node.get("status", {}))
                self._reported = self._clock.monotonic()
            self._set(node)
            await self._ensure_csi_node()
            await self._gone.wait()
            await anyio.sleep(self._random())

    async def _tell_missing(self) -> None:
        await self._seen.wait()
        if self._node is None:
            _log.warning(
                "there is no Node object and registerNode is false: create it, until then the node "
                "gets no pods and its static pods no mirror pods",
                node=self._settings.name,
            )

    async def _build(self) -> Document:
        return new_node(self._settings, self._machine, self._status({}))

    async def _ensure_csi_node(self) -> None:
        try:
            await ensure_csi_node(self._api, self._settings.name, self.uid)
        except APIError as error:
            _log.warning("cannot make the CSINode object", error=error.message)

    def _status(self, earlier: Mapping[str, Any]) -> Document:
        now = rfc3339(self._clock.wall_ns())
        return node_status(self._settings, self._machine, self._runtime(), earlier, now)

    async def _report(self) -> None:
        """Look at the status each period and whenever something changed."""
        while True:
            period = self._settings.status_update_frequency * (1 + JITTER * self._random())
            with anyio.move_on_after(period):
                await self._changed.wait()
            self._changed = anyio.Event()
            if not self.uid:
                continue
            for attempt in range(RETRIES):
                try:
                    await self._report_once(read=attempt > 0)
                except NotFound:
                    break
                except APIError as error:
                    if attempt == RETRIES - 1:
                        _log.warning("cannot tell the node's status", error=error.message)
                else:
                    break

    async def _report_once(self, *, read: bool) -> None:
        settings, now = self._settings, self._clock.monotonic()
        path = node_path(settings.name)
        if read or self._node is None:
            self._set(await self._ask("GET", path))
        assert self._node is not None  # noqa: S101  just set
        live = self._node.get("status") or {}
        wanted = self._status(live)
        patch = status_patch(live, wanted)
        if patch is None:
            if now - self._reported < settings.status_report_frequency + self._offset:
                return
            patch, self._offset = heartbeat_patch(wanted), 0.0
        else:
            # After a change of many nodes at once their next reports shouldn't come together.
            self._offset = settings.status_report_frequency * (self._random() - 0.5)
        answer = await self._ask("PATCH", f"{path}/status", patch)
        self._reported = now
        self._tell_events(live, wanted)
        if self._node is not None and version_of(answer) > version_of(self._node):
            self._set(answer)

    def _tell_events(self, live: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
        name = self._settings.name
        before, after = live.get("conditions") or (), wanted.get("conditions") or ()
        for event in condition_events(name, before, after):
            self._events.emit(node_ref(name), NORMAL, event.reason, event.message)
        booted = (live.get("nodeInfo") or {}).get("bootID")
        boot_id = self._machine.boot_id
        if booted and booted != boot_id:
            text = f"Node {name} has been rebooted, boot id: {boot_id}"
            self._events.emit(node_ref(name), WARNING, "Rebooted", text)

    async def _ask(self, method: str, path: str, body: Document | None = None) -> Document:
        kind = STRATEGIC_MERGE_PATCH if method == "PATCH" else "application/json"
        timeout = min(self._settings.status_update_frequency, self._settings.lease_duration)
        return await self._api.request(
            method, path, body=body, content_type=kind, pool=Pool.HEARTBEAT, timeout=timeout
        )
