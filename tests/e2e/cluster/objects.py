"""ConfigMaps and Secrets that tests of a cluster make and change."""

from collections.abc import Mapping
from typing import Any

from tests.e2e.administrator import path_of
from tests.e2e.workers import MERGE, Worker


def a_config_map(name: str, data: Mapping[str, str], **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name},
        "data": dict(data),
    } | fields


def a_secret(name: str, data: Mapping[str, str], **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name},
        "stringData": dict(data),
    } | fields


async def change(worker: Worker, kind: str, name: str, body: Mapping[str, Any]) -> None:
    await worker.admin.ask("PATCH", path_of(kind, worker.namespace, name), body, MERGE)
