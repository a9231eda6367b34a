"""The table of flags: every one of the kubelet 1.36, where its value goes, and what it means.

A target is the dotted path of a configuration field, or empty for a value that only flags have.
Whether it works is told by `effects`. Source: cmd/kubelet/app/options/options.go, component-base
logs.
"""

# ruff: noqa: E501  # a table: one flag a line

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How the text of a flag is read; the names are those of pflag's help."""

    STRING = "string"
    BOOL = "bool"
    INT = "int"
    DURATION = "duration"
    IP = "ip"
    LIST = "strings"
    MAP = "mapStringString"
    MAP_WHOLE = "mapStringStringNoSplit"
    MAP_LESS = "mapStringString<"
    MAP_BOOL = "mapStringBool"
    MULTIMAP = "colonSeparatedMultimapStringString"
    TAINTS = "taints"
    RESERVED_MEMORY = "reservedMemory"
    PATTERNS = "pattern=N,..."
    QUANTITY = "quantity"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, its `name` without dashes; `gone` when Kubernetes 1.36 has it no more."""

    name: str
    kind: Kind
    target: str
    help: str
    group: str
    gone: bool = False

    @property
    def effect_key(self) -> str:
        """The key of `effects.NO_EFFECT`."""
        return self.target or f"--{self.name}"


S, B, N, D, L, M = Kind.STRING, Kind.BOOL, Kind.INT, Kind.DURATION, Kind.LIST, Kind.MAP
_Row = tuple[str, Kind, str, str]

_GROUPS: dict[str, tuple[_Row, ...]] = {
    "Configuration": (
        ("config", S, "", "KubeletConfiguration file (kubelet.config.k8s.io/v1beta1)"),
        ("config-dir", S, "", "folder of drop-ins (*.conf) merged over --config in order of their names"),
        ("strict-config", B, "", "make an unknown field of the configuration an error"),
        ("root-dir", S, "", "folder for the agent's files: volumes, state, the local socket"),
        ("feature-gates", Kind.MAP_BOOL, "featureGates", "feature gates, as A=true,B=false"),
        ("runonce", B, "runOnce", "exit after starting the pods"),
    ),
    "Container runtime": (
        ("container-runtime-endpoint", S, "containerRuntimeEndpoint", "CRI socket, as unix:///path"),
        ("image-service-endpoint", S, "imageServiceEndpoint", "CRI socket for images; empty: the runtime's"),
        ("runtime-request-timeout", D, "runtimeRequestTimeout", "deadline of a runtime call, long ones apart"),
        ("serialize-image-pulls", B, "serializeImagePulls", "pull one image at a time"),
        ("registry-qps", N, "registryPullQPS", "pulls per second; 0: unlimited"),
        ("registry-burst", N, "registryBurst", "pulls at once above --registry-qps"),
        ("image-credential-provider-config", S, "", "configuration of credential plugins"),
        ("image-credential-provider-bin-dir", S, "", "folder of credential plugins"),
        ("pod-infra-container-image", S, "", "image of the sandbox"),
    ),
    "Pods from files and URLs": (
        ("pod-manifest-path", S, "staticPodPath", "folder or file of pod manifests"),
        ("file-check-frequency", D, "fileCheckFrequency", "pause between looks that repair lost file events"),
        ("manifest-url", S, "staticPodURL", "URL of pod manifests"),
        ("manifest-url-header", Kind.MULTIMAP, "staticPodURLHeader", "headers for --manifest-url, as K:v,K:v; repeatable"),
        ("http-check-frequency", D, "httpCheckFrequency", "pause between requests of --manifest-url"),
        ("sync-frequency", D, "syncFrequency", "longest pause between two checks of a pod"),
    ),
    "Node": (
        ("hostname-override", S, "", "name of the node; empty: the host's name"),
        ("node-ip", S, "", "address of the node, or one of each family with a comma"),
        ("max-pods", N, "maxPods", "most pods on this node"),
        ("pods-per-core", N, "podsPerCore", "most pods for each CPU; 0: only --max-pods counts"),
        ("pod-max-pids", N, "podPidsLimit", "most processes of a pod; -1: the node's limit"),
        ("system-reserved", M, "systemReserved", "resources kept for the system, as cpu=200m,memory=500Mi"),
        ("kube-reserved", M, "kubeReserved", "resources kept for Kubernetes' own processes"),
        ("cluster-dns", L, "clusterDNS", "DNS servers of pods with dnsPolicy ClusterFirst"),
        ("cluster-domain", S, "clusterDomain", "DNS domain of the cluster"),
        ("resolv-conf", S, "resolvConf", "resolver file that pods inherit from; empty: none"),
        ("allowed-unsafe-sysctls", L, "allowedUnsafeSysctls", "unsafe sysctls pods may set; a trailing * matches all"),
        ("seccomp-default", B, "seccompDefault", "RuntimeDefault is the seccomp profile where a pod names none"),
    ),
    "Cgroups": (
        ("cgroup-driver", S, "cgroupDriver", "cgroupfs or systemd; must be the runtime's"),
        ("cgroup-root", S, "cgroupRoot", "cgroup above those of pods"),
        ("cgroups-per-qos", B, "cgroupsPerQOS", "make the cgroups of QoS classes and pods"),
        ("cpu-cfs-quota", B, "cpuCFSQuota", "enforce CPU limits"),
        ("cpu-cfs-quota-period", D, "cpuCFSQuotaPeriod", "period of CPU limits"),
        ("fail-cgroupv1", B, "failCgroupV1", "refuse to start on cgroup v1"),
        ("enforce-node-allocatable", L, "enforceNodeAllocatable", "cgroups to limit: none, pods, system-reserved, kube-reserved"),
        ("system-reserved-cgroup", S, "systemReservedCgroup", "cgroup of --system-reserved"),
        ("kube-reserved-cgroup", S, "kubeReservedCgroup", "cgroup of --kube-reserved"),
        ("kubelet-cgroups", S, "kubeletCgroups", "cgroup of the agent"),
        ("system-cgroups", S, "systemCgroups", "cgroup for processes outside of any"),
        ("runtime-cgroups", S, "", "cgroup of the runtime"),
        ("reserved-cpus", S, "reservedSystemCPUs", "CPUs kept free of pods"),
        ("reserved-memory", Kind.RESERVED_MEMORY, "reservedMemory", "memory kept free, as 0:memory=1Gi"),
        ("qos-reserved", M, "qosReserved", "share of requests reserved for a QoS class"),
        ("cpu-manager-policy", S, "cpuManagerPolicy", "none or static"),
        ("cpu-manager-policy-options", Kind.MAP_WHOLE, "cpuManagerPolicyOptions", "options of the policy"),
        ("cpu-manager-reconcile-period", D, "cpuManagerReconcilePeriod", "pause between two checks"),
        ("memory-manager-policy", S, "memoryManagerPolicy", "None or Static"),
        ("topology-manager-policy", S, "topologyManagerPolicy", "none, best-effort, restricted, single-numa-node"),
        ("topology-manager-policy-options", M, "topologyManagerPolicyOptions", "options of the policy"),
        ("topology-manager-scope", S, "topologyManagerScope", "container or pod"),
    ),
    "Health and logs": (
        ("healthz-bind-address", Kind.IP, "healthzBindAddress", "address of /healthz"),
        ("healthz-port", N, "healthzPort", "port of /healthz; 0: none"),
        ("v", N, "logging.verbosity", "amount of log, 0 to 10 (also -v)"),
        ("logging-format", S, "logging.format", "text or json"),
        ("vmodule", Kind.PATTERNS, "logging.vmodule", "verbosity of single files"),
        ("log-flush-frequency", D, "logging.flushFrequency", "longest time a line is held back"),
        ("log-text-split-stream", B, "logging.options.text.splitStream", "errors to stderr, the rest to stdout"),
        ("log-text-info-buffer-size", Kind.QUANTITY, "logging.options.text.infoBufferSize", "buffer of split streams"),
        ("log-json-split-stream", B, "logging.options.json.splitStream", "errors to stderr, the rest to stdout"),
        ("log-json-info-buffer-size", Kind.QUANTITY, "logging.options.json.infoBufferSize", "buffer of split streams"),
        ("container-log-max-size", S, "containerLogMaxSize", "size at which a container's log is rotated"),
        ("container-log-max-files", N, "containerLogMaxFiles", "log files kept of a container"),
    ),
    "Cluster": (
        ("kubeconfig", S, "", "how to reach the apiserver; without it the node stands alone"),
        ("bootstrap-kubeconfig", S, "", "how to reach the apiserver for the first certificate"),
        ("cert-dir", S, "", "folder of TLS certificates"),
        ("register-node", B, "registerNode", "register the node at the apiserver"),
        ("register-with-taints", Kind.TAINTS, "registerWithTaints", "taints to register with, as k=v:NoSchedule"),
        ("node-labels", M, "", "labels to register with, as a=b,c=d"),
        ("provider-id", S, "providerID", "id of the machine at its provider"),
        ("cloud-provider", S, "", "empty or external"),
        ("pod-cidr", S, "podCIDR", "address range of pods without an apiserver"),
        ("rotate-certificates", B, "rotateCertificates", "renew the client certificate"),
        ("rotate-server-certificates", B, "serverTLSBootstrap", "get the serving certificate from the apiserver"),
        ("node-status-update-frequency", D, "nodeStatusUpdateFrequency", "pause between node statuses"),
        ("node-status-max-images", N, "nodeStatusMaxImages", "most images in the node status"),
        ("kube-api-content-type", S, "contentType", "form of requests"),
        ("kube-api-qps", N, "kubeAPIQPS", "requests per second"),
        ("kube-api-burst", N, "kubeAPIBurst", "requests at once above --kube-api-qps"),
        ("event-qps", N, "eventRecordQPS", "events per second"),
        ("event-burst", N, "eventBurst", "events at once above --event-qps"),
        ("enable-controller-attach-detach", B, "enableControllerAttachDetach", "leave attaching volumes to the controller"),
    ),
    "Server": (
        ("enable-server", B, "enableServer", "serve the kubelet API"),
        ("address", Kind.IP, "address", "address of the kubelet API"),
        ("port", N, "port", "port of the kubelet API"),
        ("read-only-port", N, "readOnlyPort", "port without authentication; 0: none"),
        ("anonymous-auth", B, "authentication.anonymous.enabled", "take requests without credentials"),
        ("authentication-token-webhook", B, "authentication.webhook.enabled", "let the apiserver check tokens"),
        ("authentication-token-webhook-cache-ttl", D, "authentication.webhook.cacheTTL", "how long an answer counts"),
        ("client-ca-file", S, "authentication.x509.clientCAFile", "CA of client certificates"),
        ("authorization-mode", S, "authorization.mode", "AlwaysAllow or Webhook"),
        ("authorization-webhook-cache-authorized-ttl", D, "authorization.webhook.cacheAuthorizedTTL", "how long a yes counts"),
        ("authorization-webhook-cache-unauthorized-ttl", D, "authorization.webhook.cacheUnauthorizedTTL", "how long a no counts"),
        ("tls-cert-file", S, "tlsCertFile", "serving certificate"),
        ("tls-private-key-file", S, "tlsPrivateKeyFile", "its key"),
        ("tls-cipher-suites", L, "tlsCipherSuites", "TLS cipher suites"),
        ("tls-min-version", S, "tlsMinVersion", "lowest TLS version"),
        ("streaming-connection-idle-timeout", D, "streamingConnectionIdleTimeout", "idle limit of exec, attach, port-forward"),
        ("enable-debugging-handlers", B, "enableDebuggingHandlers", "serve logs, exec, attach"),
        ("contention-profiling", B, "enableContentionProfiling", "profile locks"),
    ),
    "Cleaning up": (
        ("eviction-hard", Kind.MAP_LESS, "evictionHard", "thresholds, as memory.available<1Gi"),
        ("eviction-soft", Kind.MAP_LESS, "evictionSoft", "thresholds with a grace period"),
        ("eviction-soft-grace-period", M, "evictionSoftGracePeriod", "how long each must hold"),
        ("eviction-max-pod-grace-period", N, "evictionMaxPodGracePeriod", "longest grace of an evicted pod, seconds"),
        ("eviction-minimum-reclaim", M, "evictionMinimumReclaim", "least amount to free"),
        ("eviction-pressure-transition-period", D, "evictionPressureTransitionPeriod", "how long pressure is still told"),
        ("kernel-memcg-notification", B, "kernelMemcgNotification", "let the kernel tell of memory pressure"),
        ("local-storage-capacity-isolation", B, "localStorageCapacityIsolation", "limit local storage"),
        ("image-gc-high-threshold", N, "imageGCHighThresholdPercent", "disk use that starts removing images"),
        ("image-gc-low-threshold", N, "imageGCLowThresholdPercent", "disk use that ends it"),
        ("minimum-image-ttl-duration", D, "imageMinimumGCAge", "least age of an unused image"),
        ("minimum-container-ttl-duration", D, "", "least age of a dead container"),
        ("maximum-dead-containers", N, "", "most dead containers"),
        ("maximum-dead-containers-per-container", N, "", "most dead containers of a name"),
        ("volume-stats-agg-period", D, "volumeStatsAggPeriod", "pause between measuring volumes"),
    ),
    "Kernel and process": (
        ("oom-score-adj", N, "oomScoreAdj", "OOM score of the agent"),
        ("max-open-files", N, "maxOpenFiles", "files the agent may open"),
        ("fail-swap-on", B, "failSwapOn", "refuse to start with swap"),
        ("protect-kernel-defaults", B, "protectKernelDefaults", "refuse other kernel settings"),
        ("make-iptables-util-chains", B, "makeIPTablesUtilChains", "make the kubelet's iptables chains"),
        ("hairpin-mode", S, "hairpinMode", "promiscuous-bridge, hairpin-veth or none"),
        ("volume-plugin-dir", S, "volumePluginDir", "folder of FlexVolume plugins"),
        ("lock-file", S, "", "file to lock"),
        ("exit-on-lock-contention", B, "", "exit when another wants the lock"),
        ("experimental-mounter-path", S, "", "mount program"),
        ("experimental-allocatable-ignore-eviction", B, "", "leave thresholds out of allocatable"),
    ),
}  # fmt: skip

_GONE = frozenset({"pod-infra-container-image"})
"""Removed from the kubelet, but older kubeadm releases still write them."""

FLAGS: dict[str, Flag] = {
    name: Flag(name, kind, target, text, group, name in _GONE)
    for group, rows in _GROUPS.items()
    for name, kind, target, text in rows
}

FLAG_DEFAULTS: dict[str, object] = {
    "root-dir": "/var/lib/kubelet",
    "cert-dir": "/var/lib/kubelet/pki",
    "maximum-dead-containers": -1,
    "maximum-dead-containers-per-container": 1,
    "minimum-container-ttl-duration": "0s",
}
"""Of flags without a field; others are empty, false or zero."""
