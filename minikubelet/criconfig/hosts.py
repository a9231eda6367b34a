"""The pod's hostname and the text of its /etc/hosts.

The file is written once per sandbox and shared by its containers, so that what an init container
adds to it stays (the kubelet rewrites it at each container start). Source: kubelet_pods.go.
"""

from collections.abc import Iterable, Sequence

from minikubelet.api.pod import HostAlias, Pod
from minikubelet.criconfig.context import ConfigProblem, NodeContext

MAX_HOSTNAME = 63
MAX_FQDN = 64
ETC_HOSTS = "/etc/hosts"

_HEADER = "# Kubernetes-managed hosts file.\n"
_HOST_NETWORK_HEADER = "# Kubernetes-managed hosts file (host network).\n"
_LOCAL = (
    "127.0.0.1\tlocalhost\n"
    "::1\tlocalhost ip6-localhost ip6-loopback\n"
    "fe00::0\tip6-localnet\n"
    "fe00::0\tip6-mcastprefix\n"
    "fe00::1\tip6-allnodes\n"
    "fe00::2\tip6-allrouters\n"
)


def pod_hostname(pod: Pod, node: NodeContext) -> tuple[str, str]:
    """Return host name and domain (empty without subdomain)."""
    spec = pod.spec
    if spec.hostname_override:
        return spec.hostname_override, ""
    # Cutting may leave a separator at the end, which no hostname may have.
    name = (spec.hostname or pod.metadata.name)[:MAX_HOSTNAME].rstrip("-.")
    if not spec.subdomain:
        return name, ""
    return name, f"{spec.subdomain}.{pod.metadata.namespace}.svc.{node.cluster_domain}"


def kernel_hostname(pod: Pod, node: NodeContext) -> str:
    """Return what `hostname` says inside the pod. Raises ConfigProblem for an FQDN too long."""
    name, domain = pod_hostname(pod, node)
    if not pod.spec.set_hostname_as_fqdn or not domain:
        return name
    fqdn = f"{name}.{domain}"
    if len(fqdn) > MAX_FQDN:
        raise ConfigProblem(
            f"failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too"
            f" long ({MAX_FQDN} characters is the max, {len(fqdn)} characters requested)"
        )
    return fqdn


def hosts_file(pod: Pod, node: NodeContext, pod_ips: Sequence[str]) -> str:
    """Return the file of a pod with its own network."""
    name, domain = pod_hostname(pod, node)
    names = f"{name}.{domain}\t{name}" if domain else name
    lines = "".join(f"{ip}\t{names}\n" for ip in pod_ips)
    return _HEADER + _LOCAL + lines + _aliases(pod.spec.host_aliases)


def host_network_hosts_file(pod: Pod, node_hosts: str) -> str:
    """Return the file of a hostNetwork pod: the node's own, then the pod's aliases."""
    return _HOST_NETWORK_HEADER + node_hosts + _aliases(pod.spec.host_aliases)


def needs_hosts_file(pod: Pod, pod_ips: Sequence[str]) -> bool:
    """Tell whether there is anything to write: a pod network without address has nothing."""
    return pod.spec.host_network or bool(pod_ips)


def _aliases(aliases: Iterable[HostAlias]) -> str:
    lines = [f"{alias.ip}\t" + "\t".join(alias.hostnames) + "\n" for alias in aliases]
    return "\n# Entries added by HostAliases.\n" + "".join(lines) if lines else ""
