"""Security contexts of sandbox and container: users, groups, capabilities, seccomp, namespaces.

A container's own settings win over the pod's. Sources: kuberuntime/security_context.go,
kuberuntime_sandbox.go, pkg/securitycontext/util.go, pkg/security/apparmor/helpers.go.
"""

import posixpath

from minikubelet.api.pod import (
    AppArmorProfile,
    Container,
    Pod,
    PodSecurityContext,
    SeccompProfile,
    SecurityContext,
    SELinuxOptions,
)
from minikubelet.cri import messages as m
from minikubelet.criconfig.context import ConfigProblem, ImageInfo, NodeContext

_APPARMOR_ANNOTATION = "container.apparmor.security.beta.kubernetes.io/"
_Profile = m.SecurityProfile

MASKED_PATHS = (
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
)
READONLY_PATHS = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


def sandbox_security(pod: Pod) -> m.LinuxSandboxSecurityContext:
    """Return the sandbox's context; groups and SELinux only if the pod has a context at all."""
    security = m.LinuxSandboxSecurityContext(
        privileged=any(is_privileged(container) for container in pod.all_containers()),
        seccomp=_Profile(profile_type=_Profile.RuntimeDefault),
    )
    own = pod.spec.security_context
    if own is None:
        return security
    if own.run_as_user is not None:
        security.run_as_user.value = own.run_as_user
        # CRI has runtimes refuse a group without a user. The kubelet sends it all the same, so that
        # a pod with runAsGroup alone never gets a sandbox; its containers do have a user.
        if own.run_as_group is not None:
            security.run_as_group.value = own.run_as_group
    security.namespace_options.CopyFrom(namespace_options(pod))
    security.supplemental_groups.extend(_groups(own))
    security.supplemental_groups_policy = _groups_policy(own)
    if own.se_linux_options is not None:
        security.selinux_options.CopyFrom(_selinux(own.se_linux_options))
    return security


def container_security(
    pod: Pod, container: Container, node: NodeContext, image: ImageInfo, target_id: str
) -> m.LinuxContainerSecurityContext:
    """Return the container's context. Raises ConfigProblem where the image breaks runAsNonRoot."""
    pod_level = pod.spec.security_context or PodSecurityContext()
    own = container.security_context or SecurityContext()
    verify_non_root(pod, container, image)
    security = m.LinuxContainerSecurityContext(
        privileged=bool(own.privileged),
        readonly_rootfs=bool(own.read_only_root_filesystem),
        no_new_privs=own.allow_privilege_escalation is False,
        namespace_options=namespace_options(pod, target_id),
        supplemental_groups=_groups(pod_level),
        supplemental_groups_policy=_groups_policy(pod_level),
        seccomp=_seccomp(own.seccomp_profile or pod_level.seccomp_profile, node),
    )
    if own.proc_mount != "Unmasked":
        security.masked_paths.extend((*MASKED_PATHS, *node.extra_masked_paths))
        security.readonly_paths.extend(READONLY_PATHS)
    if own.capabilities is not None:
        security.capabilities.add_capabilities.extend(own.capabilities.add)
        security.capabilities.drop_capabilities.extend(own.capabilities.drop)
    selinux = own.se_linux_options or pod_level.se_linux_options
    if selinux is not None:
        security.selinux_options.CopyFrom(_selinux(selinux))
    _set_user(security, own, pod_level, image)
    _set_apparmor(security, _apparmor(pod, container))
    return security


def is_privileged(container: Container) -> bool:
    """Tell whether the container runs with all of the node's powers."""
    return container.security_context is not None and bool(container.security_context.privileged)


def verify_non_root(pod: Pod, container: Container, image: ImageInfo) -> None:
    """Raise ConfigProblem when runAsNonRoot is asked for and root is what would run."""
    pod_level = pod.spec.security_context or PodSecurityContext()
    own = container.security_context or SecurityContext()
    non_root = pod_level.run_as_non_root if own.run_as_non_root is None else own.run_as_non_root
    if not non_root:
        return
    user = pod_level.run_as_user if own.run_as_user is None else own.run_as_user
    where = f'(pod: "{pod.description}", container: {container.name})'
    if user == 0:
        raise ConfigProblem(f"container's runAsUser breaks non-root policy {where}")
    if user is not None:
        return
    if image.uid is None and image.username:
        raise ConfigProblem(
            f"container has runAsNonRoot and image has non-numeric user ({image.username}),"
            f" cannot verify user is non-root {where}"
        )
    if not image.uid:
        raise ConfigProblem(f"container has runAsNonRoot and image will run as root {where}")


