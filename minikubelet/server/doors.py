"""Connections that never ask for anything are closed.

Each costs a quarter of a MiB, before anybody has said who they are. Counts from the moment of the
connection to its first complete request head; what comes after that is limited by the keep-alive
of the server.
"""

import asyncio
from collections.abc import Callable

SILENT_SECONDS = 30.0
HANDSHAKE_SECONDS = 10.0
KEEP_ALIVE_SECONDS = 90.0
"""Kubelet server.go IdleTimeout."""


class Doors:
    """The protocols of a server's connections; `enter` makes one for each."""

    def __init__(self) -> None:
        self.seconds = SILENT_SECONDS
        self._silent: dict[asyncio.BaseProtocol, asyncio.TimerHandle] = {}

    def enter(self, make: Callable[[], asyncio.Protocol]) -> asyncio.Protocol:
        """Return a new connection's protocol."""
        protocol = make()
        loop = asyncio.get_running_loop()
        self._silent[protocol] = loop.call_later(self.seconds, self._close, protocol)
        return protocol

    def asked(self, protocol: asyncio.BaseProtocol) -> None:
        """Note that a connection has made a request."""
        timer = self._silent.pop(protocol, None)
        if timer is not None:
            timer.cancel()

    def _close(self, protocol: asyncio.BaseProtocol) -> None:
        self._silent.pop(protocol, None)
        transport = getattr(protocol, "transport", None)
        if transport is not None:  # None: still shaking hands, or gone already
            transport.abort()

    def shut(self) -> None:
        """Forget everybody: the server ends."""
        for timer in self._silent.values():
            timer.cancel()
        self._silent.clear()
