"""Sends events to the apiserver, behind everybody's back: emitting never waits and never fails.

A bounded queue takes what rooms emit; one task correlates, keeps to the rate and sends. While the
apiserver is away events wait; when the queue is full the newest are dropped and counted.
Source: client-go tools/record/event.go.
"""

from collections import deque
from collections.abc import Callable

import anyio
import structlog

from minikubelet.api.timestamp import rfc3339
from minikubelet.host.clock import Clock
from minikubelet.kube import api as kube
from minikubelet.kube.api import Document
from minikubelet.kube.errors import (
    APIError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unavailable,
)
from minikubelet.observe.events import PodRef
from minikubelet.status.correlate import Correlator, News, Sent

QUEUE = 1000
TRIES = 12
PAUSE = 10.0

_log = structlog.get_logger("events")


class APIEvents:
    """The sink. `qps` events a second after `burst`; 0 is no limit."""

    def __init__(
        self,
        api: kube.API,
        node_name: str,
        clock: Clock,
        random: Callable[[], float],
        *,
        qps: float = 50.0,
        burst: int = 100,
    ) -> None:
        self._api = api
        self._node_name = node_name
        self._clock = clock
        self._random = random
        self._qps = qps
        self._burst = burst
        self._tokens = float(burst)
        self._filled = clock.monotonic()
        self._queue: deque[News] = deque()
        self._wake = anyio.Event()
        self._correlator = Correlator()
        self._named_ns = 0
        self.dropped = 0
        """Events that found the queue full."""

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        """Take one event."""
        if len(self._queue) >= QUEUE:
            self.dropped += 1
            return
        self._queue.append(News(ref, type_, reason, message, self._clock.wall_ns()))
        self._wake.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await self._wake.wait()
            self._wake = anyio.Event()
            while self._queue:
                for sent in self._take_all():
                    await self._rate()
                    await self._send(sent)

    def _take_all(self) -> list[Sent]:
        """Empty the queue; what was repeated meanwhile is one request with its count."""
        now = self._clock.monotonic()
        due: dict[int, Sent] = {}
        while self._queue:
            sent = self._correlator.take(self._queue.popleft(), now)
            if sent is not None:
                due[id(sent)] = sent
        return list(due.values())

    async def _rate(self) -> None:
        if self._qps <= 0:
            return
        now = self._clock.monotonic()
        self._tokens = min(float(self._burst), self._tokens + (now - self._filled) * self._qps)
        self._filled = now
        if self._tokens < 1:
            await anyio.sleep((1 - self._tokens) / self._qps)
        self._tokens -= 1

    async def _send(self, sent: Sent) -> None:
        for attempt in range(TRIES):
            try:
                await self._write(sent)
            except (Unavailable, ServerError, TooManyRequests) as error:
                if attempt == 0:
                    _log.info("events wait for the apiserver", error=error.message)
                # The first pause is spread, so that nodes don't come back as a herd.
                share = self._random() if attempt == 0 else 1.0
                await anyio.sleep(max(error.retry_after or 0.0, PAUSE * share))
            except APIError as error:
                # A namespace that is being deleted takes no events; trying again won't help.
                _log.debug("event refused", reason=sent.news.reason, error=error.message)
                return
            else:
                return
        _log.warning("event given up", reason=sent.news.reason)

    async def _write(self, sent: Sent) -> None:
        namespace = sent.news.ref.namespace or "default"
        if sent.name:
            patch = {
                "count": sent.count,
                "lastTimestamp": rfc3339(sent.last_ns),
                "message": sent.message,
            }
            path = kube.core_path(namespace, "events", sent.name)
            try:
                await self._api.request(
                    "PATCH", path, body=patch, content_type=kube.STRATEGIC_MERGE_PATCH
                )
            except NotFound:
                sent.name, sent.count, sent.first_ns = "", 1, sent.last_ns
            else:
                return
        # The clock may be coarse, or be set back: the name must be new all the same.
        self._named_ns = max(self._named_ns + 1, sent.last_ns)
        name = f"{sent.news.ref.name}.{self._named_ns:x}"
        body = self._document(sent, namespace, name)
        await self._api.request("POST", kube.core_path(namespace, "events"), body=body)
        sent.name = name

    def _document(self, sent: Sent, namespace: str, name: str) -> Document:
        news, ref = sent.news, sent.news.ref
        involved = {
            "apiVersion": "v1",
            "kind": ref.kind,
            "namespace": ref.namespace,
            "name": ref.name,
            "uid": ref.uid,
            "fieldPath": ref.field_path,
        }
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {key: value for key, value in involved.items() if value},
            "type": news.type,
            "reason": news.reason,
            "message": sent.message,
            "source": {"component": "kubelet", "host": self._node_name},
            "reportingComponent": "kubelet",
            "reportingInstance": self._node_name,
            "firstTimestamp": rfc3339(sent.first_ns),
            "lastTimestamp": rfc3339(sent.last_ns),
            "count": sent.count,
        }