def namespace_options(pod: Pod, target_id: str = "") -> m.NamespaceOption:
    """Return which namespaces are the node's, the pod's or a container's own."""
    spec = pod.spec
    pid = m.CONTAINER
    if spec.host_pid:
        pid = m.NODE
    elif spec.share_process_namespace:
        pid = m.POD
    options = m.NamespaceOption(
        network=m.NODE if spec.host_network else m.POD,
        ipc=m.NODE if spec.host_ipc else m.POD,
        pid=pid,
        userns_options=m.UserNamespace(mode=m.NODE),
    )
    if spec.host_users is False:
        raise ConfigProblem(
            f"cannot give pod {pod.description} a user namespace: hostUsers=false is not supported"
        )
    if target_id and pid == m.CONTAINER:
        options.pid = m.TARGET
        options.target_id = target_id
    return options


def _groups(context: PodSecurityContext) -> list[int]:
    first = [context.fs_group] if context.fs_group is not None else []
    return [*first, *context.supplemental_groups]


def _groups_policy(context: PodSecurityContext) -> m.SupplementalGroupsPolicy.ValueType:
    is_strict = context.supplemental_groups_policy == "Strict"
    return m.SupplementalGroupsPolicy.Strict if is_strict else m.SupplementalGroupsPolicy.Merge


def _selinux(options: SELinuxOptions) -> m.SELinuxOption:
    return m.SELinuxOption(
        user=options.user, role=options.role, type=options.type, level=options.level
    )


def _set_user(
    security: m.LinuxContainerSecurityContext,
    own: SecurityContext,
    pod_level: PodSecurityContext,
    image: ImageInfo,
) -> None:
    user = pod_level.run_as_user if own.run_as_user is None else own.run_as_user
    group = pod_level.run_as_group if own.run_as_group is None else own.run_as_group
    if group is not None:
        security.run_as_group.value = group
    if user is None and image.uid is None and image.username:
        security.run_as_username = image.username
        return
    security.run_as_user.value = user if user is not None else image.uid or 0


def _seccomp(profile: SeccompProfile | None, node: NodeContext) -> m.SecurityProfile:
    kind = profile.type if profile is not None else ""
    if kind == "RuntimeDefault" or (profile is None and node.seccomp_default):
        return _Profile(profile_type=_Profile.RuntimeDefault)
    if kind != "Localhost":
        return _Profile(profile_type=_Profile.Unconfined)
    name = (profile.localhost_profile if profile is not None else None) or ""
    if not name:
        raise ConfigProblem("localhostProfile must be set if seccompProfile type is Localhost.")
    if name.startswith("/") or ".." in name.split("/"):
        raise ConfigProblem(
            f'cannot use seccomp profile "{name}": it must be a path below the seccomp root'
        )
    path = posixpath.join(node.root_dir, "seccomp", name)
    return _Profile(profile_type=_Profile.Localhost, localhost_ref=path)


def _apparmor(pod: Pod, container: Container) -> AppArmorProfile | None:
    """Return the container's profile: field, then annotation, then the pod's field."""
    own = container.security_context
    if own is not None and own.app_armor_profile is not None:
        return own.app_armor_profile
    text = pod.metadata.annotations.get(_APPARMOR_ANNOTATION + container.name, "")
    if text == "runtime/default":
        return AppArmorProfile(type="RuntimeDefault")
    if text == "unconfined":
        return AppArmorProfile(type="Unconfined")
    if text.startswith("localhost/"):
        return AppArmorProfile(type="Localhost", localhost_profile=text.removeprefix("localhost/"))
    context = pod.spec.security_context
    return context.app_armor_profile if context is not None else None


def _set_apparmor(
    security: m.LinuxContainerSecurityContext, profile: AppArmorProfile | None
) -> None:
    """Fill the structured field and the string that older runtimes read."""
    if profile is None:
        return
    if profile.type == "Localhost":
        name = profile.localhost_profile or ""
        security.apparmor.profile_type = _Profile.Localhost
        security.apparmor.localhost_ref = name
        security.apparmor_profile = f"localhost/{name}"
    elif profile.type == "RuntimeDefault":
        security.apparmor.profile_type = _Profile.RuntimeDefault
        security.apparmor_profile = "runtime/default"
    else:
        security.apparmor.profile_type = _Profile.Unconfined
        security.apparmor_profile = "unconfined"
