"""The certificate of the node's port when the apiserver gives it (serverTLSBootstrap).

It names the addresses of the Node object and is asked for again when they change. The
controller-manager approves none of these by itself: until somebody does, handshakes fail.
"""

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from anyio.abc import TaskGroup

from minikubelet.config.config import Config
from minikubelet.host.clock import Clock
from minikubelet.kube.api import API
from minikubelet.node.certificates import serving_template
from minikubelet.node.certificates_manager import CertificateManager
from minikubelet.node.certificates_store import CertificateStore, PairFiles
from minikubelet.server.tls import KeyPair

Addresses = Callable[[], Iterable[Mapping[str, Any]]]


class ServingCertificate:
    """Keeps it. `addresses` gives status.addresses as the Node object shows them now."""

    def __init__(self, config: Config, api: API, addresses: Addresses, clock: Clock) -> None:
        server = config.server
        given = (
            PairFiles(server.cert_file, server.key_file) if server and server.cert_file else None
        )

        async def asked() -> API:
            return api

        self._manager = CertificateManager(
            CertificateStore(config.cert_dir, "kubelet-server", given),
            lambda: serving_template(config.node_name, addresses()),
            asked,
            clock,
            random.random,
        )

    async def start(self, group: TaskGroup) -> None:
        """Begin to ask for it and to renew it; returns at once."""
        await self._manager.load()
        group.start_soon(self._manager.run)

    def addresses_changed(self) -> None:
        """Say that the node may have other addresses."""
        self._manager.changed()

    def key_pair(self) -> KeyPair | None:
        """Return the pair to show now; None while there is none that counts."""
        files = self._manager.files
        if files is None or not self._manager.valid:
            return None
        return KeyPair(files.cert_file, files.key_file)
