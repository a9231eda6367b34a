from dataclasses import replace
from typing import Any

import pytest

from minikubelet.cri import messages as m
from minikubelet.criconfig.context import ConfigProblem, ImageInfo, NodeContext
from minikubelet.criconfig.security import (
    MASKED_PATHS,
    READONLY_PATHS,
    container_security,
    namespace_options,
    sandbox_security,
)
from tests.builders import a_container, a_pod

NODE = NodeContext(node_name="n")
ROOT_IMAGE = ImageInfo("i")


def security(
    own: dict[str, Any] | None = None,
    pod: dict[str, Any] | None = None,
    image: ImageInfo = ROOT_IMAGE,
    node: NodeContext = NODE,
    **spec: Any,
) -> m.LinuxContainerSecurityContext:
    a = a_pod(a_container(securityContext=own or {}), securityContext=pod or {}, **spec)
    return container_security(a, a.spec.containers[0], node, image, "")


@pytest.mark.parametrize(
    ("own", "pod", "image", "uid", "username", "gid"),
    [
        ({}, {}, ROOT_IMAGE, 0, "", None),
        ({}, {}, ImageInfo("i", uid=7), 7, "", None),
        ({}, {}, ImageInfo("i", username="nobody"), None, "nobody", None),
        ({}, {"runAsUser": 1, "runAsGroup": 2}, ImageInfo("i", username="nobody"), 1, "", 2),
        (
            {"runAsUser": 3, "runAsGroup": 4},
            {"runAsUser": 1, "runAsGroup": 2},
            ROOT_IMAGE,
            3,
            "",
            4,
        ),
        ({"runAsUser": 0}, {"runAsUser": 1}, ROOT_IMAGE, 0, "", None),
    ],
)
def test_B49_users_are_inherited_from_pod_and_image(
    own: dict[str, Any],
    pod: dict[str, Any],
    image: ImageInfo,
    uid: int | None,
    username: str,
    gid: int | None,
) -> None:
    made = security(own, pod, image)
    assert (made.run_as_user.value if made.HasField("run_as_user") else None) == uid
    assert (made.run_as_group.value if made.HasField("run_as_group") else None) == gid
    assert made.run_as_username == username


@pytest.mark.parametrize(
    ("own", "pod", "image", "message"),
    [
        ({"runAsUser": 0}, {}, ROOT_IMAGE, "container's runAsUser breaks non-root policy"),
        ({}, {"runAsUser": 0}, ROOT_IMAGE, "container's runAsUser breaks non-root policy"),
        ({}, {}, ROOT_IMAGE, "container has runAsNonRoot and image will run as root"),
        ({}, {}, ImageInfo("i", uid=0), "container has runAsNonRoot and image will run as root"),
        (
            {},
            {},
            ImageInfo("i", username="nobody"),
            (
                "container has runAsNonRoot and image has non-numeric user (nobody), cannot verify"
                " user is non-root"
            ),
        ),
    ],
)
def test_B49_non_root_is_verified(
    own: dict[str, Any], pod: dict[str, Any], image: ImageInfo, message: str
) -> None:
    with pytest.raises(ConfigProblem) as caught:
        security(own, pod | {"runAsNonRoot": True}, image)
    assert str(caught.value) == message + ' (pod: "pod_default(uid-1)", container: c)'
    security(own | {"runAsNonRoot": False}, pod | {"runAsNonRoot": True}, image)


def test_B49_a_numeric_user_satisfies_non_root() -> None:
    assert security({"runAsNonRoot": True}, image=ImageInfo("i", uid=5)).run_as_user.value == 5
    nobody = ImageInfo("i", username="nobody")
    assert security({"runAsNonRoot": True}, {"runAsUser": 9}, nobody).run_as_user.value == 9


def test_B49_groups_are_the_pods() -> None:
    pod = {"fsGroup": 5, "supplementalGroups": [6, 7], "supplementalGroupsPolicy": "Strict"}
    made = security(pod=pod)
    assert list(made.supplemental_groups) == [5, 6, 7]
    assert made.supplemental_groups_policy == m.SupplementalGroupsPolicy.Strict
    assert security().supplemental_groups_policy == m.SupplementalGroupsPolicy.Merge


def test_flags() -> None:
    made = security(
        {
            "privileged": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"add": ["NET_ADMIN"], "drop": ["ALL"]},
        }
    )
    assert (made.privileged, made.readonly_rootfs, made.no_new_privs) == (True, True, True)
    assert list(made.capabilities.add_capabilities) == ["NET_ADMIN"]
    assert list(made.capabilities.drop_capabilities) == ["ALL"]
    plain = security()
    assert (plain.privileged, plain.readonly_rootfs, plain.no_new_privs) == (False, False, False)


P = m.SecurityProfile


