"""Defaults of KubeletConfiguration, and what this agent sets otherwise.

Works on documents: a field counts as unset when it is missing, and also when it is zero where the
kubelet has no pointer. Source: pkg/kubelet/apis/config/v1beta1/defaults.go.
"""

import copy
from collections.abc import Mapping
from typing import Any

Document = dict[str, Any]

DEFAULTS: Mapping[str, Any] = {
    "enableServer": True,
    "podLogsDir": "/var/log/pods",
    "syncFrequency": "1m0s",
    "fileCheckFrequency": "20s",
    "httpCheckFrequency": "20s",
    "address": "0.0.0.0",
    "port": 10250,
    "authentication.anonymous.enabled": False,
    "authentication.webhook.enabled": True,
    "authentication.webhook.cacheTTL": "2m0s",
    "authorization.mode": "Webhook",
    "authorization.webhook.cacheAuthorizedTTL": "5m0s",
    "authorization.webhook.cacheUnauthorizedTTL": "30s",
    "registryPullQPS": 5,
    "registryBurst": 10,
    "imagePullCredentialsVerificationPolicy": "NeverVerifyPreloadedImages",
    "eventRecordQPS": 50,
    "eventBurst": 100,
    "enableDebuggingHandlers": True,
    "healthzPort": 10248,
    "healthzBindAddress": "127.0.0.1",
    "oomScoreAdj": -999,
    "streamingConnectionIdleTimeout": "4h0m0s",
    "nodeStatusUpdateFrequency": "10s",
    "nodeStatusReportFrequency": "5m0s",
    "nodeLeaseDurationSeconds": 40,
    "imageMinimumGCAge": "2m0s",
    "imageGCHighThresholdPercent": 85,
    "imageGCLowThresholdPercent": 80,
    "volumeStatsAggPeriod": "1m0s",
    "cgroupsPerQOS": True,
    "cgroupDriver": "cgroupfs",
    "cpuManagerPolicy": "none",
    "cpuManagerReconcilePeriod": "10s",
    "memoryManagerPolicy": "None",
    "topologyManagerPolicy": "none",
    "topologyManagerScope": "container",
    "runtimeRequestTimeout": "2m0s",
    "hairpinMode": "promiscuous-bridge",
    "maxPods": 110,
    "podPidsLimit": -1,
    "resolvConf": "/etc/resolv.conf",
    "cpuCFSQuota": True,
    "cpuCFSQuotaPeriod": "100ms",
    "nodeStatusMaxImages": 50,
    "maxOpenFiles": 1_000_000,
    "contentType": "application/vnd.kubernetes.protobuf",
    "kubeAPIQPS": 50,
    "kubeAPIBurst": 100,
    "evictionPressureTransitionPeriod": "5m0s",
    "mergeDefaultEvictionSettings": False,
    "enableControllerAttachDetach": True,
    "makeIPTablesUtilChains": True,
    "iptablesMasqueradeBit": 14,
    "iptablesDropBit": 15,
    "failSwapOn": True,
    "containerLogMaxSize": "10Mi",
    "containerLogMaxFiles": 5,
    "containerLogMaxWorkers": 1,
    "containerLogMonitorInterval": "10s",
    "configMapAndSecretChangeDetectionStrategy": "Watch",
    "enforceNodeAllocatable": ["pods"],
    "volumePluginDir": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
    "logging.format": "text",
    "logging.flushFrequency": "5s",
    "enableSystemLogHandler": True,
    "enableProfilingHandler": True,
    "enableDebugFlagsHandler": True,
    "crashLoopBackOff.maxContainerRestartPeriod": "5m0s",
    "seccompDefault": False,
    "memoryThrottlingFactor": 0.9,
    "memoryReservationPolicy": "None",
    "registerNode": True,
    "localStorageCapacityIsolation": True,
    "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
    "userNamespaces.idsPerPod": 65536,
}

_POINTERS = frozenset(
    {
        "enableServer",
        "registryPullQPS",
        "eventRecordQPS",
        "enableDebuggingHandlers",
        "healthzPort",
        "oomScoreAdj",
        "imageGCHighThresholdPercent",
        "imageGCLowThresholdPercent",
        "cgroupsPerQOS",
        "podPidsLimit",
        "resolvConf",
        "cpuCFSQuota",
        "cpuCFSQuotaPeriod",
        "nodeStatusMaxImages",
        "kubeAPIQPS",
        "mergeDefaultEvictionSettings",
        "enableControllerAttachDetach",
        "makeIPTablesUtilChains",
        "iptablesMasqueradeBit",
        "iptablesDropBit",
        "failSwapOn",
        "containerLogMaxFiles",
        "containerLogMaxWorkers",
        "containerLogMonitorInterval",
        "enforceNodeAllocatable",
        "enableSystemLogHandler",
        "enableProfilingHandler",
        "enableDebugFlagsHandler",
        "crashLoopBackOff.maxContainerRestartPeriod",
        "seccompDefault",
        "memoryThrottlingFactor",
        "registerNode",
        "localStorageCapacityIsolation",
        "authentication.anonymous.enabled",
        "authentication.webhook.enabled",
        "userNamespaces.idsPerPod",
    }
)
"""Fields whose explicit zero is kept."""

_ZEROS: tuple[Any, ...] = ("", 0, "0", "0s", [], {})


def is_zero(value: Any) -> bool:
    """Return True for what Go calls the zero value; `0s` is one of a duration."""
    return value is None or (not isinstance(value, bool) and value in _ZEROS) or value is False


def get(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a dotted path, None where there is none."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def put(document: Document, path: str, value: Any) -> None:
    """Set the value at a dotted path."""
    *parents, last = path.split(".")
    for name in parents:
        below = document.get(name)
        document[name] = below = dict(below) if isinstance(below, Mapping) else {}
        document = below
    document[last] = value


def with_defaults(document: Mapping[str, Any], *, from_file: bool) -> Document:
    """Return a copy with every unset field at its default.

    `failCgroupV1` is true only where a configuration file speaks: with flags alone the agent starts
    on any Linux (a departure).
    """
    result = copy.deepcopy(dict(document))
    update = get(result, "nodeStatusUpdateFrequency")
    if is_zero(get(result, "nodeStatusReportFrequency")) and not is_zero(update):
        put(result, "nodeStatusReportFrequency", update)
    parallel = get(result, "maxParallelImagePulls")
    if get(result, "serializeImagePulls") is None:
        put(result, "serializeImagePulls", parallel is None or parallel < 2)  # noqa: PLR2004  # one pull at a time is serial
    if get(result, "failCgroupV1") is None:
        put(result, "failCgroupV1", from_file)
    for path, default in DEFAULTS.items():
        value = get(result, path)
        if value is None or (path not in _POINTERS and is_zero(value)):
            put(result, path, copy.copy(default))
    if result["podPidsLimit"] < 0:
        result["podPidsLimit"] = -1
    return result
