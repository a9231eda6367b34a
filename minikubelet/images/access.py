"""Which pod may use which image, with which logins: the registry side of a pull.

Gathers logins from a pod's Secrets and from the node, keeps the records of pulls in memory and in
the state directory (hashes only, never a login). Never pulls. Source: kubelet images/puller.go,
images/pullmanager.
"""

import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from minikubelet.api.pod import Pod
from minikubelet.images.keyring import Credential, chosen
from minikubelet.images.records import (
    PullRecord,
    Verification,
    after_pull,
    document_of,
    must_pull,
    records_of,
    without_tag,
)
from minikubelet.state.directory import StateDirectory

SUBJECT = "images"

_log = structlog.get_logger("images")


@dataclass(frozen=True, slots=True)
class PodLogins:
    """The logins of a pod's Secrets and of the node; `missing` names Secrets that can't be read."""

    secrets: tuple[Credential, ...] = ()
    node: tuple[Credential, ...] = ()
    missing: tuple[str, ...] = ()


LoginsOf = Callable[[Pod], Awaitable[PodLogins]]


async def no_logins(_pod: Pod) -> PodLogins:
    """Return none: a node without any."""
    return PodLogins()


class ImageAccess:
    """The logins and the records of one node."""

    def __init__(
        self,
        logins_of: LoginsOf = no_logins,
        rules: Verification | None = None,
        directory: StateDirectory | None = None,
    ) -> None:
        self.logins_of = logins_of
        self._rules = rules or Verification()
        self._directory = directory
        self._records: dict[str, dict[str, PullRecord]] = {}

    async def load(self) -> None:
        """Read the records of earlier runs of the agent."""
        if self._directory is None:
            return
        for name, document in (await self._directory.load(SUBJECT)).items():
            try:
                self._records[document["image"]] = records_of(document["pulls"])
            except (KeyError, TypeError) as error:
                _log.warning("cannot use a pull record", name=name, error=str(error))

    async def must_pull(self, pod: Pod, image: str, image_id: str) -> bool:
        """Tell whether the pod has to pull an image that is there, to prove that it may."""
        records = self._records.get(image_id)
        if not must_pull(image, records, (), self._rules):
            return False
        logins = await self.logins_of(pod)
        return must_pull(image, records, chosen(logins.secrets, logins.node, image), self._rules)

    async def pulled(self, image: str, image_id: str, credential: Credential | None) -> None:
        """Note a pull that worked."""
        known = self._records.setdefault(image_id, {})
        name = without_tag(image)
        record = after_pull(known.get(name, PullRecord()), credential)
        if known.get(name) == record:
            return
        known[name] = record
        if self._directory is None:
            return
        document = {"image": image_id, "pulls": document_of(known)}
        try:
            await self._directory.save(SUBJECT, _file_name(image_id), document)
        except OSError as error:
            _log.warning("cannot keep a pull record", image=image, error=str(error))


def _file_name(image_id: str) -> str:
    return hashlib.sha256(image_id.encode()).hexdigest()[:32]
