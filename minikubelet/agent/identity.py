"""Who the node is to the apiserver: the connection, made with what the command line names.

A kubeconfig alone is used as it is: its files are read anew while we run, by `kube` itself. With a
bootstrap kubeconfig or rotateCertificates the node looks after its certificate itself: `rotation`.
"""

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from minikubelet.agent.late import LateAPI
from minikubelet.config.config import Config
from minikubelet.host.clock import Clock
from minikubelet.kube.client import connect
from minikubelet.kube.kubeconfig import Kubeconfig, read


class Identity:
    """A node that keeps the credential of its kubeconfig; `api` is there from the start."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self.api = LateAPI()
        self._config = config
        self._clock = clock

    async def open(self) -> None:
        """Connect, if there is a credential that counts. Raises KubeconfigError."""
        await self._connect(await anyio.to_thread.run_sync(read, self._config.kubeconfig))

    async def start(self, group: TaskGroup) -> None:
        """Begin to look after the credential; returns at once."""

    async def aclose(self) -> None:
        """Close all connections."""
        if self.api.connection is not None:
            await self.api.connection.aclose()

    async def _connect(self, kubeconfig: Kubeconfig) -> None:
        config = self._config
        await self.api.use(
            await connect(
                kubeconfig,
                qps=config.kube_api_qps,
                burst=config.kube_api_burst,
                clock=self._clock,
            )
        )
