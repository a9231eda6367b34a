"""Credential and connections together: which ones a request uses, and when they are made anew.

The credential's files are looked at again every 60 s while there is traffic, and after a 401. A
changed token is used from the next request on; a changed certificate or CA gets new connections
and the old ones retire. A credential that can't be read (any more) leaves the last one in use.
"""

import gc
import importlib
import ssl
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import structlog

from minikubelet.host.clock import Clock
from minikubelet.kube import tls
from minikubelet.kube.api import JSON
from minikubelet.kube.credentials import Credentials, Identity
from minikubelet.kube.errors import Unavailable
from minikubelet.kube.kubeconfig import Kubeconfig, KubeconfigError

if TYPE_CHECKING:
    from minikubelet.kube.transport import Transport

_LOOK_SECONDS = 60.0
"""How old a token file's content may be (client-go: transport/token_source.go)."""
_AGAIN_SECONDS = 5.0
"""An exec plugin isn't run more often, whatever it prints."""
_NANOSECONDS = 1_000_000_000
_log = structlog.get_logger("kube")


async def begin(kubeconfig: Kubeconfig, clock: Clock) -> "Session":
    """Read the credential's files and import the transport; nothing is sent, no plugin is run.

    Raises KubeconfigError.
    """
    credentials = Credentials(kubeconfig, clock)
    identity = await credentials.from_files()
    context = await _context(kubeconfig, identity)
    module = await anyio.to_thread.run_sync(_import_transport)
    return Session(kubeconfig, clock, credentials, identity, module.Transport(kubeconfig, context))


class Session:
    """The identity in use and its connections."""

    def __init__(
        self,
        kubeconfig: Kubeconfig,
        clock: Clock,
        credentials: Credentials,
        identity: Identity,
        transport: "Transport",
    ) -> None:
        self.transport = transport
        """The connections to use; asked for anew at each request."""
        self._kubeconfig = kubeconfig
        self._clock = clock
        self._credentials = credentials
        self._identity = identity
        self._lock = anyio.Lock()
        self._version = 0
        """Counts the credentials read, so that of many 401s at once one leads to a reading."""
        self._problem = ""
        # A plugin's credential is still to be got.
        self._ready = kubeconfig.user.exec_plugin is None
        self._look_at = clock.monotonic() + (_LOOK_SECONDS if self._ready else 0)
        self._run_again_at = 0.0

    def headers(self, content_type: str = JSON) -> dict[str, str]:
        """Return a request's headers."""
        headers = {"Accept": JSON, "Content-Type": content_type}
        if self._identity.token:
            headers["Authorization"] = f"Bearer {self._identity.token}"
        return headers

    async def look(self) -> int:
        """Read the credential if it is time; return the number of the one in use.

        Raises Unavailable while there is none yet, as its plugin fails.
        """
        if self._clock.monotonic() >= self._look_at:
            async with self._lock:
                if self._clock.monotonic() >= self._look_at:
                    await self._read(refused=False)
        if not self._ready:
            raise Unavailable(self._problem)
        return self._version

    async def renew(self, version: int) -> bool:
        """Read the credential of that number anew; return whether it is another one now."""
        async with self._lock:
            if self._version != version:
                return True
            now = self._clock.monotonic()
            if self._kubeconfig.user.exec_plugin is not None:
                if now < self._run_again_at:
                    return False
                self._run_again_at = now + _AGAIN_SECONDS
            before = self._identity
            await self._read(refused=True)
            return self._identity != before

    async def reload(self) -> None:
        """Read the credential and dial anew; the old connections go. Raises KubeconfigError."""
        async with self._lock:
            await self._use(await self._credentials.read(), dial=True)

    async def aclose(self) -> None:
        """Close all connections."""
        await self.transport.retire()

    async def _read(self, *, refused: bool) -> None:
        try:
            await self._use(await self._credentials.read(refused=refused), dial=False)
        except KubeconfigError as error:
            if str(error) != self._problem:
                _log.warning("credential not readable", server=self.transport.server, error=error)
            self._problem = str(error)
            self._look_at = self._clock.monotonic() + _AGAIN_SECONDS

    async def _use(self, identity: Identity, *, dial: bool) -> None:
        if dial or not identity.same_connection(self._identity):
            context = await _context(self._kubeconfig, identity)
            old, self.transport = self.transport, self.transport.again(context)
            _log.info("connections dialled anew", server=self.transport.server)
            await old.retire()
        if identity != self._identity or not self._ready:
            self._version += 1
        self._identity = identity
        self._problem, self._ready = "", True
        wait = _LOOK_SECONDS
        if identity.expires_ns is not None:
            wait = min(wait, (identity.expires_ns - self._clock.wall_ns()) / _NANOSECONDS)
        self._look_at = self._clock.monotonic() + max(wait, _AGAIN_SECONDS)


async def _context(kubeconfig: Kubeconfig, identity: Identity) -> ssl.SSLContext | None:
    if not kubeconfig.server.startswith("https:"):
        return None
    return await anyio.to_thread.run_sync(tls.context, kubeconfig, identity)


def _import_transport() -> Any:
    """Import 1,200 modules: half the time without the garbage collector looking on."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return importlib.import_module("minikubelet.kube.transport")
    finally:
        if was_enabled:
            gc.enable()
