import base64
from typing import Any

import pytest

from minikubelet.criconfig.context import NodeContext
from minikubelet.kube.api import Document
from minikubelet.kube.errors import (
    APIError,
    Forbidden,
    NotFound,
    ServerError,
    TooManyRequests,
    Unavailable,
)
from minikubelet.objects.cache import CONFIG_MAPS, SECRETS, Ref
from minikubelet.objects.tokens import Token, TokenKey
from minikubelet.volumes.contents import Contents
from minikubelet.volumes.errors import ContentUnknown, VolumeError
from tests.builders import a_pod

pytestmark = pytest.mark.anyio
NODE = NodeContext("n1")


class Objects:
    def __init__(self, documents: dict[Ref, Document], problem: Exception | None = None) -> None:
        self.documents = documents
        self.problem = problem

    async def get(self, ref: Ref) -> Document:
        if self.problem is not None:
            raise self.problem
        if ref not in self.documents:
            raise NotFound(f'{ref.kind.removesuffix("s")} "{ref.name}" not found')
        return self.documents[ref]


class TokenBox:
    def __init__(self) -> None:
        self.asked: list[TokenKey] = []

    async def get(self, key: TokenKey) -> Token:
        self.asked.append(key)
        return Token("t0ken", 0.0, 0.0)


CM = Ref(CONFIG_MAPS, "default", "cm")
SEC = Ref(SECRETS, "default", "sec")
DOCUMENTS: dict[Ref, Document] = {
    CM: {"data": {"a": "1"}},
    SEC: {"data": {"p": base64.b64encode(b"pw").decode()}},
}


async def files(volume: dict[str, Any], **spec: Any) -> dict[str, tuple[bytes, int]]:
    pod = a_pod(volumes=[{"name": "v", **volume}], **spec)
    contents = Contents(NODE, Objects(DOCUMENTS), TokenBox())
    payload = await contents.of(pod, pod.spec.volumes[0])
    return {path: (file.data, file.mode) for path, file in payload.items()}


async def test_each_type_has_its_files() -> None:
    assert await files({"configMap": {"name": "cm"}}) == {"a": (b"1", 0o644)}
    assert await files({"secret": {"secretName": "sec", "defaultMode": 0o400}}) == {
        "p": (b"pw", 0o400)
    }
    item = {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}
    assert await files({"downwardAPI": {"items": [item]}}) == {"n": (b"pod", 0o644)}


async def test_a_projected_volume_has_all_of_them() -> None:
    sources = [
        {"serviceAccountToken": {"path": "token"}},
        {"configMap": {"name": "cm", "items": [{"key": "a", "path": "ca"}]}},
        {"secret": {"name": "sec"}},
        {
            "downwardAPI": {
                "items": [{"path": "ns", "fieldRef": {"fieldPath": "metadata.namespace"}}]
            }
        },
    ]
    assert await files({"projected": {"sources": sources, "defaultMode": 0o444}}) == {
        "token": (b"t0ken", 0o444),
        "ca": (b"1", 0o444),
        "p": (b"pw", 0o444),
        "ns": (b"default", 0o444),
    }


@pytest.mark.parametrize("context", [{"fsGroup": 5}, {"runAsUser": 7}])
async def test_a_token_is_the_owner_s_alone_where_there_is_one(context: dict[str, int]) -> None:
    source = {"projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    assert await files(source, securityContext=context) == {"token": (b"t0ken", 0o600)}


async def test_a_token_is_asked_for_with_audience_and_life() -> None:
    tokens = TokenBox()
    source = {"path": "t", "audience": "vault", "expirationSeconds": 600}
    volume = {"name": "v", "projected": {"sources": [{"serviceAccountToken": source}]}}
    pod = a_pod(volumes=[volume], serviceAccountName="sa")
    await Contents(NODE, Objects({}), tokens).of(pod, pod.spec.volumes[0])
    assert tokens.asked == [TokenKey("default", "sa", "vault", 600, "pod", "uid-1")]


@pytest.mark.parametrize(
    ("volume", "text"),
    [
        ({"configMap": {"name": "gone"}}, 'configmap "gone" not found'),
        ({"secret": {"secretName": "gone"}}, 'secret "gone" not found'),
        (
            {"projected": {"sources": [{"clusterTrustBundle": {"path": "x"}}]}},
            "projected source clusterTrustBundle is not supported by this node",
        ),
    ],
)
async def test_what_is_missing_is_told(volume: dict[str, Any], text: str) -> None:
    with pytest.raises(VolumeError, match=text):
        await files(volume)


async def test_an_optional_object_may_be_missing_but_not_unknown() -> None:
    assert await files({"configMap": {"name": "gone", "optional": True}}) == {}
    pod = a_pod(volumes=[{"name": "v", "configMap": {"name": "cm", "optional": True}}])
    contents = Contents(NODE, Objects({}, Unavailable("connection refused")))
    with pytest.raises(ContentUnknown, match="connection refused"):
        await contents.of(pod, pod.spec.volumes[0])


@pytest.mark.parametrize(
    ("error", "is_silence"),
    [
        (Unavailable("x"), True),
        (ServerError("x", code=500), True),
        (TooManyRequests("x", code=429), True),
        (Forbidden("x", code=403), False),
        (NotFound("x", code=404), False),
    ],
)
async def test_no_answer_is_not_an_answer_of_no(error: APIError, is_silence: bool) -> None:
    pod = a_pod(volumes=[{"name": "v", "secret": {"secretName": "sec"}}])
    with pytest.raises(VolumeError) as raised:
        await Contents(NODE, Objects({}, error)).of(pod, pod.spec.volumes[0])
    assert isinstance(raised.value, ContentUnknown) is is_silence


async def test_a_node_of_its_own_has_only_the_pod_s_fields() -> None:
    item = {"path": "n", "fieldRef": {"fieldPath": "metadata.name"}}
    pod = a_pod(
        volumes=[
            {"name": "d", "downwardAPI": {"items": [item]}},
            {"name": "c", "configMap": {"name": "cm"}},
            {"name": "t", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}},
        ]
    )
    contents = Contents(NODE)
    assert await contents.of(pod, pod.spec.volumes[0])
    for volume in pod.spec.volumes[1:]:
        with pytest.raises(VolumeError, match="this node has no apiserver"):
            await contents.of(pod, volume)
