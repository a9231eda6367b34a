"""When a node asks for a certificate and which one: decisions of time and names, pure.

A certificate is asked for when there is none, when the one at hand doesn't say what it should (a
new address), when it came with the bootstrap credential's kubeconfig, and between 70 and 90 % of
its lifetime. Times are Unix seconds of the wall clock: that is what a certificate counts by. Who
comes next: `certificates_request` (the object to send), `certificates_manager` (the one who acts).
Source: client-go util/certificate/certificate_manager.go, kubelet certificate/kubelet.go.
"""

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

CLIENT_SIGNER = "kubernetes.io/kube-apiserver-client-kubelet"
SERVING_SIGNER = "kubernetes.io/kubelet-serving"
NODES = "system:nodes"

EARLIEST, LATEST = 0.7, 0.9
"""Shares of the lifetime between which a certificate is renewed."""
LEAST_APART = 5.0
"""Seconds between two requests, whatever happens."""
FIRST_PAUSE, LONGEST_PAUSE, JITTER = 2.0, 32.0, 0.1
HOPELESS_AFTER = 300.0
"""Seconds without a valid client certificate after which the agent ends (transport.go)."""


@dataclass(frozen=True, slots=True)
class Template:
    """What a certificate shall say."""

    signer: str
    common_name: str
    organizations: tuple[str, ...]
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()

    @property
    def usages(self) -> tuple[str, ...]:
        """The usages to ask for; keys are ECDSA, so nothing is enciphered with them."""
        purpose = "client auth" if self.signer == CLIENT_SIGNER else "server auth"
        return ("digital signature", purpose)


@dataclass(frozen=True, slots=True)
class Held:
    """A certificate at hand: what it says, and from when to when, in Unix seconds."""

    not_before: float
    not_after: float
    common_name: str = ""
    organizations: tuple[str, ...] = ()
    dns_names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()


def client_template(node_name: str) -> Template:
    """Return what a node proves itself with."""
    return Template(CLIENT_SIGNER, f"system:node:{node_name}", (NODES,))


def serving_template(node_name: str, addresses: Iterable[Mapping[str, Any]]) -> Template | None:
    """Return what the node's port shows, from status.addresses; None while no IP is known."""
    names: set[str] = set()
    ips: set[str] = set()
    for entry in addresses:
        kind, text = entry.get("type", ""), entry.get("address", "")
        try:
            ip = str(ipaddress.ip_address(text))
        except ValueError:
            ip = ""
        if ip and kind in ("Hostname", "InternalIP", "ExternalIP"):
            ips.add(ip)
        elif text and not ip and kind in ("Hostname", "InternalDNS", "ExternalDNS"):
            names.add(text)
    if not ips:
        return None
    return Template(
        SERVING_SIGNER,
        f"system:node:{node_name}",
        (NODES,),
        tuple(sorted(names)),
        tuple(sorted(ips)),
    )


def satisfies(held: Held, template: Template) -> bool:
    """Return whether a certificate says at least what it shall."""
    return (
        held.common_name == template.common_name
        and set(held.organizations) >= set(template.organizations)
        and set(held.dns_names) >= set(template.dns_names)
        and set(held.addresses) >= set(template.addresses)
    )


def is_valid(held: Held | None, now: float) -> bool:
    """Return whether somebody accepts the certificate at this moment, as far as time decides."""
    return held is not None and now < held.not_after


def rotate_at(
    held: Held | None, template: Template, share: float, *, begins: float = 0, forced: bool = False
) -> float:
    """Return when to ask for the next certificate; 0 is now.

    `share` is a number from [0, 1) that belongs to the certificate. `begins` is when it was
    received, if that is known: a signer may date a short-lived one back by more than it lasts.
    """
    if forced or held is None or not satisfies(held, template):
        return 0
    start = min(max(held.not_before, begins), held.not_after)
    return start + (held.not_after - start) * (EARLIEST + (LATEST - EARLIEST) * share)


def pause_after(failures: int, random: float) -> float:
    """Return the seconds until the next try after so many failures in a row (at least one)."""
    pause = min(FIRST_PAUSE * 2.0 ** min(failures - 1, 10), LONGEST_PAUSE)
    return max(pause * (1 + JITTER * random), LEAST_APART)


def is_hopeless(without_seconds: float, *, server_answers: bool) -> bool:
    """Return whether only a restart can help: the server answers and still there is nothing.

    A restart reads the kubeconfig and the bootstrap credential again, which somebody may have
    replaced. While the server is away a restart would be of no use.
    """
    return server_answers and without_seconds >= HOPELESS_AFTER
