"""Makes the Node object, or brings an existing one in line; tries for ever.

Source: kubelet kubelet_node_status.go registerWithAPIServer, tryRegisterWithAPIServer.
"""

from collections.abc import Awaitable, Callable

import anyio
import structlog

from minikubelet.kube.api import API, STRATEGIC_MERGE_PATCH, Document, Pool, node_path
from minikubelet.kube.errors import AlreadyExists, APIError, Forbidden, NotFound
from minikubelet.node.document import reconcile_patch

FIRST_PAUSE, MAX_PAUSE = 0.1, 7.0
CSI_NODES = "/apis/storage.k8s.io/v1/csinodes"

_log = structlog.get_logger("node")


async def register(api: API, build: Callable[[], Awaitable[Document]]) -> tuple[Document, bool]:
    """Return the Node object once it stands, and whether it was created now.

    `build` makes it anew for each try.
    """
    pause, told = FIRST_PAUSE, ""
    while True:
        wanted = await build()
        try:
            return await _try(api, wanted)
        except APIError as error:
            if error.message != told:
                told = error.message
                _log.warning("cannot register the node, tried again", error=told)
        await anyio.sleep(pause)
        pause = min(2 * pause, MAX_PAUSE)


async def _try(api: API, wanted: Document) -> tuple[Document, bool]:
    name = wanted["metadata"]["name"]
    try:
        made = await _ask(api, "POST", node_path(), wanted)
    except (AlreadyExists, Forbidden) as refusal:
        try:
            existing = await _ask(api, "GET", node_path(name))
        except NotFound:
            raise refusal from None
        _log.info("the node is registered already", node=name)
        patch = reconcile_patch(existing, wanted)
        if patch is None:
            return existing, False
        return await _ask(api, "PATCH", node_path(name), patch), False
    _log.info("node registered", node=name)
    return made, True


async def ensure_csi_node(api: API, name: str, uid: str) -> None:
    """Make the node's CSINode, which schedulers ask for volume limits. Raises APIError."""
    body = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {
            "name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}],
        },
        "spec": {"drivers": []},
    }
    try:
        await _ask(api, "POST", CSI_NODES, body)
    except AlreadyExists:
        return


async def _ask(api: API, method: str, path: str, body: Document | None = None) -> Document:
    kind = STRATEGIC_MERGE_PATCH if method == "PATCH" else "application/json"
    return await api.request(method, path, body=body, content_type=kind, pool=Pool.HEARTBEAT)
