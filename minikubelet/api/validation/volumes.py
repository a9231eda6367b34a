"""Volumes: names and sources; sources that are never mounted are refused elsewhere.

Source: validation.go ValidateVolumes. That a hostPath must be absolute is a departure: the
apiserver takes a relative one and leaves it to the runtime's working directory what it means.
"""

from collections.abc import Iterator

from minikubelet.api.pod import DownwardAPIVolumeFile, HostPathVolumeSource, PodSpec, Volume
from minikubelet.api.problems import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    join,
    required,
    unsupported,
)
from minikubelet.api.quantity import parse as parse_quantity
from minikubelet.api.validation.fields import check_field_ref, check_resource_field_ref
from minikubelet.api.validation.formats import descending, dns_label, no_backsteps
from minikubelet.api.validation.resources import QUANTITY_FORM

_HOST_PATH_TYPES = (
    "",
    "BlockDevice",
    "CharDevice",
    "Directory",
    "DirectoryOrCreate",
    "File",
    "FileOrCreate",
    "Socket",
)
_MAX_MODE = 0o777
_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
_JSON_NAMES = dict(zip(Volume.__struct_fields__, Volume.__struct_encode_fields__, strict=True))


def check_volumes(spec: PodSpec) -> Iterator[Problem]:
    """Check every volume of the pod."""
    names: set[str] = set()
    for index, volume in enumerate(spec.volumes):
        path = f"spec.volumes[{index}]"
        yield from _source(path, volume)
        if not volume.name:
            yield required(join(path, "name"))
        else:
            yield from (invalid(join(path, "name"), volume.name, f) for f in dns_label(volume.name))
        if volume.name in names:
            yield duplicate(join(path, "name"), volume.name)
        names.add(volume.name)


def _source(path: str, volume: Volume) -> Iterator[Problem]:
    sources = [
        n for n in Volume.__struct_fields__ if n != "name" and getattr(volume, n) is not None
    ]
    if not sources:
        yield required(path, "must specify a volume type")
    for name in sources[1:]:
        yield forbidden(join(path, _JSON_NAMES[name]), "may not specify more than 1 volume type")
    if volume.empty_dir is not None and volume.empty_dir.size_limit is not None:
        yield from _size_limit(join(path, "emptyDir", "sizeLimit"), volume.empty_dir.size_limit)
    if volume.host_path is not None:
        yield from _host_path(join(path, "hostPath"), volume.host_path)
    if volume.downward_api is not None:
        where = join(path, "downwardAPI")
        mode = volume.downward_api.default_mode
        if mode is not None and not 0 <= mode <= _MAX_MODE:
            yield invalid(join(where, "defaultMode"), mode, _MODE)
        for index, item in enumerate(volume.downward_api.items):
            yield from _downward_file(join(where, "items", index), item)


def _size_limit(path: str, limit: str | float) -> Iterator[Problem]:
    try:
        if parse_quantity(limit) < 0:
            yield forbidden(path, "SizeLimit field must be a valid resource quantity")
    except ValueError:
        yield invalid(path, limit, QUANTITY_FORM)


def _host_path(path: str, source: HostPathVolumeSource) -> Iterator[Problem]:
    where = join(path, "path")
    if not source.path:
        yield required(where)
        return
    if not source.path.startswith("/"):
        yield invalid(where, source.path, "must be an absolute path")
    yield from no_backsteps(where, source.path)
    if source.type is not None and source.type not in _HOST_PATH_TYPES:
        yield unsupported(join(path, "type"), source.type, _HOST_PATH_TYPES)


def _downward_file(path: str, item: DownwardAPIVolumeFile) -> Iterator[Problem]:
    if not item.path:
        yield required(join(path, "path"))
    yield from descending(join(path, "path"), item.path)
    if item.path.startswith("..") and ".." not in item.path.split("/"):
        yield invalid(join(path, "path"), item.path, "must not start with '..'")
    if item.field_ref is not None:
        yield from check_field_ref(join(path, "fieldRef"), item.field_ref, in_volume=True)
        if item.resource_field_ref is not None:
            yield invalid(
                path,
                "resource",
                "fieldRef and resourceFieldRef can not be specified simultaneously",
            )
    elif item.resource_field_ref is not None:
        yield from check_resource_field_ref(
            join(path, "resourceFieldRef"), item.resource_field_ref, in_volume=True
        )
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    if item.mode is not None and not 0 <= item.mode <= _MAX_MODE:
        yield invalid(join(path, "mode"), item.mode, _MODE)
