"""What a configuration may not say: every fault with its field, in the document with defaults.

Source: pkg/kubelet/apis/config/validation/validation.go; fields without effect are checked only
where a wrong value shows a misunderstanding.
"""

import ipaddress
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from minikubelet.api.problems import Problem, at_key, invalid, unsupported
from minikubelet.api.quantity import parse as parse_quantity
from minikubelet.config.config import unix_endpoint
from minikubelet.config.defaults import get
from minikubelet.config.duration import seconds

_DURATIONS = (
    "syncFrequency",
    "fileCheckFrequency",
    "httpCheckFrequency",
    "runtimeRequestTimeout",
    "cpuCFSQuotaPeriod",
    "crashLoopBackOff.maxContainerRestartPeriod",
    "streamingConnectionIdleTimeout",
    "nodeStatusUpdateFrequency",
    "nodeStatusReportFrequency",
    "imageMinimumGCAge",
    "imageMaximumGCAge",
    "volumeStatsAggPeriod",
    "cpuManagerReconcilePeriod",
    "evictionPressureTransitionPeriod",
    "containerLogMonitorInterval",
    "shutdownGracePeriod",
    "shutdownGracePeriodCriticalPods",
    "authentication.webhook.cacheTTL",
    "authorization.webhook.cacheAuthorizedTTL",
    "authorization.webhook.cacheUnauthorizedTTL",
)
_POSITIVE = ("syncFrequency", "fileCheckFrequency", "httpCheckFrequency", "runtimeRequestTimeout")
_RANGES: Mapping[str, tuple[int, int]] = {
    "healthzPort": (0, 65535),
    "port": (1, 65535),
    "readOnlyPort": (0, 65535),
    "imageGCHighThresholdPercent": (0, 100),
    "imageGCLowThresholdPercent": (0, 100),
    "oomScoreAdj": (-1000, 1000),
    "iptablesDropBit": (0, 31),
    "iptablesMasqueradeBit": (0, 31),
    "nodeStatusMaxImages": (-1, 2**31 - 1),
    "logging.verbosity": (0, 2**31 - 1),
    "containerLogMaxFiles": (2, 2**31 - 1),
    "containerLogMaxWorkers": (1, 2**31 - 1),
    "maxParallelImagePulls": (1, 2**31 - 1),
    "eventBurst": (0, 2**31 - 1),
    "eventRecordQPS": (0, 2**31 - 1),
    "kubeAPIBurst": (0, 2**31 - 1),
    "kubeAPIQPS": (0, 2**31 - 1),
    "maxPods": (0, 2**31 - 1),
    "podsPerCore": (0, 2**31 - 1),
    "registryBurst": (0, 2**31 - 1),
    "registryPullQPS": (0, 2**31 - 1),
    "maxOpenFiles": (0, 2**63 - 1),
}
_CHOICES: Mapping[str, tuple[str, ...]] = {
    "cgroupDriver": ("cgroupfs", "systemd"),
    "hairpinMode": ("promiscuous-bridge", "hairpin-veth", "none"),
    "topologyManagerPolicy": ("none", "best-effort", "restricted", "single-numa-node"),
    "topologyManagerScope": ("container", "pod"),
    "authorization.mode": ("AlwaysAllow", "Webhook"),
    "logging.format": ("text", "json"),
}
_RESERVABLE = ("cpu", "memory", "ephemeral-storage", "pid")
_LIMITS: Mapping[str, tuple[float, float, str]] = {
    "crashLoopBackOff.maxContainerRestartPeriod": (1, 300, "must be set between 1s and 300s"),
    "cpuCFSQuotaPeriod": (0.001, 1, "must be between 1ms and 1sec, inclusive"),
}
"""Seconds and the kubelet's words."""
_HOST_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_MAX_HOST_NAME = 253


