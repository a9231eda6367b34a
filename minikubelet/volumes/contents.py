"""Gathers the files of a pod's volumes from the objects that they name, before any disk is touched.

Objects and tokens come through small Protocols: from the apiserver, or from nowhere on a node of
its own. What is missing is a VolumeError in the kubelet's words, or nothing where it is optional.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from minikubelet.api.pod import DownwardAPIVolumeSource, Pod, Volume
from minikubelet.criconfig.context import NodeContext
from minikubelet.kube.api import Document
from minikubelet.kube.errors import (
    APIError,
    NotFound,
    ServerError,
    TooManyRequests,
    Unavailable,
)
from minikubelet.objects.cache import CONFIG_MAPS, SECRETS, Ref
from minikubelet.objects.tokens import DEFAULT_EXPIRATION, Token, TokenKey
from minikubelet.volumes.errors import ContentUnknown, VolumeError
from minikubelet.volumes.ownership import fs_group
from minikubelet.volumes.payload import (
    DEFAULT_MODE,
    FileData,
    Payload,
    checked_path,
    config_map_data,
    downward_payload,
    fs_user,
    merged,
    object_payload,
    secret_data,
)

_TOKEN_MODE = 0o600
_UNSUPPORTED = ("clusterTrustBundle", "podCertificate")


class Objects(Protocol):
    """ConfigMaps and Secrets."""

    async def get(self, ref: Ref) -> Document:
        """Return an object. Raises kube.errors.APIError."""


class TokenSource(Protocol):
    """Service account tokens."""

    async def get(self, key: TokenKey) -> Token:
        """Return a token. Raises kube.errors.APIError."""


class Contents:
    """The files of volumes. Without objects only downwardAPI can be gathered."""

    def __init__(
        self,
        node: NodeContext,
        objects: Objects | None = None,
        tokens: TokenSource | None = None,
    ) -> None:
        self._node = node
        self._objects = objects
        self._tokens = tokens

    async def of(self, pod: Pod, volume: Volume) -> Payload:
        """Return a volume's files. Raises VolumeError."""
        return merged(await self._parts(pod, volume))

    async def _parts(self, pod: Pod, volume: Volume) -> list[Payload]:
        if volume.config_map is not None:
            source = volume.config_map
            return [await self._object(pod, CONFIG_MAPS, source, _mode(source))]
        if volume.secret is not None:
            source = {**volume.secret, "name": volume.secret.get("secretName", "")}
            return [await self._object(pod, SECRETS, source, _mode(source))]
        if volume.downward_api is not None:
            mode = volume.downward_api.default_mode
            mode = DEFAULT_MODE if mode is None else mode
            return [downward_payload(pod, volume.downward_api.items, mode, self._node)]
        return [
            await self._projection(pod, source, _mode(volume.projected))
            for source in volume.projected.get("sources") or ()
        ]

    async def _projection(self, pod: Pod, source: Mapping[str, Any], mode: int) -> Payload:
        for key, kind in (("configMap", CONFIG_MAPS), ("secret", SECRETS)):
            if source.get(key) is not None:
                return await self._object(pod, kind, source[key], mode)
        if source.get("downwardAPI") is not None:
            projection = msgspec.convert(source["downwardAPI"], DownwardAPIVolumeSource)
            return downward_payload(pod, projection.items, mode, self._node)
        if source.get("serviceAccountToken") is not None:
            return await self._token(pod, source["serviceAccountToken"], mode)
        named = next((key for key in _UNSUPPORTED if key in source), "of this kind")
        raise VolumeError(f"projected source {named} is not supported by this node")

    async def _object(self, pod: Pod, kind: str, source: Mapping[str, Any], mode: int) -> Payload:
        word = kind.removesuffix("s")
        ref = Ref(kind, pod.metadata.namespace, source.get("name", ""))
        if self._objects is None:
            raise VolumeError(f"cannot read {ref}: this node has no apiserver")
        try:
            document = await self._objects.get(ref)
        except NotFound as error:
            if source.get("optional"):
                return {}
            raise VolumeError(error.message) from error
        except APIError as error:
            raise _failure(error, error.message) from error
        data = config_map_data(document) if kind == CONFIG_MAPS else secret_data(document)
        return object_payload(word, data, source, mode)

    async def _token(self, pod: Pod, source: Mapping[str, Any], mode: int) -> Payload:
        if self._tokens is None:
            raise VolumeError("cannot get a service account token: this node has no apiserver")
        meta = pod.metadata
        key = TokenKey(
            meta.namespace,
            pod.spec.service_account_name or "default",
            source.get("audience", ""),
            source.get("expirationSeconds") or DEFAULT_EXPIRATION,
            meta.name,
            meta.uid,
        )
        try:
            token = await self._tokens.get(key)
        except APIError as error:
            raise _failure(error, f"failed to fetch token: {error.message}") from error
        user = fs_user(pod)
        if user is not None or fs_group(pod) is not None:
            mode = _TOKEN_MODE
        path = checked_path(source.get("path", ""))
        return {path: FileData(token.token.encode(), mode, user)}


def _failure(error: APIError, text: str) -> VolumeError:
    """Tell an answer that is no from no answer: after that the files there are still right."""
    is_silence = isinstance(error, Unavailable | ServerError | TooManyRequests)
    return ContentUnknown(text) if is_silence else VolumeError(text)


def _mode(source: Mapping[str, Any]) -> int:
    mode = source.get("defaultMode")
    return DEFAULT_MODE if mode is None else int(mode)
