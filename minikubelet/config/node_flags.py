"""What --node-labels, --node-ip and --bootstrap-kubeconfig may say.

Source: cmd/kubelet/app/options/options.go ValidateKubeletFlags, kubelet apis/well_known_labels.go,
component-helpers node/util/ips.go ParseNodeIPArgument.
"""

import ipaddress
from collections.abc import Iterator, Mapping

from minikubelet.api.validation.formats import label_value, qualified_name

_LABELS = (
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/instance-type",
    "beta.kubernetes.io/os",
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "kubernetes.io/os",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)
_NAMESPACES = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBERNETES = ("kubernetes.io", "k8s.io")
_PAIR = 2


def check_node_labels(labels: Mapping[str, str]) -> Iterator[str]:
    """Yield what is wrong with the labels to register with."""
    unknown = sorted(key for key in labels if _is_reserved(key))
    if unknown:
        yield (
            "--node-labels: unknown 'kubernetes.io' or 'k8s.io' labels specified with "
            f"--node-labels: [{' '.join(unknown)}]; --node-labels in the 'kubernetes.io' namespace "
            f"must begin with an allowed prefix ({', '.join(_NAMESPACES)}) or be in the "
            f"specifically allowed set ({', '.join(_LABELS)})"
        )
    for key, value in labels.items():
        for fault in qualified_name(key):
            yield f"--node-labels: invalid key {key!r}: {fault}"
        for fault in label_value(value):
            yield f"--node-labels: invalid value {value!r} of {key}: {fault}"


def _is_reserved(key: str) -> bool:
    """Tell whether a label is Kubernetes' own and not a node's to set."""
    namespace, slash, _ = key.rpartition("/")
    if not slash or not _is_within(namespace, _KUBERNETES):
        return False
    return key not in _LABELS and not _is_within(namespace, _NAMESPACES)


def _is_within(namespace: str, above: tuple[str, ...]) -> bool:
    return namespace in above or namespace.endswith(tuple(f".{name}" for name in above))


def read_node_ips(text: str) -> tuple[tuple[str, ...], list[str], list[str]]:
    """Return the addresses of --node-ip, its faults, and warnings of parts that are left out."""
    ips, warnings = [], []
    for part in (part.strip() for part in text.split(",")):
        try:
            ips += [ipaddress.ip_address(part)] if part else []
        except ValueError:
            warnings.append(f"--node-ip: {part!r} is no IP address, it is left out")
    faults = []
    if len(ips) > _PAIR or (len(ips) == _PAIR and ips[0].version == ips[1].version):
        faults.append(
            f"--node-ip: bad --node-ip {text!r}: must contain either a single IP or a dual-stack "
            "pair of IPs"
        )
    elif len(ips) == _PAIR and any(ip.is_unspecified for ip in ips):
        faults.append(
            f"--node-ip: bad --node-ip {text!r}: dual-stack node IP cannot include '0.0.0.0' or "
            "'::'"
        )
    return tuple(str(ip) for ip in ips), faults, warnings


def node_ip_problem(text: str) -> str:
    """Return why a node can't have this address, in the kubelet's words; empty if it can."""
    ip = ipaddress.ip_address(text)
    for is_so, what in (
        (ip.is_loopback, "loopback address"),
        (ip.is_multicast, "a multicast address"),
        (ip.is_link_local, "a link-local unicast address"),
        (ip.is_unspecified, "an all zeros address"),
    ):
        if is_so:
            return f'failed to validate nodeIP: nodeIP: "{text}" can\'t be {what}'
    return ""
