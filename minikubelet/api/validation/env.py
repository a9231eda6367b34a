"""Environment variables and their sources. Source: validation.go ValidateEnv, ValidateEnvFrom."""

from collections.abc import Iterator

from minikubelet.api.pod import Container, EnvVar, FileKeySelector, KeySelector, PodSpec
from minikubelet.api.problems import Problem, invalid, join, not_found, required
from minikubelet.api.validation.fields import check_field_ref, check_resource_field_ref
from minikubelet.api.validation.formats import dns_label, dns_subdomain, env_name, no_backsteps

_SOURCES = (
    "field_ref",
    "resource_field_ref",
    "config_map_key_ref",
    "secret_key_ref",
    "file_key_ref",
)


def check_env(path: str, container: Container, spec: PodSpec) -> Iterator[Problem]:
    """Check env and envFrom of one container."""
    for index, variable in enumerate(container.env):
        where = join(path, "env", index)
        if not variable.name:
            yield required(join(where, "name"))
        else:
            yield from (
                invalid(join(where, "name"), variable.name, f) for f in env_name(variable.name)
            )
        yield from _value_from(join(where, "valueFrom"), variable, spec)
    for index, group in enumerate(container.env_from):
        where = join(path, "envFrom", index)
        yield from (invalid(join(where, "prefix"), group.prefix, f) for f in env_name(group.prefix))
        refs = (("configMapRef", group.config_map_ref), ("secretRef", group.secret_ref))
        present = [(name, ref) for name, ref in refs if ref is not None]
        if not present:
            yield invalid(where, "", "must specify one of: `configMapRef` or `secretRef`")
        if len(present) > 1:
            yield invalid(where, "", "may not have more than one field specified at a time")
        for name, ref in present:
            if not ref.name:
                yield required(join(where, name, "name"))
            else:
                yield from (
                    invalid(join(where, name, "name"), ref.name, f) for f in dns_subdomain(ref.name)
                )


def _value_from(path: str, variable: EnvVar, spec: PodSpec) -> Iterator[Problem]:
    source = variable.value_from
    if source is None:
        return
    count = sum(getattr(source, name) is not None for name in _SOURCES)
    if source.field_ref is not None:
        yield from check_field_ref(join(path, "fieldRef"), source.field_ref, in_volume=False)
    if source.resource_field_ref is not None:
        yield from check_resource_field_ref(
            join(path, "resourceFieldRef"), source.resource_field_ref, in_volume=False
        )
    if source.config_map_key_ref is not None:
        yield from _key(join(path, "configMapKeyRef"), source.config_map_key_ref)
    if source.secret_key_ref is not None:
        yield from _key(join(path, "secretKeyRef"), source.secret_key_ref)
    if source.file_key_ref is not None:
        yield from _file_key(join(path, "fileKeyRef"), source.file_key_ref, spec)
    if count == 0:
        yield invalid(
            path,
            "",
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, "
            "`secretKeyRef` or `fileKeyRef`",
        )
    elif variable.value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif count > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def _key(path: str, ref: KeySelector) -> Iterator[Problem]:
    if not ref.name:
        yield required(join(path, "name"))
    if not ref.key:
        yield required(join(path, "key"))


def _file_key(path: str, ref: FileKeySelector, spec: PodSpec) -> Iterator[Problem]:
    if not ref.key:
        yield required(join(path, "key"))
    else:
        yield from (invalid(join(path, "key"), ref.key, fault) for fault in env_name(ref.key))
    if not ref.path:
        yield required(join(path, "path"))
    else:
        yield from no_backsteps(join(path, "path"), ref.path)
    where = join(path, "volumeName")
    if not ref.volume_name:
        yield required(where)
        return
    yield from (invalid(where, ref.volume_name, fault) for fault in dns_label(ref.volume_name))
    volume = next((v for v in spec.volumes if v.name == ref.volume_name), None)
    if volume is None:
        yield not_found(where, ref.volume_name)
    elif volume.empty_dir is None:
        yield invalid(where, ref.volume_name, "referenced volume must be of type emptyDir")
