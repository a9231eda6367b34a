"""Which fields of the configuration and which flags have no effect here, and why.

Everything that isn't named here works. A field of these is taken and warned of when it is set to
something else than its default.
"""

from collections.abc import Mapping

_SERVER = "this part of the kubelet API is not served yet"
_EVICTION = "pods are not evicted under node pressure yet"
_IMAGE_GC = "unused images are not removed yet"
_LOG_ROTATION = "container logs are not rotated yet"
_STATS = "usage is not measured yet"
_MANAGERS = "CPUs, memory and devices are not pinned to containers"
_SHUTDOWN = "a shutdown of the node is not delayed yet"
_OWN_PROCESS = "the agent leaves its own process as it was started"
_KERNEL = "the agent changes no setting of the kernel or the firewall"
_RESERVED_CGROUPS = "no cgroup but those of pods is limited"
_SWAP = "swap is left to the runtime"
_GO = "it belongs to the kubelet's own logging library"
_GONE = "the kubelet itself ignores it"

NO_EFFECT: Mapping[str, str] = {
    "readOnlyPort": _SERVER,
    "tlsCurvePreferences": "OpenSSL chooses the key exchange",
    "enableContentionProfiling": _SERVER,
    "oomScoreAdj": _OWN_PROCESS,
    "imageMinimumGCAge": _IMAGE_GC,
    "imageMaximumGCAge": _IMAGE_GC,
    "imageGCHighThresholdPercent": _IMAGE_GC,
    "imageGCLowThresholdPercent": _IMAGE_GC,
    "volumeStatsAggPeriod": _STATS,
    "kubeletCgroups": _OWN_PROCESS,
    "systemCgroups": _OWN_PROCESS,
    "cpuManagerPolicy": _MANAGERS,
    "cpuManagerPolicyOptions": _MANAGERS,
    "cpuManagerReconcilePeriod": _MANAGERS,
    "memoryManagerPolicy": _MANAGERS,
    "topologyManagerPolicy": _MANAGERS,
    "topologyManagerScope": _MANAGERS,
    "topologyManagerPolicyOptions": _MANAGERS,
    "qosReserved": _MANAGERS,
    "reservedSystemCPUs": _MANAGERS,
    "reservedMemory": _MANAGERS,
    "hairpinMode": "the pod network belongs to the CNI plugins",
    "podCIDR": "the pod network belongs to the CNI plugins",
    "runOnce": _GONE,
    "maxOpenFiles": _OWN_PROCESS,
    "contentType": "the apiserver is spoken to in JSON",
    "evictionHard": f"{_EVICTION} (it counts for what pods can have)",
    "evictionSoft": _EVICTION,
    "evictionSoftGracePeriod": _EVICTION,
    "evictionPressureTransitionPeriod": _EVICTION,
    "evictionMaxPodGracePeriod": _EVICTION,
    "evictionMinimumReclaim": _EVICTION,
    "mergeDefaultEvictionSettings": _EVICTION,
    "kernelMemcgNotification": _EVICTION,
    "localStorageCapacityIsolation": _EVICTION,
    "protectKernelDefaults": _KERNEL,
    "makeIPTablesUtilChains": _KERNEL,
    "iptablesMasqueradeBit": _GONE,
    "iptablesDropBit": _GONE,
    "featureGates": "each feature is as it is in Kubernetes 1.36 by default",
    "failSwapOn": _SWAP,
    "memorySwap": _SWAP,
    "containerLogMaxSize": _LOG_ROTATION,
    "containerLogMaxFiles": _LOG_ROTATION,
    "containerLogMaxWorkers": _LOG_ROTATION,
    "containerLogMonitorInterval": _LOG_ROTATION,
    "configMapAndSecretChangeDetectionStrategy": "ConfigMaps and Secrets in use are watched",
    "showHiddenMetricsForVersion": _STATS,
    "systemReservedCgroup": _RESERVED_CGROUPS,
    "kubeReservedCgroup": _RESERVED_CGROUPS,
    "enforceNodeAllocatable": _RESERVED_CGROUPS,
    "volumePluginDir": "FlexVolume plugins are not run",
    "logging.flushFrequency": _GO,
    "logging.vmodule": _GO,
    "logging.options": _GO,
    "enableSystemLogHandler": _SERVER,
    "enableSystemLogQuery": _SERVER,
    "enableProfilingHandler": _SERVER,
    "enableDebugFlagsHandler": _SERVER,
    "shutdownGracePeriod": _SHUTDOWN,
    "shutdownGracePeriodCriticalPods": _SHUTDOWN,
    "shutdownGracePeriodByPodPriority": _SHUTDOWN,
    "memoryThrottlingFactor": "the feature gate MemoryQoS is off",
    "memoryReservationPolicy": "the feature gate MemoryQoS is off",
    "tracing": "traces are not exported",
    "userNamespaces": "pods get no user namespace yet",
    # flags without a field
    "--runtime-cgroups": _STATS,
    "--image-credential-provider-config": "registry credentials are not fetched by plugins yet",
    "--image-credential-provider-bin-dir": "registry credentials are not fetched by plugins yet",
    "--lock-file": "the state directory is locked instead",
    "--exit-on-lock-contention": "the state directory is locked instead",
    "--minimum-container-ttl-duration": "a pod's newest containers are kept with the pod",
    "--maximum-dead-containers": "a pod's newest containers are kept with the pod",
    "--maximum-dead-containers-per-container": "the newest container of each name is kept",
    "--experimental-mounter-path": _GONE,
    "--experimental-allocatable-ignore-eviction": _EVICTION,
    "--pod-infra-container-image": "the runtime chooses the image of the sandbox",
}


def key_of(target: str) -> str:
    """Return the entry that a field (dotted path) or flag (`--name`) falls under, or nothing."""
    while target and target not in NO_EFFECT:
        target = target.rpartition(".")[0]
    return target


def reason_of(target: str) -> str:
    """Return why a field or a flag has no effect, empty when it works."""
    return NO_EFFECT.get(key_of(target), "")
