from dataclasses import replace
from typing import Any

import pytest

from minikubelet.cri import messages as m
from minikubelet.criconfig.context import (
    ConfigProblem,
    ContainerInputs,
    ImageInfo,
    MountedVolume,
    NodeContext,
)
from minikubelet.criconfig.mounts import container_mounts, sub_path
from tests.builders import decoded_container

NODE = NodeContext(node_name="n")
INPUTS = ContainerInputs(
    image=ImageInfo("i"),
    volumes={
        "v": MountedVolume("v", "/vol/v"),
        "ro": MountedVolume("ro", "/vol/ro", read_only=True),
    },
    subpaths={1: "/sub/1"},
)


def mounts(
    *volume_mounts: dict[str, Any], node: NodeContext = NODE, **inputs: Any
) -> list[m.Mount]:
    container = decoded_container(volumeMounts=list(volume_mounts))
    return list(container_mounts(container, node, replace(INPUTS, **inputs)))


def mount(name: str = "v", path: str = "/x", **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path} | fields


def test_volume_mounts_keep_the_spec_order() -> None:
    made = mounts(mount(path="/z"), mount(path="/a", subPath="s"), mount("ro", "rel"))
    assert [(x.container_path, x.host_path, x.readonly) for x in made] == [
        ("/z", "/vol/v", False),
        ("/a", "/sub/1", False),
        ("/rel", "/vol/ro", True),
    ]


@pytest.mark.parametrize(
    ("value", "propagation"),
    [
        (None, m.PROPAGATION_PRIVATE),
        ("None", m.PROPAGATION_PRIVATE),
        ("HostToContainer", m.PROPAGATION_HOST_TO_CONTAINER),
        ("Bidirectional", m.PROPAGATION_BIDIRECTIONAL),
    ],
)
def test_propagation(value: str | None, propagation: int) -> None:
    assert mounts(mount(mountPropagation=value))[0].propagation == propagation


@pytest.mark.parametrize(
    ("fields", "handlers", "expected"),
    [
        ({}, {""}, False),
        ({"recursiveReadOnly": "Disabled", "readOnly": True}, {""}, False),
        ({"recursiveReadOnly": "IfPossible", "readOnly": True}, set(), False),
        ({"recursiveReadOnly": "IfPossible", "readOnly": True}, {""}, True),
        ({"recursiveReadOnly": "Enabled", "readOnly": True}, {""}, True),
    ],
)
def test_recursive_read_only(fields: dict[str, Any], handlers: set[str], expected: bool) -> None:
    node = replace(NODE, recursive_read_only_handlers=frozenset(handlers))
    assert mounts(mount(**fields), node=node)[0].recursive_read_only is expected


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (mount("nope"), 'cannot find volume "nope" to mount into container "c"'),
        (mount(subPath="s"), 'failed to prepare subPath for volumeMount "v"'),
        (mount(recursiveReadOnly="Enabled"), "but it is not read-only"),
        (mount(recursiveReadOnly="Enabled", readOnly=True), "not supported by the runtime"),
        (
            mount(recursiveReadOnly="Enabled", readOnly=True, mountPropagation="Bidirectional"),
            'not compatible with propagation "Bidirectional"',
        ),
    ],
)
def test_a_mount_that_cannot_be_made_is_refused(bad: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigProblem, match=message):
        mounts(bad)


def test_hosts_and_termination_log() -> None:
    made = mounts(hosts_path="/p/etc-hosts", termination_log_path="/p/log")
    assert [(x.container_path, x.host_path, x.readonly) for x in made] == [
        ("/etc/hosts", "/p/etc-hosts", False),
        ("/dev/termination-log", "/p/log", False),
    ]


def test_a_volume_at_etc_hosts_replaces_the_managed_file() -> None:
    made = mounts(mount(path="/etc/hosts"), hosts_path="/p/etc-hosts")
    assert [x.host_path for x in made] == ["/vol/v"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, ""),
        ({"subPath": "a/$(X)"}, "a/$(X)"),
        ({"subPathExpr": "a/$(X)"}, "a/1"),
        ({"subPathExpr": "$$(X)"}, "$(X)"),
    ],
)
def test_sub_path(fields: dict[str, Any], expected: str) -> None:
    container = decoded_container(volumeMounts=[mount(**fields)])
    assert sub_path(container.volume_mounts[0], {"X": "1"}) == expected


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"subPathExpr": "$(B)/$(A)/$(X)"}, "missing value for A, B"),
        ({"subPathExpr": "$(EMPTY)"}, "missing value for EMPTY"),
        ({"subPathExpr": "$(ROOT)"}, "error SubPath `/etc` must not be an absolute path"),
        ({"subPathExpr": "$(UP)/x"}, "unable to provision SubPath `../x`: must not contain '..'"),
        ({"subPath": "a/.."}, "unable to provision SubPath `a/..`: must not contain '..'"),
    ],
)
def test_B50_a_sub_path_cannot_leave_its_volume(fields: dict[str, Any], message: str) -> None:
    container = decoded_container(volumeMounts=[mount(**fields)])
    with pytest.raises(ConfigProblem) as caught:
        sub_path(container.volume_mounts[0], {"X": "1", "EMPTY": "", "ROOT": "/etc", "UP": ".."})
    assert str(caught.value) == message
