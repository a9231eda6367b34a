"""Tells the runtime which addresses the cluster gave to this node's pods.

Source: kubelet kubelet_network.go updatePodCIDR.
"""

from collections.abc import Awaitable, Callable

import anyio
import structlog

from minikubelet.cri.errors import CRIError
from minikubelet.kube.api import Document

AGAIN = 5.0

_log = structlog.get_logger("node")


class PodCIDR:
    """Follows spec.podCIDRs of the Node object; `tell` is CRI's UpdateRuntimeConfig."""

    def __init__(self, tell: Callable[[str], Awaitable[None]]) -> None:
        self._tell = tell
        self._wanted = ""
        self._changed = anyio.Event()

    def seen(self, node: Document | None) -> None:
        """Take the Node object as it is now."""
        spec = (node or {}).get("spec") or {}
        wanted = ",".join(spec.get("podCIDRs") or [spec.get("podCIDR") or ""])
        if wanted and wanted != self._wanted:
            self._wanted = wanted
            self._changed.set()

    async def run(self) -> None:
        """Tell each change until cancelled; tried again while the runtime is away."""
        told = ""
        while True:
            await self._changed.wait()
            self._changed = anyio.Event()
            while told != self._wanted:
                wanted = self._wanted
                try:
                    await self._tell(wanted)
                except CRIError as error:
                    _log.warning("cannot tell the runtime the pod CIDR", error=str(error))
                    await anyio.sleep(AGAIN)
                else:
                    told = wanted
                    _log.info("the cluster gave the node its pod addresses", pod_cidr=told)
