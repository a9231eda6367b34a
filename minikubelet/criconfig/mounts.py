"""The mounts of a container: its volumeMounts in spec order, /etc/hosts, the termination message.

Host paths were prepared before: volumes by `volumes.manager`, subPaths by `volumes.subpath`, files
by the caller. Source: kubelet_pods.go makeMounts, kuberuntime_container.go makeMounts.
"""

import posixpath
from collections.abc import Iterator, Mapping

from minikubelet.api.pod import Container, VolumeMount
from minikubelet.cri import messages as m
from minikubelet.criconfig.context import ConfigProblem, ContainerInputs, NodeContext
from minikubelet.criconfig.expansion import expand_and_list_unknown
from minikubelet.criconfig.hosts import ETC_HOSTS

_PROPAGATION = {
    None: m.PROPAGATION_PRIVATE,
    "None": m.PROPAGATION_PRIVATE,
    "HostToContainer": m.PROPAGATION_HOST_TO_CONTAINER,
    "Bidirectional": m.PROPAGATION_BIDIRECTIONAL,
}


def container_mounts(
    container: Container, node: NodeContext, inputs: ContainerInputs
) -> Iterator[m.Mount]:
    """Yield the mounts. Raises ConfigProblem for one that can't be made."""
    is_hosts_taken = False
    for index, mount in enumerate(container.volume_mounts):
        is_hosts_taken = is_hosts_taken or mount.mount_path == ETC_HOSTS
        yield _volume_mount(container, index, mount, node, inputs)
    if inputs.hosts_path and not is_hosts_taken:
        yield m.Mount(
            container_path=ETC_HOSTS,
            host_path=inputs.hosts_path,
            selinux_relabel=node.selinux,
        )
    if inputs.termination_log_path and container.termination_message_path:
        yield m.Mount(
            container_path=container.termination_message_path,
            host_path=inputs.termination_log_path,
            selinux_relabel=node.selinux,
        )


def _volume_mount(
    container: Container,
    index: int,
    mount: VolumeMount,
    node: NodeContext,
    inputs: ContainerInputs,
) -> m.Mount:
    volume = inputs.volumes.get(mount.name)
    if volume is None:
        raise ConfigProblem(
            f'cannot find volume "{mount.name}" to mount into container "{container.name}"'
        )
    host_path = volume.host_path
    if mount.sub_path or mount.sub_path_expr:
        prepared = inputs.subpaths.get(index)
        if prepared is None:
            raise ConfigProblem(f'failed to prepare subPath for volumeMount "{mount.name}"')
        host_path = prepared
    if mount.mount_propagation not in _PROPAGATION:
        raise ConfigProblem(f'invalid MountPropagation mode: "{mount.mount_propagation}"')
    return m.Mount(
        container_path=posixpath.join("/", mount.mount_path),
        host_path=host_path,
        readonly=mount.read_only or volume.read_only,
        propagation=_PROPAGATION[mount.mount_propagation],
        recursive_read_only=_recursive_read_only(mount, node, inputs.runtime_handler),
    )


def _recursive_read_only(mount: VolumeMount, node: NodeContext, handler: str) -> bool:
    mode = mount.recursive_read_only
    if mode in (None, "Disabled"):
        return False
    asked = f'volume "{mount.name}" requested recursive read-only mode, but it is not'
    if not mount.read_only:
        raise ConfigProblem(f"{asked} read-only")
    if mount.mount_propagation not in (None, "None"):
        raise ConfigProblem(f'{asked} compatible with propagation "{mount.mount_propagation}"')
    can = handler in node.recursive_read_only_handlers
    if mode == "Enabled" and not can:
        raise ConfigProblem(f"{asked} supported by the runtime")
    return can


def sub_path(mount: VolumeMount, env: Mapping[str, str]) -> str:
    """Return the mount's subPath with subPathExpr expanded; empty when the whole volume is meant.

    Raises ConfigProblem for an unknown or empty variable and for a path that leaves the volume.
    """
    path = mount.sub_path
    if mount.sub_path_expr:
        path, unknown = expand_and_list_unknown(mount.sub_path_expr, _refusing_empty(env))
        if unknown:
            raise ConfigProblem(f"missing value for {', '.join(sorted(set(unknown)))}")
        if not path:
            raise ConfigProblem(f'subPathExpr "{mount.sub_path_expr}" expands to nothing')
    if path.startswith("/"):
        raise ConfigProblem(f"error SubPath `{path}` must not be an absolute path")
    if ".." in path.split("/"):
        raise ConfigProblem(f"unable to provision SubPath `{path}`: must not contain '..'")
    return path


def _refusing_empty(env: Mapping[str, str]) -> Mapping[str, str]:
    """Return the variables that have a value: an empty one would silently mean another folder."""
    return {name: value for name, value in env.items() if value}
