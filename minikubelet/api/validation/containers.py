"""Containers: names, images, ports, policies; what regular ones, init ones and sidecars may have.

Source: validation.go validateContainers, validateInitContainers, validateContainerCommon.
"""

from collections.abc import Iterator, Sequence

from minikubelet.api.pod import Container, PodSpec
from minikubelet.api.problems import (
    Problem,
    duplicate,
    forbidden,
    invalid,
    join,
    required,
    too_many,
    unsupported,
)
from minikubelet.api.validation.env import check_env
from minikubelet.api.validation.formats import dns_label, port_name, port_number
from minikubelet.api.validation.handlers import check_probes_and_hooks
from minikubelet.api.validation.mounts import check_mounts
from minikubelet.api.validation.resources import check_resources
from minikubelet.api.validation.security import check_security

_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")
_PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_RESTART = ("Always", "Never", "OnFailure")
_ACTIONS = ("Restart", "RestartAllContainers")
_OPERATORS = ("In", "NotIn")
_RESIZE_RESOURCES = ("cpu", "memory")
_RESIZE_POLICIES = ("NotRequired", "RestartContainer")
_MAX_RULES, _MAX_VALUES = 20, 255
_NOT_IN_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def check_containers(spec: PodSpec) -> Iterator[Problem]:
    """Check regular and init containers of a pod."""
    if not spec.containers:
        yield required("spec.containers")
    names: set[str] = set()
    for index, container in enumerate(spec.containers):
        path = f"spec.containers[{index}]"
        yield from _common(path, container, spec)
        if container.name in names:
            yield duplicate(join(path, "name"), container.name)
        names.add(container.name)
        yield from check_probes_and_hooks(path, container, spec)
        yield from _restart_rules(path, container)
    yield from _host_ports("spec.containers", spec.containers)
    for index, container in enumerate(spec.init_containers):
        path = f"spec.initContainers[{index}]"
        yield from _common(path, container, spec)
        yield from _restart_rules(path, container)
        if container.name in names:
            yield duplicate(join(path, "name"), container.name)
        elif container.name:
            names.add(container.name)
        yield from _host_ports("spec.initContainers", [container], first=index)
        if container.is_sidecar:
            yield from check_probes_and_hooks(path, container, spec)
        else:
            yield from _only_sidecars(path, container)


def _only_sidecars(path: str, container: Container) -> Iterator[Problem]:
    values = (
        container.lifecycle,
        container.liveness_probe,
        container.readiness_probe,
        container.startup_probe,
    )
    for name, value in zip(_NOT_IN_INIT, values, strict=True):
        if value is not None:
            yield forbidden(
                join(path, name), "may not be set for init containers without restartPolicy=Always"
            )
    for index, policy in enumerate(container.resize_policy):
        if policy.restart_policy == "RestartContainer":
            yield invalid(
                join(path, "resizePolicy", index, "restartPolicy"),
                policy.restart_policy,
                "must not be set to 'RestartContainer' for non-sidecar initContainers",
            )


def _common(path: str, container: Container, spec: PodSpec) -> Iterator[Problem]:
    if not container.name:
        yield required(join(path, "name"))
    else:
        yield from (
            invalid(join(path, "name"), container.name, f) for f in dns_label(container.name)
        )
    image = join(path, "image")
    if not container.image:
        yield required(image)
    elif container.image != container.image.strip():
        yield invalid(image, container.image, "must not have leading or trailing whitespace")
    yield from _choice(
        join(path, "terminationMessagePolicy"),
        container.termination_message_policy,
        _MESSAGE_POLICIES,
    )
    yield from _ports(join(path, "ports"), container)
    yield from check_env(path, container, spec)
    yield from check_mounts(path, container, spec)
    yield from _choice(join(path, "imagePullPolicy"), container.image_pull_policy, _PULL_POLICIES)
    yield from check_resources(join(path, "resources"), container.resources)
    yield from _resize(join(path, "resizePolicy"), container, spec)
    yield from check_security(join(path, "securityContext"), container.security_context, spec)


def _choice(path: str, value: str, supported: tuple[str, ...]) -> Iterator[Problem]:
    if not value:
        yield required(path)
    elif value not in supported:
        yield unsupported(path, value, supported)


def _ports(path: str, container: Container) -> Iterator[Problem]:
    names: set[str] = set()
    for index, port in enumerate(container.ports):
        where = join(path, index)
        if port.name:
            faults = list(port_name(port.name))
            yield from (invalid(join(where, "name"), port.name, fault) for fault in faults)
            if not faults and port.name in names:
                yield duplicate(join(where, "name"), port.name)
            names.add(port.name)
        if port.container_port == 0:
            yield required(join(where, "containerPort"))
        else:
            for fault in port_number(port.container_port):
                yield invalid(join(where, "containerPort"), port.container_port, fault)
        if port.host_port != 0:
            for fault in port_number(port.host_port):
                yield invalid(join(where, "hostPort"), port.host_port, fault)
        yield from _choice(join(where, "protocol"), port.protocol, _PROTOCOLS)


def _host_ports(path: str, containers: Sequence[Container], first: int = 0) -> Iterator[Problem]:
    taken: set[str] = set()
    for index, container in enumerate(containers, start=first):
        for number, port in enumerate(container.ports):
            if port.host_port == 0:
                continue
            key = f"{port.protocol}/{port.host_ip}/{port.host_port}"
            if key in taken:
                yield duplicate(join(path, index, "ports", number, "hostPort"), key)
            taken.add(key)


def _restart_rules(path: str, container: Container) -> Iterator[Problem]:
    policy, rules = container.restart_policy, container.restart_policy_rules
    if policy is None:
        if rules:
            yield required(
                join(path, "restartPolicy"),
                "must specify restartPolicy when restart rules are used",
            )
    elif policy not in _RESTART:
        yield unsupported(join(path, "restartPolicy"), policy, _RESTART)
    where = join(path, "restartPolicyRules")
    if len(rules) > _MAX_RULES:
        yield too_many(where, len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        if rule.action not in _ACTIONS:
            yield unsupported(join(where, index, "action"), rule.action, _ACTIONS)
        codes, codes_path = rule.exit_codes, join(where, index, "exitCodes")
        if codes is None:
            yield required(codes_path, "must be specified")
            continue
        if codes.operator not in _OPERATORS:
            yield unsupported(join(codes_path, "operator"), codes.operator, _OPERATORS)
        if len(codes.values) > _MAX_VALUES:
            yield too_many(join(codes_path, "values"), len(codes.values), _MAX_VALUES)


def _resize(path: str, container: Container, spec: PodSpec) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, policy in enumerate(container.resize_policy):
        if policy.resource_name in seen:
            yield duplicate(join(path, index), policy.resource_name)
        seen.add(policy.resource_name)
        yield from _choice(path, policy.resource_name, _RESIZE_RESOURCES)
        yield from _choice(path, policy.restart_policy, _RESIZE_POLICIES)
        if spec.restart_policy == "Never" and policy.restart_policy != "NotRequired":
            yield invalid(
                path,
                policy.restart_policy,
                "must be 'NotRequired' when pod `restartPolicy` is 'Never'",
            )
