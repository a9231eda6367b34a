from typing import Any

import pytest

from minikubelet.cri import messages as m
from minikubelet.criconfig.container import container_config, log_file, log_symlink
from minikubelet.criconfig.context import ContainerInputs, ImageInfo, NodeContext
from minikubelet.criconfig.labels import Identity, read_annotations, read_identity
from tests.builders import a_container, a_pod

NODE = NodeContext(node_name="n", pod_logs_dir="/logs")
IMAGE = ImageInfo("sha256:abc", user_specified="busybox:1")


def config(*, init: bool = False, pod: dict[str, Any] | None = None, **fields: Any) -> Any:
    document = a_container(**fields)
    a = a_pod(document, init=(document,), **(pod or {}))
    container = a.spec.init_containers[0] if init else a.spec.containers[0]
    return container_config(a, container, NODE, ContainerInputs(image=IMAGE, restart_count=2))


def test_identity() -> None:
    made = config(workingDir="/w", stdin=True, stdinOnce=True, tty=True)
    assert made.metadata == m.ContainerMetadata(name="c", attempt=2)
    assert made.image.image == "sha256:abc"
    assert made.image.user_specified_image == "busybox:1"
    assert made.log_path == "c/2.log"
    assert (made.working_dir, made.stdin, made.stdin_once, made.tty) == ("/w", True, True, True)
    assert dict(made.labels) == {
        "io.kubernetes.container.name": "c",
        "io.kubernetes.pod.name": "pod",
        "io.kubernetes.pod.namespace": "default",
        "io.kubernetes.pod.uid": "uid-1",
    }


@pytest.mark.parametrize(("command", "args"), [([], []), ([], ["a"]), (["c"], []), (["c"], ["a"])])
def test_B43_command_and_args_are_handed_over_apart(command: list[str], args: list[str]) -> None:
    made = config(command=command, args=args)
    assert (list(made.command), list(made.args)) == (command, args)


def test_B42_command_and_args_are_expanded() -> None:
    made = config(
        env=[{"name": "FOO", "value": "BAR"}],
        command=["sh", "-c"],
        args=["echo $(FOO) $(NOPE) $$(FOO)"],
    )
    assert list(made.args) == ["echo BAR $(NOPE) $(FOO)"]


def test_B26_init_and_regular_containers_are_built_alike() -> None:
    fields: dict[str, Any] = {"env": [{"name": "A", "value": "1"}], "command": ["ls"]}
    assert config(init=True, **fields) == config(**fields)
    assert [pair.key for pair in config(init=True, command=["ls"]).envs] == []


def test_annotations_remember_what_a_restart_needs() -> None:
    made = config(
        pod={"metadata": {"deletionGracePeriodSeconds": 5}},
        lifecycle={"preStop": {"exec": {"command": ["a", "b"]}}},
        ports=[{"containerPort": 80, "name": "http", "protocol": "TCP"}],
    )
    notes = read_annotations(made.annotations)
    assert notes.restart_count == 2
    assert notes.hash == made.annotations["io.kubernetes.container.hash"] != ""
    assert notes.termination_message_path == "/dev/termination-log"
    assert notes.termination_message_policy == "File"
    assert (notes.pod_termination_grace, notes.pod_deletion_grace) == (30, 5)
    assert notes.pre_stop is not None
    assert notes.pre_stop.exec is not None
    assert notes.pre_stop.exec.command == ("a", "b")
    assert notes.ports[0].name == "http"
    assert made.annotations["io.kubernetes.container.preStopHandler"] == (
        '{"exec":{"command":["a","b"]}}'
    )


def test_unreadable_annotations_count_as_missing() -> None:
    notes = read_annotations(
        {
            "io.kubernetes.container.restartCount": "many",
            "io.kubernetes.container.preStopHandler": "{",
            "io.kubernetes.container.ports": "7",
        }
    )
    assert (notes.restart_count, notes.pre_stop, notes.ports) == (0, None, ())


def test_identity_is_read_back() -> None:
    assert read_identity(config().labels) == Identity("pod", "default", "uid-1", "c")
    assert read_identity({"app": "x"}) is None


def test_log_names() -> None:
    pod = a_pod()
    assert log_file(pod, "c", 2, NODE) == "/logs/default_pod_uid-1/c/2.log"
    assert log_symlink(pod, "c", "id", NODE) == "/var/log/containers/pod_default_c-id.log"
    long = log_symlink(a_pod(name="p" * 250), "c", "id", NODE).rpartition("/")[2]
    assert len(long) == 255
