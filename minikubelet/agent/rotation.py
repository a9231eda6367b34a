"""A node that asks for its client certificate itself: the first one, and each next one.

With a kubeconfig that counts the connection is there at once. With a bootstrap kubeconfig instead,
everything starts without one; the node joins the moment its certificate is issued, and
`--kubeconfig` is written then. With rotateCertificates the certificate is renewed in --cert-dir and
the connections are dialled anew with it. A kubeconfig without a client certificate (a token, an
exec plugin) has nothing to rotate. Source: kubelet cmd/kubelet/app/server.go
buildKubeletClientConfig, certificate/transport.go.
"""

import random
from dataclasses import dataclass

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from minikubelet.agent.identity import Identity
from minikubelet.api.timestamp import NANOSECONDS
from minikubelet.config.config import Config
from minikubelet.host.clock import Clock
from minikubelet.kube.api import API
from minikubelet.kube.client import Connection, connect
from minikubelet.kube.kubeconfig import Kubeconfig, KubeconfigError, read
from minikubelet.node import certificates, certificates_kubeconfig
from minikubelet.node.certificates_keys import BadCertificate, read_pair
from minikubelet.node.certificates_manager import CertificateManager
from minikubelet.node.certificates_store import CertificateStore, PairFiles

AGAIN_SECONDS = 10.0
HOPELESS = (
    "there has been no valid client certificate for "
    f"{certificates.HOPELESS_AFTER / 60:.0f} minutes while the apiserver answers: the agent ends, "
    "so that its next start reads the credentials again; the pods keep running. "
    "Look at `kubectl get csr`; a bootstrap token may have expired"
)

_log = structlog.get_logger("agent")


@dataclass(frozen=True, slots=True)
class Credential:
    """The kubeconfig to go by; `bootstrap`: it is only good for asking for a certificate."""

    kubeconfig: Kubeconfig
    bootstrap: bool = False

    @property
    def files(self) -> PairFiles | None:
        """The client certificate that it names by files."""
        certificate, key = self.kubeconfig.user.certificate, self.kubeconfig.user.key
        if certificate is None or key is None or not (certificate.path and key.path):
            return None
        return PairFiles(certificate.path, key.path)


def credential(config: Config, now: float) -> Credential:
    """Return what to begin with at `now` (Unix seconds). Blocking. Raises KubeconfigError."""
    if not config.bootstrap_kubeconfig:
        return Credential(read(config.kubeconfig))
    found, why = certificates_kubeconfig.usable(config.kubeconfig, now)
    if found is not None:
        return Credential(found)
    _log.info("a client certificate is asked for with the bootstrap credential", reason=why)
    try:
        return Credential(read(config.bootstrap_kubeconfig), bootstrap=True)
    except KubeconfigError as error:
        raise KubeconfigError(f"cannot join the cluster: {why}; {error}") from error


