"""Volumes and devices inside containers. Source: validation.go ValidateVolumeMounts.

Paths of problems name the mount by its index, where the apiserver's sometimes name the list only.
"""

from collections.abc import Iterator

from minikubelet.api.pod import Container, PodSpec, VolumeMount
from minikubelet.api.problems import (
    Problem,
    forbidden,
    invalid,
    join,
    not_found,
    required,
    unsupported,
)
from minikubelet.api.validation.formats import descending

_PROPAGATION = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def check_mounts(path: str, container: Container, spec: PodSpec) -> Iterator[Problem]:
    """Check volumeMounts and volumeDevices of one container."""
    volumes = {volume.name for volume in spec.volumes}
    devices = {device.name: device.device_path for device in container.volume_devices}
    seen: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        where = join(path, "volumeMounts", index)
        if not mount.name:
            yield required(join(where, "name"))
        if mount.name not in volumes:
            yield not_found(join(where, "name"), mount.name)
        if not mount.mount_path:
            yield required(join(where, "mountPath"))
        if mount.mount_path in seen:
            yield invalid(join(where, "mountPath"), mount.mount_path, "must be unique")
        seen.add(mount.mount_path)
        if mount.name in devices:
            yield invalid(
                join(where, "name"), mount.name, "must not already exist in volumeDevices"
            )
        if mount.mount_path in devices.values():
            yield invalid(
                join(where, "mountPath"),
                mount.mount_path,
                "must not already exist as a path in volumeDevices",
            )
        yield from _sub_path(where, mount)
        yield from _propagation(where, mount, container)
        yield from _recursive(where, mount)
    yield from _devices(path, container, volumes)


def _sub_path(path: str, mount: VolumeMount) -> Iterator[Problem]:
    if mount.sub_path:
        yield from descending(join(path, "subPath"), mount.sub_path)
    if mount.sub_path_expr:
        where = join(path, "subPathExpr")
        if mount.sub_path:
            yield invalid(
                where, mount.sub_path_expr, "subPathExpr and subPath are mutually exclusive"
            )
        yield from descending(where, mount.sub_path_expr)


def _propagation(path: str, mount: VolumeMount, container: Container) -> Iterator[Problem]:
    mode, where = mount.mount_propagation, join(path, "mountPropagation")
    if mode is None:
        return
    if mode not in _PROPAGATION:
        yield unsupported(where, mode, _PROPAGATION)
    context = container.security_context
    if mode == "Bidirectional" and not (context is not None and context.privileged):
        yield forbidden(
            where, "Bidirectional mount propagation is available only to privileged containers"
        )


def _recursive(path: str, mount: VolumeMount) -> Iterator[Problem]:
    mode, where = mount.recursive_read_only, join(path, "recursiveReadOnly")
    if mode is None or mode == "Disabled":
        return
    if mode not in _RECURSIVE:
        yield unsupported(where, mode, _RECURSIVE)
        return
    if not mount.read_only:
        yield forbidden(where, "may only be specified when readOnly is true")
    if mount.mount_propagation not in {None, "None"}:
        yield forbidden(
            where, "may only be specified when mountPropagation is None or not specified"
        )


def _devices(path: str, container: Container, volumes: set[str]) -> Iterator[Problem]:
    names: set[str] = set()
    paths: set[str] = set()
    for index, device in enumerate(container.volume_devices):
        where = join(path, "volumeDevices", index)
        if not device.name:
            yield required(join(where, "name"))
        if device.name in names:
            yield invalid(join(where, "name"), device.name, "must be unique")
        if device.name not in volumes:
            yield not_found(join(where, "name"), device.name)
        else:
            yield invalid(
                join(where, "name"),
                device.name,
                "can only use volume source type of PersistentVolumeClaim or Ephemeral for block "
                "mode",
            )
        if not device.device_path:
            yield required(join(where, "devicePath"))
        if device.device_path in paths:
            yield invalid(join(where, "devicePath"), device.device_path, "must be unique")
        if ".." in device.device_path.split("/"):
            yield invalid(
                join(where, "devicePath"), device.device_path, "can not contain backsteps ('..')"
            )
        names.add(device.name)
        paths.add(device.device_path)