def check(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield every fault of a defaulted document whose types are right."""
    yield from _durations(document)
    for path, (low, high) in _RANGES.items():
        value = get(document, path)
        if value is not None and not low <= value <= high:
            yield invalid(path, value, f"must be between {low} and {high}, inclusive")
    for path, choices in _CHOICES.items():
        value = get(document, path)
        if value not in choices:
            yield unsupported(path, value, choices)
    yield from _addresses(document)
    yield from _endpoints(document)
    yield from _places(document)
    yield from _reserved(document)
    yield from _pulls(document)
    yield from _log_folder(document)
    low, high = document["imageGCLowThresholdPercent"], document["imageGCHighThresholdPercent"]
    if low >= high:
        yield invalid(
            "imageGCLowThresholdPercent",
            low,
            f"must be less than imageGCHighThresholdPercent {high}",
        )


def _durations(document: Mapping[str, Any]) -> Iterator[Problem]:
    for path in _DURATIONS:
        text = get(document, path)
        if not text:
            continue
        try:
            length = seconds(text)
        except ValueError as error:
            yield invalid(path, text, str(error))
            continue
        if path in _POSITIVE and length <= 0:
            yield invalid(path, text, "must be greater than zero")
        if path in _LIMITS:
            low, high, text_of_limits = _LIMITS[path]
            if not low <= length <= high:
                yield invalid(path, text, text_of_limits)


def _addresses(document: Mapping[str, Any]) -> Iterator[Problem]:
    named = [(path, document[path]) for path in ("address", "healthzBindAddress")]
    named += [(f"clusterDNS[{i}]", text) for i, text in enumerate(document.get("clusterDNS", ()))]
    for path, text in named:
        if not is_ip(text):
            yield invalid(path, text, "must be an IP address")


def is_ip(text: str) -> bool:
    """Return True for an IPv4 or IPv6 address."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _endpoints(document: Mapping[str, Any]) -> Iterator[Problem]:
    for path in ("containerRuntimeEndpoint", "imageServiceEndpoint"):
        text = document.get(path) or ""
        if not text and path == "imageServiceEndpoint":
            continue
        if not unix_endpoint(text).startswith("unix:///"):
            yield invalid(
                path, text, "must be a unix socket, as unix:///run/containerd/containerd.sock"
            )


def _places(document: Mapping[str, Any]) -> Iterator[Problem]:
    url = document.get("staticPodURL")
    try:
        parts = urlsplit(url or "")
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        usable = False
    if url and not usable:
        # Not shown: it may carry a password.
        text = "Invalid value: must be a URL, as https://host/pods.yaml"
        yield Problem("staticPodURL", text)
    group = document.get("cgroupRoot") or ""
    if ".." in group.split("/"):
        yield invalid("cgroupRoot", group, "must not contain '..'")


def _reserved(document: Mapping[str, Any]) -> Iterator[Problem]:
    for field in ("systemReserved", "kubeReserved"):
        for name, quantity in document.get(field, {}).items():
            path = at_key(field, name)
            if name not in _RESERVABLE:
                yield unsupported(path, name, _RESERVABLE)
            try:
                amount = parse_quantity(quantity)
            except ValueError as error:
                yield invalid(path, quantity, str(error))
                continue
            if amount < 0:
                yield invalid(path, quantity, "must be greater than or equal to 0")


def _pulls(document: Mapping[str, Any]) -> Iterator[Problem]:
    parallel = document.get("maxParallelImagePulls")
    if parallel is not None and parallel > 1 and document["serializeImagePulls"]:
        yield invalid(
            "maxParallelImagePulls",
            parallel,
            "cannot be larger than 1 unless serializeImagePulls is false",
        )


def _log_folder(document: Mapping[str, Any]) -> Iterator[Problem]:
    folder = document["podLogsDir"]
    if not folder.startswith("/"):
        yield invalid("podLogsDir", folder, "must be an absolute path")
    elif any(part in {"", ".", ".."} for part in folder[1:].split("/")):
        yield invalid("podLogsDir", folder, "must be normalized")
    elif not folder.isascii():
        yield invalid("podLogsDir", folder, "must contain ASCII characters only")


def check_node_name(name: str) -> Iterator[str]:
    """Yield what is wrong with the node's name: pods are named after it."""
    if len(name) > _MAX_HOST_NAME or not _HOST_NAME.fullmatch(name):
        yield (
            f"--hostname-override: {name!r} is no valid node name "
            "(lower case letters, digits, '-', '.'); set another one"
        )
