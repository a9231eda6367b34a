"""ContainerConfig: one container of a pod as the runtime is asked to create it.

Source: kuberuntime_container.go generateContainerConfig.
"""

import posixpath

from minikubelet.api.pod import Container, Pod
from minikubelet.cri import messages as m
from minikubelet.criconfig.context import ContainerInputs, NodeContext
from minikubelet.criconfig.env import container_env
from minikubelet.criconfig.expansion import expand
from minikubelet.criconfig.labels import container_annotations, container_labels
from minikubelet.criconfig.mounts import container_mounts
from minikubelet.criconfig.resources import container_resources
from minikubelet.criconfig.sandbox import pod_log_directory
from minikubelet.criconfig.security import container_security

_MAX_SYMLINK_NAME = 251


def container_config(
    pod: Pod, container: Container, node: NodeContext, inputs: ContainerInputs
) -> m.ContainerConfig:
    """Return the config of an init, regular or ephemeral container. Raises ConfigProblem.

    An empty command or empty args leave the image's ENTRYPOINT or CMD: the runtime decides by the
    Kubernetes table (a command alone drops CMD).
    """
    env = container_env(pod, container, node, inputs)
    security = container_security(pod, container, node, inputs.image, inputs.target_container_id)
    return m.ContainerConfig(
        metadata=m.ContainerMetadata(name=container.name, attempt=inputs.restart_count),
        image=m.ImageSpec(image=inputs.image.ref, user_specified_image=container.image),
        command=[expand(word, env) for word in container.command],
        args=[expand(word, env) for word in container.args],
        working_dir=container.working_dir,
        envs=[m.KeyValue(key=name, value=value) for name, value in env.items()],
        mounts=container_mounts(container, node, inputs),
        labels=container_labels(pod, container),
        annotations=container_annotations(pod, container, inputs.restart_count),
        log_path=container_log_path(container.name, inputs.restart_count),
        stdin=container.stdin,
        stdin_once=container.stdin_once,
        tty=container.tty,
        linux=m.LinuxContainerConfig(
            resources=container_resources(pod, container, node), security_context=security
        ),
    )


def container_log_path(name: str, restart_count: int) -> str:
    """Return the log file below the pod's log directory."""
    return f"{name}/{restart_count}.log"


def log_file(pod: Pod, container: str, restart_count: int, node: NodeContext) -> str:
    """Return the whole path of a container's log."""
    path = container_log_path(container, restart_count)
    return posixpath.join(pod_log_directory(pod, node), path)


def log_symlink(pod: Pod, container: str, container_id: str, node: NodeContext) -> str:
    """Return the link that log collectors follow (kuberuntime/legacy.go); cut to a file name."""
    name = f"{pod.metadata.name}_{pod.metadata.namespace}_{container}-{container_id}"
    return posixpath.join(node.log_links_dir, f"{name[:_MAX_SYMLINK_NAME]}.log")
