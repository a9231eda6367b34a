"""The pod's resolver configuration.

The caller reads the node's resolv.conf; here it is parsed, combined with dnsPolicy and dnsConfig,
and cut to what resolvers can stand. Source: network/dns/dns.go.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from minikubelet.api.pod import Pod
from minikubelet.cri import messages as m
from minikubelet.criconfig.context import NodeContext

MAX_SERVERS, MAX_SEARCHES, MAX_SEARCH_CHARACTERS, MAX_DOMAIN = 3, 32, 2048, 253
RESOLVED_STUB = "127.0.0.53"
RESOLVED_UPSTREAM_FILE = "/run/systemd/resolve/resolv.conf"
"""Where systemd-resolved keeps the servers behind its stub."""

_CLUSTER_OPTIONS = ("ndots:5",)


@dataclass(frozen=True, slots=True)
class ResolvConf:
    """A parsed resolv.conf."""

    servers: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    options: tuple[str, ...] = ()

    @property
    def is_resolved_stub(self) -> bool:
        """True when it only names systemd-resolved: pods need RESOLVED_UPSTREAM_FILE instead."""
        return self.servers == (RESOLVED_STUB,)


@dataclass(frozen=True, slots=True)
class DNSWarning:
    """A Warning event for the pod; `node_message` is the text of the one for the node, if any."""

    reason: str
    message: str
    node_message: str = ""


def parse_resolv_conf(text: str) -> ResolvConf:
    """Return servers, the last search list and the options; a broken line is passed over."""
    servers: list[str] = []
    searches: list[str] = []
    options: list[str] = []
    for line in text.splitlines():
        keyword, *words = line.split() or [""]
        if keyword == "nameserver" and words:
            servers.append(words[0])
        elif keyword == "search":
            searches = [word.removesuffix(".") for word in words if word != "."]
        elif keyword == "options":
            options += words
    return ResolvConf(tuple(servers), tuple(searches), _merged_options(options))


def pod_dns(
    pod: Pod, node: NodeContext, host: ResolvConf | None
) -> tuple[m.DNSConfig, tuple[DNSWarning, ...]]:
    """Return the pod's resolver configuration and what people should be told about it.

    `host` is the node's resolv.conf; None stands for an empty resolverConfig, which switches
    look-ups off under the policy Default.
    """
    warnings: list[DNSWarning] = []
    conf = _by_policy(pod, node, host, warnings)
    extra = pod.spec.dns_config
    if extra is not None:
        added = (o.name if not o.value else f"{o.name}:{o.value}" for o in extra.options)
        conf = ResolvConf(
            _distinct((*conf.servers, *extra.nameservers)),
            _distinct((*conf.searches, *extra.searches)),
            _merged_options((*conf.options, *added)),
        )
    servers = _fitting_servers(conf.servers, warnings)
    searches = _fitting_searches(conf.searches, warnings)
    return m.DNSConfig(servers=servers, searches=searches, options=conf.options), tuple(warnings)


def _by_policy(
    pod: Pod, node: NodeContext, host: ResolvConf | None, warnings: list[DNSWarning]
) -> ResolvConf:
    policy = pod.spec.dns_policy
    if policy == "None":
        return ResolvConf()
    is_host = policy == "Default" or (policy == "ClusterFirst" and pod.spec.host_network)
    if not is_host and policy != "ClusterFirstWithHostNet" and pod.spec.host_network:
        is_host = True  # an unknown policy counts as ClusterFirst
    if not is_host and node.cluster_dns:
        searches = _cluster_searches(pod, node, host.searches if host else ())
        return ResolvConf(node.cluster_dns, searches, _CLUSTER_OPTIONS)
    if not is_host:
        text = (
            "kubelet does not have ClusterDNS IP configured and cannot create Pod using"
            ' "ClusterFirst" policy. Falling back to "Default" policy.'
        )
        warnings.append(DNSWarning("MissingClusterDNS", f'pod: "{pod.description}". {text}', text))
    if host is None:
        local = ["::1" if ":" in ip else "127.0.0.1" for ip in node.node_ips] or ["127.0.0.1"]
        return ResolvConf(tuple(local), (".",))
    _warn_of_loopback(pod, host, warnings)
    return host


def _cluster_searches(pod: Pod, node: NodeContext, host: Sequence[str]) -> tuple[str, ...]:
    domain = node.cluster_domain
    if not domain:
        return tuple(host)
    return _distinct((f"{pod.metadata.namespace}.svc.{domain}", f"svc.{domain}", domain, *host))


def _warn_of_loopback(pod: Pod, host: ResolvConf, warnings: list[DNSWarning]) -> None:
    """Inside the pod's own network a loopback address is the pod, not the node."""
    loopback = [server for server in host.servers if _is_loopback(server)]
    if loopback and not pod.spec.host_network:
        text = (
            f"the node's nameserver {' '.join(loopback)} is a loopback address that the pod cannot"
            " reach: name resolvConf a file with the real servers"
        )
        warnings.append(DNSWarning("DNSConfigForming", text))


def _is_loopback(server: str) -> bool:
    try:
        return ip_address(server.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))


def _merged_options(options: Iterable[str]) -> tuple[str, ...]:
    """Return one entry a name, the last value at the first place."""
    return tuple({option.partition(":")[0]: option for option in options}.values())


def _fitting_servers(servers: Sequence[str], warnings: list[DNSWarning]) -> Sequence[str]:
    if len(servers) <= MAX_SERVERS:
        return servers
    kept = servers[:MAX_SERVERS]
    text = (
        "Nameserver limits were exceeded, some nameservers have been omitted, the applied"
        f" nameserver line is: {' '.join(kept)}"
    )
    warnings.append(DNSWarning("DNSConfigForming", text))
    return kept


def _fitting_searches(searches: Sequence[str], warnings: list[DNSWarning]) -> Sequence[str]:
    kept = [search for search in searches[:MAX_SEARCHES] if len(search) <= MAX_DOMAIN]
    while len(" ".join(kept)) > MAX_SEARCH_CHARACTERS:
        kept.pop()
    if len(kept) < len(searches):
        text = (
            "Search Line limits were exceeded, some search paths have been omitted, the applied"
            f" search line is: {' '.join(kept)}"
        )
        warnings.append(DNSWarning("DNSConfigForming", text))
    return kept
