"""A container's environment, in the order of its spec.

Each value sees the variables before it (then those of services); a later entry of the same name
wins; a name defined later stays literal. Objects were read before and arrive as values; one that
this node can't read is refused by name. Source: kubelet_pods.go makeEnvironmentVariables.
"""

from collections.abc import Mapping

from minikubelet.api import quantity
from minikubelet.api.pod import (
    Container,
    EnvFromSource,
    EnvVar,
    KeySelector,
    Pod,
    Quantity,
    ResourceFieldSelector,
)
from minikubelet.criconfig.context import ConfigProblem, ContainerInputs, NodeContext
from minikubelet.criconfig.expansion import expand
from minikubelet.criconfig.fieldpath import field_value

CONFIG_MAP, SECRET = "ConfigMap", "Secret"
_FALL_BACK_TO_NODE = ("cpu", "memory", "ephemeral-storage")


def container_env(
    pod: Pod, container: Container, node: NodeContext, inputs: ContainerInputs
) -> dict[str, str]:
    """Return the variables, ordered as the container gets them. Raises ConfigProblem."""
    env: dict[str, str] = {}
    for source in container.env_from:
        where = f"envFrom of container {container.name}"
        for key, value in _all_keys(source, inputs, where).items():
            env[f"{source.prefix}{key}"] = value
    for variable in container.env:
        # A repeated name moves to its last place, where the value it now has was computed.
        text = _value(pod, container, variable, node, inputs, env)
        env.pop(variable.name, None)
        if text is not None:
            env[variable.name] = text
    return env | {name: value for name, value in inputs.service_env.items() if name not in env}


def _all_keys(source: EnvFromSource, inputs: ContainerInputs, where: str) -> Mapping[str, str]:
    """Return the variables of one envFrom entry; none of an optional object that is missing."""
    reference = source.config_map_ref or source.secret_ref
    if reference is None:
        raise ConfigProblem(f"cannot resolve {where}: it names neither configMapRef nor secretRef")
    kind = CONFIG_MAP if source.config_map_ref is not None else SECRET
    data = _object(kind, reference.name, inputs, where, optional=bool(reference.optional))
    return data or {}


def _object(
    kind: str, name: str, inputs: ContainerInputs, where: str, *, optional: bool
) -> Mapping[str, str] | None:
    """Return an object's data; None for an optional one that is missing. Raises ConfigProblem."""
    known = inputs.config_maps if kind == CONFIG_MAP else inputs.secrets
    if name not in known:
        raise ConfigProblem(_unreadable(kind, name, where))
    data = known[name]
    if data is None and not optional:
        raise ConfigProblem(f'{kind.lower()} "{name}" not found')
    return data


def _key(
    kind: str, selector: KeySelector, pod: Pod, inputs: ContainerInputs, where: str
) -> str | None:
    optional = bool(selector.optional)
    data = _object(kind, selector.name, inputs, where, optional=optional)
    value = data.get(selector.key) if data is not None else None
    if value is None and not optional:
        place = f"{pod.metadata.namespace}/{selector.name}"
        raise ConfigProblem(f"couldn't find key {selector.key} in {kind} {place}")
    return value


def _value(
    pod: Pod,
    container: Container,
    variable: EnvVar,
    node: NodeContext,
    inputs: ContainerInputs,
    known: dict[str, str],
) -> str | None:
    """Return a variable's value; None leaves it undefined (something optional is missing)."""
    if variable.value:
        return expand(variable.value, known, inputs.service_env)
    source, where = variable.value_from, f"env {variable.name}"
    if source is None:
        return ""
    if source.field_ref is not None:
        host_ips = inputs.host_ips or node.node_ips
        return field_value(pod, source.field_ref.field_path, inputs.pod_ips, host_ips)
    if source.resource_field_ref is not None:
        return resource_value(pod, container, source.resource_field_ref, node)
    if source.config_map_key_ref is not None:
        return _key(CONFIG_MAP, source.config_map_key_ref, pod, inputs, where)
    if source.secret_key_ref is not None:
        return _key(SECRET, source.secret_key_ref, pod, inputs, where)
    if source.file_key_ref is not None:
        file = source.file_key_ref
        raise ConfigProblem(
            f"cannot read file {file.path} of volume {file.volume_name} ({where}): unsupported"
        )
    raise ConfigProblem(f"cannot resolve {where}: valueFrom names no source")


def _unreadable(kind: str, name: str, where: str) -> str:
    return f'cannot read {kind} "{name}" ({where}): this node has no source of {kind}s'


def resource_value(
    pod: Pod, container: Container, selector: ResourceFieldSelector, node: NodeContext
) -> str:
    """Return a resource divided by the selector's divisor, rounded up. Raises ConfigProblem.

    A limit that isn't set is the pod's, else all that the node has; a request that isn't set is 0.
    """
    if selector.container_name and selector.container_name != container.name:
        container = _named(pod, selector.container_name)
    kind, _, resource = selector.resource.partition(".")
    is_known = resource in _FALL_BACK_TO_NODE or resource.startswith("hugepages-")
    if kind not in ("limits", "requests") or not is_known:
        raise ConfigProblem(f"unsupported container resource : {selector.resource}")
    if kind == "limits":
        amount = _limit(pod, container, resource, node)
    else:
        amount = container.resources.requests.get(resource, 0)
    try:
        divisor = quantity.parse(selector.divisor or "1") or 1
        return str(-(-quantity.parse(amount) // divisor))
    except ValueError as problem:
        raise ConfigProblem(f"cannot resolve {selector.resource}: {problem}") from problem


def _limit(pod: Pod, container: Container, resource: str, node: NodeContext) -> Quantity:
    pod_level = pod.spec.resources.limits if pod.spec.resources is not None else {}
    candidates = [container.resources.limits, pod_level]
    if resource in _FALL_BACK_TO_NODE:
        candidates.append(node.allocatable)
    for limits in candidates:
        amount = limits.get(resource, 0)
        if quantity.parse(amount):
            return amount
    return 0


def _named(pod: Pod, name: str) -> Container:
    for container in pod.all_containers():
        if container.name == name:
            return container
    raise ConfigProblem(f"container {name} not found")