@pytest.mark.parametrize(
    ("own", "pod", "default", "kind", "path"),
    [
        (None, None, False, P.Unconfined, ""),
        (None, None, True, P.RuntimeDefault, ""),
        (None, {"type": "RuntimeDefault"}, False, P.RuntimeDefault, ""),
        ({"type": "Unconfined"}, {"type": "RuntimeDefault"}, True, P.Unconfined, ""),
        (
            {"type": "Localhost", "localhostProfile": "a/b.json"},
            None,
            False,
            P.Localhost,
            "/var/lib/kubelet/seccomp/a/b.json",
        ),
    ],
)
def test_seccomp(
    own: Any, pod: Any, default: bool, kind: m.SecurityProfile.ProfileType.ValueType, path: str
) -> None:
    node = replace(NODE, seccomp_default=default)
    made = security({"seccompProfile": own}, {"seccompProfile": pod}, node=node)
    assert made.seccomp == P(profile_type=kind, localhost_ref=path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (None, "localhostProfile must be set if seccompProfile type is Localhost."),
        ("../x", "must be a path below the seccomp root"),
        ("a/../../x", "must be a path below the seccomp root"),
        ("/etc/passwd", "must be a path below the seccomp root"),
    ],
)
def test_seccomp_profiles_stay_below_their_root(name: str | None, message: str) -> None:
    with pytest.raises(ConfigProblem, match=message):
        security({"seccompProfile": {"type": "Localhost", "localhostProfile": name}})


@pytest.mark.parametrize(
    ("own", "annotation", "pod", "kind", "text"),
    [
        (None, None, None, None, ""),
        ({"type": "RuntimeDefault"}, "unconfined", None, P.RuntimeDefault, "runtime/default"),
        (None, "unconfined", {"type": "RuntimeDefault"}, P.Unconfined, "unconfined"),
        (None, "localhost/x", None, P.Localhost, "localhost/x"),
        (None, None, {"type": "RuntimeDefault"}, P.RuntimeDefault, "runtime/default"),
    ],
)
def test_apparmor(own: Any, annotation: str | None, pod: Any, kind: int | None, text: str) -> None:
    key = "container.apparmor.security.beta.kubernetes.io/c"
    metadata = {"annotations": {key: annotation} if annotation else {}}
    made = security({"appArmorProfile": own}, {"appArmorProfile": pod}, metadata=metadata)
    assert made.apparmor_profile == text
    assert (made.apparmor.profile_type if made.HasField("apparmor") else None) == kind


def test_proc_mount() -> None:
    node = replace(NODE, extra_masked_paths=("/sys/x",))
    made = security(node=node)
    assert list(made.masked_paths) == [*MASKED_PATHS, "/sys/x"]
    assert list(made.readonly_paths) == list(READONLY_PATHS)
    bare = security({"procMount": "Unmasked"}, node=node)
    assert (list(bare.masked_paths), list(bare.readonly_paths)) == ([], [])


@pytest.mark.parametrize(
    ("spec", "network", "pid", "ipc"),
    [
        ({}, m.POD, m.CONTAINER, m.POD),
        ({"hostNetwork": True}, m.NODE, m.CONTAINER, m.POD),
        ({"hostPID": True, "shareProcessNamespace": False}, m.POD, m.NODE, m.POD),
        ({"hostIPC": True}, m.POD, m.CONTAINER, m.NODE),
        ({"shareProcessNamespace": True}, m.POD, m.POD, m.POD),
    ],
)
def test_namespaces(spec: dict[str, Any], network: int, pid: int, ipc: int) -> None:
    options = namespace_options(a_pod(**spec))
    assert (options.network, options.pid, options.ipc) == (network, pid, ipc)
    assert options.userns_options.mode == m.NODE


def test_an_ephemeral_container_sees_its_target() -> None:
    options = namespace_options(a_pod(), "id-1")
    assert (options.pid, options.target_id) == (m.TARGET, "id-1")
    assert namespace_options(a_pod(shareProcessNamespace=True), "id-1").pid == m.POD


def test_user_namespaces_are_refused_by_name() -> None:
    with pytest.raises(ConfigProblem, match="hostUsers=false is not supported"):
        namespace_options(a_pod(hostUsers=False))


def test_sandbox() -> None:
    pod = a_pod(
        a_container(securityContext={"privileged": True}),
        securityContext={"runAsUser": 1, "runAsGroup": 2, "seLinuxOptions": {"level": "s0"}},
        hostNetwork=True,
    )
    made = sandbox_security(pod)
    assert made.privileged
    assert made.seccomp.profile_type == P.RuntimeDefault
    assert (made.run_as_user.value, made.run_as_group.value) == (1, 2)
    assert made.namespace_options.network == m.NODE
    assert made.selinux_options.level == "s0"
    assert not sandbox_security(a_pod()).HasField("run_as_user")


def test_a_group_alone_does_not_keep_a_pod_from_its_sandbox() -> None:
    pod = a_pod(securityContext={"runAsGroup": 2})
    assert not sandbox_security(pod).HasField("run_as_group")
    assert security(pod={"runAsGroup": 2}).run_as_group.value == 2
