"""DNS settings, host names and extra lines of /etc/hosts.

Source: validation.go validatePodDNSConfig, validatePodHostName, ValidateHostAliases.
"""

from collections.abc import Iterator

from minikubelet.api.pod import PodDNSConfig, PodSpec
from minikubelet.api.problems import Problem, forbidden, invalid, required, too_long, unsupported
from minikubelet.api.validation.formats import dns_label, dns_search, dns_subdomain, ip_address

_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MAX_SERVERS, _MAX_SEARCHES, _MAX_SEARCH_CHARACTERS = 3, 32, 2048
_MAX_HOST_NAME = 64


def check_dns(spec: PodSpec) -> Iterator[Problem]:
    """Check dnsPolicy and dnsConfig."""
    if not spec.dns_policy:
        yield required("spec.dnsPolicy")
    elif spec.dns_policy not in _POLICIES:
        yield unsupported("spec.dnsPolicy", spec.dns_policy, _POLICIES)
    config = spec.dns_config
    if spec.dns_policy == "None":
        if config is None:
            yield required("spec.dnsConfig", "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not config.nameservers:
            yield required(
                "spec.dnsConfig.nameservers",
                "must provide at least one DNS nameserver when `dnsPolicy` is None",
            )
            return
    if config is not None:
        yield from _config(config)


def _config(config: PodDNSConfig) -> Iterator[Problem]:
    servers, searches = "spec.dnsConfig.nameservers", "spec.dnsConfig.searches"
    if len(config.nameservers) > _MAX_SERVERS:
        yield invalid(
            servers, config.nameservers, f"must not have more than {_MAX_SERVERS} nameservers"
        )
    for index, server in enumerate(config.nameservers):
        yield from (invalid(f"{servers}[{index}]", server, fault) for fault in ip_address(server))
    if len(config.searches) > _MAX_SEARCHES:
        yield invalid(
            searches, config.searches, f"must not have more than {_MAX_SEARCHES} search paths"
        )
    if len(" ".join(config.searches)) > _MAX_SEARCH_CHARACTERS:
        yield invalid(
            searches,
            config.searches,
            f"must not have more than {_MAX_SEARCH_CHARACTERS} characters (including spaces) in "
            "the search list",
        )
    for index, search in enumerate(config.searches):
        if search != ".":
            name = search.removesuffix(".")
            yield from (invalid(f"{searches}[{index}]", name, fault) for fault in dns_search(name))
    for index, option in enumerate(config.options):
        if not option.name:
            yield required(f"spec.dnsConfig.options[{index}]", "must not be empty")


def check_host_names(spec: PodSpec) -> Iterator[Problem]:
    """Check hostname, subdomain, hostnameOverride and hostAliases."""
    for path, name in (("spec.hostname", spec.hostname), ("spec.subdomain", spec.subdomain)):
        if name:
            yield from (invalid(path, name, fault) for fault in dns_label(name))
    yield from _override(spec)
    for index, alias in enumerate(spec.host_aliases):
        path = f"spec.hostAliases[{index}]"
        yield from (invalid(f"{path}.ip", alias.ip, fault) for fault in ip_address(alias.ip))
        for number, name in enumerate(alias.hostnames):
            for fault in dns_subdomain(name):
                yield invalid(f"{path}.hostnames[{number}]", name, fault)


def _override(spec: PodSpec) -> Iterator[Problem]:
    name, path = spec.hostname_override, "spec.hostnameOverride"
    if name is None:
        return
    if spec.set_hostname_as_fqdn:
        yield forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.host_network:
        yield forbidden(path, "may not be specified when hostNetwork is true")
    if len(name) > _MAX_HOST_NAME:
        yield too_long(path, _MAX_HOST_NAME)
    yield from (invalid(path, name, fault) for fault in dns_subdomain(name))
