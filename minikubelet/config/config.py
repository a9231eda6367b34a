"""`Config`: everything the agent is told, as one frozen value; seconds and absolute paths.

Only `agent` and `cli` see it; every other room gets single values. `document` is the whole
effective KubeletConfiguration (for /configz), also the fields that have no effect here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikubelet.config.defaults import get
from minikubelet.config.duration import seconds
from minikubelet.config.server import ServerConfig, server_config

_EVICTION_HARD = {
    "memory.available": "100Mi",
    "nodefs.available": "10%",
    "nodefs.inodesFree": "5%",
    "imagefs.available": "15%",
    "imagefs.inodesFree": "5%",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """The agent's configuration; names are those of the configuration's fields and flags."""

    # node
    node_name: str
    node_ips: tuple[str, ...]
    root_dir: str
    cert_dir: str
    kubeconfig: str
    bootstrap_kubeconfig: str
    rotate_certificates: bool
    server_tls_bootstrap: bool
    register_node: bool
    register_with_taints: tuple[Mapping[str, str], ...]
    node_labels: Mapping[str, str]
    provider_id: str
    cloud_provider: str
    enable_controller_attach_detach: bool
    node_status_max_images: int
    node_status_update_frequency: float
    node_status_report_frequency: float
    node_lease_duration_seconds: int
    eviction_hard: Mapping[str, str]
    kube_api_qps: float
    kube_api_burst: int
    event_record_qps: float
    event_burst: int
    max_pods: int
    pod_pids_limit: int
    system_reserved: Mapping[str, str]
    kube_reserved: Mapping[str, str]
    allowed_unsafe_sysctls: tuple[str, ...]
    seccomp_default: bool
    cluster_dns: tuple[str, ...]
    cluster_domain: str
    resolv_conf: str
    # sources
    static_pod_path: str
    static_pod_url: str
    static_pod_url_headers: tuple[tuple[str, str], ...]
    file_check_frequency: float
    http_check_frequency: float
    sync_frequency: float
    # runtime
    container_runtime_endpoint: str
    image_service_endpoint: str
    runtime_request_timeout: float
    pod_logs_dir: str
    serialize_image_pulls: bool
    max_parallel_image_pulls: int | None
    registry_pull_qps: int
    registry_burst: int
    max_container_restart_period: float
    # cgroups
    cgroup_driver: str
    cgroup_root: str
    cgroups_per_qos: bool
    cpu_cfs_quota: bool
    cpu_cfs_quota_period: float
    fail_cgroup_v1: bool
    single_process_oom_kill: bool | None
    # health and logs
    healthz_bind_address: str
    healthz_port: int
    log_format: str
    log_verbosity: int
    # the kubelet API
    server: ServerConfig | None
    """None: no port is opened."""
    # for people
    document: Mapping[str, Any]
    warnings: tuple[str, ...] = ()


def build(
    document: Mapping[str, Any],
    flags: Mapping[str, Any],
    *,
    node_name: str,
    cpus: int,
    asked_for_port: bool,
    warnings: tuple[str, ...],
) -> Config:
    """Return the Config of a checked, defaulted document and of the values that only flags have."""
    endpoint = unix_endpoint(document["containerRuntimeEndpoint"])
    images = document.get("imageServiceEndpoint")
    return Config(
        node_name=node_name,
        node_ips=flags["node-ip"],
        root_dir=flags["root-dir"],
        cert_dir=flags["cert-dir"],
        kubeconfig=flags["kubeconfig"],
        bootstrap_kubeconfig=flags["bootstrap-kubeconfig"],
        rotate_certificates=bool(document.get("rotateCertificates")),
        server_tls_bootstrap=bool(document.get("serverTLSBootstrap")),
        register_node=document["registerNode"],
        register_with_taints=tuple(document.get("registerWithTaints") or ()),
        node_labels=flags["node-labels"],
        provider_id=document.get("providerID", ""),
        cloud_provider=flags["cloud-provider"],
        enable_controller_attach_detach=document["enableControllerAttachDetach"],
        node_status_max_images=document["nodeStatusMaxImages"],
        node_status_update_frequency=seconds(document["nodeStatusUpdateFrequency"]),
        node_status_report_frequency=seconds(document["nodeStatusReportFrequency"]),
        node_lease_duration_seconds=document["nodeLeaseDurationSeconds"],
        eviction_hard=_eviction_hard(document),
        kube_api_qps=document["kubeAPIQPS"],
        kube_api_burst=document["kubeAPIBurst"],
        event_record_qps=document["eventRecordQPS"],
        event_burst=document["eventBurst"],
        max_pods=_max_pods(document, cpus),
        pod_pids_limit=document["podPidsLimit"],
        system_reserved=document.get("systemReserved", {}),
        kube_reserved=document.get("kubeReserved", {}),
        allowed_unsafe_sysctls=tuple(document.get("allowedUnsafeSysctls", ())),
        seccomp_default=document["seccompDefault"],
        cluster_dns=tuple(document.get("clusterDNS", ())),
        cluster_domain=document.get("clusterDomain", ""),
        resolv_conf=document["resolvConf"],
        static_pod_path=document.get("staticPodPath", ""),
        static_pod_url=document.get("staticPodURL", ""),
        static_pod_url_headers=tuple(
            (name, value)
            for name, values in document.get("staticPodURLHeader", {}).items()
            for value in values
        ),
        file_check_frequency=seconds(document["fileCheckFrequency"]),
        http_check_frequency=seconds(document["httpCheckFrequency"]),
        sync_frequency=seconds(document["syncFrequency"]),
        container_runtime_endpoint=endpoint,
        image_service_endpoint=unix_endpoint(images) if images else endpoint,
        runtime_request_timeout=seconds(document["runtimeRequestTimeout"]),
        pod_logs_dir=document["podLogsDir"],
        serialize_image_pulls=document["serializeImagePulls"],
        max_parallel_image_pulls=document.get("maxParallelImagePulls"),
        registry_pull_qps=document["registryPullQPS"],
        registry_burst=document["registryBurst"],
        max_container_restart_period=seconds(
            get(document, "crashLoopBackOff.maxContainerRestartPeriod")
        ),
        cgroup_driver=document["cgroupDriver"],
        cgroup_root=document.get("cgroupRoot", ""),
        cgroups_per_qos=document["cgroupsPerQOS"],
        cpu_cfs_quota=document["cpuCFSQuota"],
        cpu_cfs_quota_period=seconds(document["cpuCFSQuotaPeriod"]),
        fail_cgroup_v1=document["failCgroupV1"],
        single_process_oom_kill=document.get("singleProcessOOMKill"),
        healthz_bind_address=document["healthzBindAddress"],
        healthz_port=document["healthzPort"],
        log_format=get(document, "logging.format"),
        log_verbosity=get(document, "logging.verbosity") or 0,
        server=server_config(document, kubeconfig=flags["kubeconfig"], asked_for=asked_for_port),
        document=document,
        warnings=warnings,
    )


def _eviction_hard(document: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the thresholds; a map that is given replaces the defaults (kubelet: eviction)."""
    given = document.get("evictionHard")
    return _EVICTION_HARD if given is None else given


def unix_endpoint(endpoint: str) -> str:
    """Return an endpoint with its scheme; a bare path is a unix socket, as in the kubelet."""
    return f"unix://{endpoint}" if endpoint.startswith("/") else endpoint


def _max_pods(document: Mapping[str, Any], cpus: int) -> int:
    per_core = document.get("podsPerCore", 0)
    limit: int = document["maxPods"]
    return min(limit, per_core * cpus) if per_core else limit
