"""The Services of the cluster as they were known last: no secrets, one document."""

from collections.abc import Mapping, Sequence
from typing import Any

from minikubelet.state.directory import StateDirectory

_SUBJECT, _NAME = "services", "known"


class ServiceMemory:
    """Keeps the Services in the state directory."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory

    async def load(self) -> Sequence[dict[str, Any]]:
        """Return what was saved last; nothing when that can't be read."""
        documents = await self._directory.load(_SUBJECT)
        items = documents.get(_NAME, {}).get("items")
        return [item for item in items or () if isinstance(item, dict)]

    async def save(self, services: Sequence[Mapping[str, Any]]) -> None:
        """Replace what was saved. Raises OSError."""
        await self._directory.save(_SUBJECT, _NAME, {"items": list(services)})