class RotatingIdentity(Identity):
    """The node's connection and the certificate it is made with."""

    def __init__(self, config: Config, clock: Clock) -> None:
        super().__init__(config, clock)
        self._found: Credential
        self._store: CertificateStore
        self._manager: CertificateManager | None = None
        self._connected_with: Kubeconfig | None = None
        self._asking: tuple[Kubeconfig, Connection] | None = None
        """The connection of the bootstrap credential, while it is needed."""

    async def open(self) -> None:
        """Connect, if there is a credential that counts. Raises KubeconfigError."""
        config, now = self._config, self._clock.wall_ns() / NANOSECONDS
        self._found = found = await anyio.to_thread.run_sync(credential, config, now)
        self._store = CertificateStore(config.cert_dir, "kubelet-client", found.files)
        rotates = config.rotate_certificates and found.kubeconfig.user.certificate is not None
        if found.bootstrap or rotates:
            self._manager = manager = self._new_manager()
            await manager.load()
            if manager.held is None and not found.bootstrap:
                await anyio.to_thread.run_sync(self._take_inline, manager)
        if not found.bootstrap:
            await self._use(self._to_connect())

    def _new_manager(self) -> CertificateManager:
        template = certificates.client_template(self._config.node_name)
        manager = CertificateManager(
            self._store,
            lambda: template,
            self._api_to_ask,
            self._clock,
            random.random,
            named=not self._config.rotate_certificates,
        )
        manager.forced = self._found.bootstrap
        manager.on_issued = self._issued
        return manager

    def _take_inline(self, manager: CertificateManager) -> None:
        """Take a certificate that is part of the kubeconfig, until there is a stored one.

        It is replaced at once: where it is it can't be renewed.
        """
        user = self._found.kubeconfig.user
        if user.certificate is None or user.key is None or not user.certificate.data:
            return
        try:
            manager.held = read_pair(user.certificate.data, user.key.data)
        except BadCertificate as error:
            raise KubeconfigError(
                f"cannot use kubeconfig {self._config.kubeconfig}: client-certificate-data: {error}"
            ) from error
        manager.forced = True

    def _to_connect(self) -> Kubeconfig:
        kubeconfig, manager = self._found.kubeconfig, self._manager
        if manager is not None and manager.files == self._store.files:
            return certificates_kubeconfig.with_certificate(kubeconfig, self._store.current)
        return kubeconfig

    async def start(self, group: TaskGroup) -> None:
        """Begin to ask for certificates and to renew them; returns at once."""
        if self._manager is None:
            return
        if not self._config.rotate_certificates:
            group.start_soon(self._manager.obtain)
            return
        group.start_soon(self._manager.run)
        group.start_soon(self._end_when_hopeless, self._manager)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._close_asking()
        await super().aclose()

    async def _use(self, kubeconfig: Kubeconfig) -> None:
        if kubeconfig == self._connected_with and self.api.connection is not None:
            await self.api.connection.reload()
            return
        await self._connect(kubeconfig)
        self._connected_with = kubeconfig

    async def _api_to_ask(self) -> API:
        """Return whom to ask for a certificate: as the node if it can, else by bootstrap."""
        manager, path = self._manager, self._config.bootstrap_kubeconfig
        as_node = self.api.connection is not None and manager is not None and manager.valid
        if as_node or not path:
            return self.api
        # Somebody may have put a new token there meanwhile.
        kubeconfig = await anyio.to_thread.run_sync(read, path)
        if self._asking is None or self._asking[0] != kubeconfig:
            await self._close_asking()
            self._asking = kubeconfig, await connect(kubeconfig, clock=self._clock)
        return self._asking[1]

    async def _close_asking(self) -> None:
        if self._asking is not None:
            await self._asking[1].aclose()
        self._asking = None

    async def _issued(self) -> None:
        """Use a new certificate: now, and after the next start."""
        while True:
            try:
                await self._use(self._to_connect())
            except KubeconfigError as error:
                _log.error("cannot use the new client certificate, tried again", error=str(error))
                await anyio.sleep(AGAIN_SECONDS)
            else:
                break
        await self._close_asking()
        if self._found.bootstrap:
            await self._write_kubeconfig()

    async def _write_kubeconfig(self) -> None:
        path = self._config.kubeconfig
        text = certificates_kubeconfig.document(self._found.kubeconfig, self._store.current)
        try:
            await anyio.to_thread.run_sync(certificates_kubeconfig.write, path, text)
        except OSError as error:
            _log.error(
                "cannot write the kubeconfig: the next start needs the bootstrap credential again",
                path=path,
                error=str(error),
            )
        else:
            _log.info("kubeconfig written", path=path)

    async def _end_when_hopeless(self, manager: CertificateManager) -> None:
        lost = self._clock.monotonic()
        while True:
            pause, was_valid = AGAIN_SECONDS, manager.valid
            if was_valid and manager.held is not None:
                left = manager.held.not_after - self._clock.wall_ns() / NANOSECONDS
                pause = min(max(left, AGAIN_SECONDS), certificates.HOPELESS_AFTER)
            await anyio.sleep(pause)
            now = self._clock.monotonic()
            lost = now if was_valid or manager.valid else lost
            if certificates.is_hopeless(now - lost, server_answers=manager.server_answers):
                _log.error(HOPELESS)
                raise SystemExit(HOPELESS)
