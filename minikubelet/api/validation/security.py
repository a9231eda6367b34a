"""Security settings of pods and containers. Source: validation.go ValidateSecurityContext."""

import re
from collections.abc import Iterator

from minikubelet.api.pod import (
    AppArmorProfile,
    PodSecurityContext,
    PodSpec,
    SeccompProfile,
    SecurityContext,
)
from minikubelet.api.problems import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    join,
    required,
    too_long,
    unsupported,
)
from minikubelet.api.validation.formats import SYSCTL, descending, user_id

_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")
_PROC_MOUNTS = ("Default", "Unmasked")
_MAX_SYSCTL, _MAX_PROFILE = 253, 4095
_CHOICES = (
    ("fs_group_change_policy", "fsGroupChangePolicy", ("Always", "OnRootMismatch")),
    ("supplemental_groups_policy", "supplementalGroupsPolicy", ("Merge", "Strict")),
    ("se_linux_change_policy", "seLinuxChangePolicy", ("MountOption", "Recursive")),
)


def check_pod_security(spec: PodSpec) -> Iterator[Problem]:
    """Check the pod's security context and its use of host namespaces."""
    path = "spec.securityContext"
    if spec.share_process_namespace and spec.host_pid:
        yield invalid(
            "spec.shareProcessNamespace",
            spec.share_process_namespace,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        )
    if spec.host_users is False:
        if spec.host_network:
            yield forbidden("spec.hostNetwork", "when `hostUsers` is false")
        if spec.host_pid:
            yield forbidden("spec.hostPID", "when `hostUsers` is false")
        if spec.host_ipc:
            yield forbidden("spec.hostIPC", "when `hostUsers` is false")
    context = spec.security_context
    if context is None:
        return
    yield from _ids(path, context)
    yield from _sysctls(join(path, "sysctls"), context)
    for name, json_name, choices in _CHOICES:
        value = getattr(context, name)
        if value is not None and value not in choices:
            yield unsupported(join(path, json_name), value, choices)
    yield from _seccomp(join(path, "seccompProfile"), context.seccomp_profile)
    yield from _app_armor(join(path, "appArmorProfile"), context.app_armor_profile)
    if context.windows_options is not None and spec.os is not None and spec.os.name == "linux":
        yield forbidden(
            join(path, "windowsOptions"), "windows options cannot be set for a linux pod"
        )


def _ids(path: str, context: PodSecurityContext) -> Iterator[Problem]:
    named = [
        ("fsGroup", context.fs_group),
        ("runAsUser", context.run_as_user),
        ("runAsGroup", context.run_as_group),
    ]
    named += [
        (f"supplementalGroups[{i}]", gid) for i, gid in enumerate(context.supplemental_groups)
    ]
    for name, value in named:
        if value is not None:
            yield from (invalid(join(path, name), value, fault) for fault in user_id(value))


def _sysctls(path: str, context: PodSecurityContext) -> Iterator[Problem]:
    names: set[str] = set()
    for index, sysctl in enumerate(context.sysctls):
        where = join(path, index, "name")
        if not sysctl.name:
            yield required(where)
        elif len(sysctl.name) > _MAX_SYSCTL or not re.fullmatch(SYSCTL, sysctl.name):
            yield invalid(
                where,
                sysctl.name,
                f"must have at most {_MAX_SYSCTL} characters and match regex {SYSCTL}",
            )
        elif sysctl.name in names:
            yield duplicate(where, sysctl.name)
        names.add(sysctl.name)


def check_security(path: str, context: SecurityContext | None, spec: PodSpec) -> Iterator[Problem]:
    """Check a container's security context."""
    if context is None:
        return
    for name, value in (("runAsUser", context.run_as_user), ("runAsGroup", context.run_as_group)):
        if value is not None:
            yield from (invalid(join(path, name), value, fault) for fault in user_id(value))
    if context.proc_mount is not None:
        if context.proc_mount not in _PROC_MOUNTS:
            yield unsupported(join(path, "procMount"), context.proc_mount, _PROC_MOUNTS)
        if spec.host_users is not False and context.proc_mount == "Unmasked":
            yield invalid(
                join(path, "procMount"),
                context.proc_mount,
                "`hostUsers` must be false to use `Unmasked`",
            )
    yield from _seccomp(join(path, "seccompProfile"), context.seccomp_profile)
    yield from _app_armor(join(path, "appArmorProfile"), context.app_armor_profile)
    yield from _escalation(path, context)
    if context.windows_options is not None and spec.os is not None and spec.os.name == "linux":
        yield forbidden(
            join(path, "windowsOptions"), "windows options cannot be set for a linux pod"
        )


def _escalation(path: str, context: SecurityContext) -> Iterator[Problem]:
    if context.allow_privilege_escalation is not False:
        return
    where = join(path, "allowPrivilegeEscalation")
    cannot = "cannot set `allowPrivilegeEscalation` to false and"
    if context.privileged:
        yield invalid(where, value=False, detail=f"{cannot} `privileged` to true")
    if context.capabilities is not None and "CAP_SYS_ADMIN" in context.capabilities.add:
        yield invalid(where, value=False, detail=f"{cannot} `capabilities.Add` CAP_SYS_ADMIN")


def _seccomp(path: str, profile: SeccompProfile | None) -> Iterator[Problem]:
    if profile is None:
        return
    where = join(path, "localhostProfile")
    if not profile.type:
        yield required(join(path, "type"), "type is required when seccompProfile is set")
    elif profile.type not in _PROFILES:
        yield unsupported(join(path, "type"), profile.type, _PROFILES)
    if profile.type != "Localhost":
        if profile.localhost_profile is not None:
            yield invalid(
                where, profile.localhost_profile, "can only be set when seccomp type is Localhost"
            )
    elif profile.localhost_profile is None:
        yield required(where, "must be set when seccomp type is Localhost")
    else:
        yield from descending(where, profile.localhost_profile)


def _app_armor(path: str, profile: AppArmorProfile | None) -> Iterator[Problem]:
    if profile is None:
        return
    where, name = join(path, "localhostProfile"), profile.localhost_profile
    if not profile.type:
        yield required(join(path, "type"), "type is required when appArmorProfile is set")
    elif profile.type not in _PROFILES:
        yield unsupported(join(path, "type"), profile.type, _PROFILES)
    if profile.type != "Localhost":
        if name is not None:
            yield invalid(where, name, "can only be set when AppArmor type is Localhost")
        return
    if name is None or (name != "" and not name.strip()) or not name:
        yield required(where, "must be set when AppArmor type is Localhost")
    elif name != name.strip():
        yield invalid(where, name, "must not be padded with whitespace")
    elif len(name) > _MAX_PROFILE:
        yield too_long(where, _MAX_PROFILE)
