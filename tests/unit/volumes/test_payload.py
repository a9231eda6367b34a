import base64
from typing import Any

import msgspec
import pytest

from minikubelet.api.pod import DownwardAPIVolumeSource
from minikubelet.criconfig.context import NodeContext
from minikubelet.volumes.errors import VolumeError
from minikubelet.volumes.payload import (
    FileData,
    checked_path,
    config_map_data,
    downward_payload,
    fs_user,
    merged,
    object_payload,
    secret_data,
)
from tests.builders import a_container, a_pod

NODE = NodeContext("n1", allocatable={"cpu": "2", "memory": "1Gi"})
DATA = {"a": b"1", "b": b"2"}


def encoded(text: bytes) -> str:
    return base64.b64encode(text).decode()


def test_both_kinds_of_data_are_read() -> None:
    document = {"data": {"a": "text"}, "binaryData": {"b": encoded(b"\xff\x00")}}
    assert config_map_data(document) == {"a": b"text", "b": b"\xff\x00"}
    assert secret_data({"data": {"k": encoded(b"pw")}}) == {"k": b"pw"}


def test_what_is_no_base64_names_the_object() -> None:
    with pytest.raises(VolumeError, match='cannot read secret "s": a value is no base64'):
        secret_data({"metadata": {"name": "s"}, "data": {"k": "%"}})


def test_all_keys_are_files_with_the_default_mode() -> None:
    assert object_payload("configmap", DATA, {}, 0o640) == {
        "a": FileData(b"1", 0o640),
        "b": FileData(b"2", 0o640),
    }


def test_items_choose_rename_and_set_modes() -> None:
    items = [{"key": "a", "path": "x/y", "mode": 0o400}, {"key": "b", "path": "z"}]
    assert object_payload("secret", DATA, {"items": items}, 0o644) == {
        "x/y": FileData(b"1", 0o400),
        "z": FileData(b"2", 0o644),
    }


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("configmap", "configmap references non-existent config key: gone"),
        ("secret", "references non-existent secret key: gone"),
    ],
)
def test_a_missing_key(kind: str, text: str) -> None:
    items = {"items": [{"key": "gone", "path": "g"}]}
    with pytest.raises(VolumeError, match=f"^{text}$"):
        object_payload(kind, DATA, items, 0o644)
    assert object_payload(kind, DATA, items | {"optional": True}, 0o644) == {}


def test_a_missing_optional_object_is_an_empty_volume() -> None:
    assert object_payload("configmap", None, {"optional": True}, 0o644) == {}


def downward(*items: dict[str, Any]) -> dict[str, str]:
    pod = a_pod(
        a_container("c", resources={"limits": {"memory": "64Mi"}}),
        metadata={"labels": {"b": 'q"', "a": "1"}, "annotations": {"k": "v"}},
    )
    source = msgspec.convert({"items": list(items)}, DownwardAPIVolumeSource)
    payload = downward_payload(pod, source.items, 0o644, NODE)
    return {path: file.data.decode() for path, file in payload.items()}


def test_downward_files_show_fields_and_resources() -> None:
    assert downward(
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "one", "fieldRef": {"fieldPath": "metadata.annotations['k']"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {
            "path": "memory",
            "resourceFieldRef": {
                "containerName": "c",
                "resource": "limits.memory",
                "divisor": "1Mi",
            },
        },
        {
            "path": "cpu",
            "resourceFieldRef": {"containerName": "c", "resource": "limits.cpu"},
        },
    ) == {"labels": 'a="1"\nb="q\\""', "one": "v", "name": "pod", "memory": "64", "cpu": "2"}


def test_a_field_that_a_file_can_not_show_is_refused() -> None:
    with pytest.raises(VolumeError, match="unsupported fieldPath"):
        downward({"path": "ip", "fieldRef": {"fieldPath": "status.podIP"}})


@pytest.mark.parametrize("path", ["", "/a", "../a", "a/../b", "..data", "..2026"])
def test_a_path_stays_in_the_volume(path: str) -> None:
    with pytest.raises(VolumeError, match="invalid path"):
        checked_path(path)


@pytest.mark.parametrize(
    ("pod_user", "users", "expected"),
    [
        pytest.param(None, (None, None), None, id="none"),
        pytest.param(5, (None, None), 5, id="the-pod-s"),
        pytest.param(5, (None, 7), None, id="different"),
        pytest.param(None, (7, 7), 7, id="the-same"),
        pytest.param(None, (7, None), None, id="only-one"),
    ],
)
def test_the_user_of_all_containers(
    pod_user: int | None, users: tuple[int | None, ...], expected: int | None
) -> None:
    containers = [
        a_container(f"c{i}", **({"securityContext": {"runAsUser": u}} if u else {}))
        for i, u in enumerate(users)
    ]
    context = {"runAsUser": pod_user} if pod_user is not None else {}
    assert fs_user(a_pod(*containers, securityContext=context)) == expected


def test_the_later_of_two_projections_wins() -> None:
    first, second = FileData(b"1", 0o644), FileData(b"2", 0o600)
    assert merged([{"a": first, "b": first}, {"a": second}]) == {"a": second, "b": first}


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        pytest.param([["a", "a/b"]], "cannot write a/b: a is a file", id="one-source"),
        pytest.param([["a/b/c"], ["a"]], "cannot write a/b/c: a is a file", id="two-sources"),
    ],
)
def test_a_path_is_a_file_or_a_folder(paths: list[list[str]], text: str) -> None:
    file = FileData(b"", 0o644)
    with pytest.raises(VolumeError, match=f"^{text} of the same volume$"):
        merged([dict.fromkeys(each, file) for each in paths])


@pytest.mark.parametrize("path", ["a/b", "./a/b", "a//b", "a/./b", "a/b/"])
def test_a_path_has_one_form(path: str) -> None:
    assert checked_path(path) == "a/b"
