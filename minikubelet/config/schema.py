"""Every field of KubeletConfiguration (kubelet.config.k8s.io/v1beta1, release 1.36) with its type.

Optional fields that the kubelet keeps as pointers are `X | None`: an explicit zero counts there. In
all others a zero value means the default, as in the kubelet. Durations are Go's texts (`1m30s`).
Source: k8s.io/kubelet config/v1beta1/types.go, component-base logs/api/v1/types.go.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

_UPPER = {
    "ca": "CA",
    "cfs": "CFS",
    "cidr": "CIDR",
    "cpu": "CPU",
    "cpus": "CPUs",
    "dns": "DNS",
    "gc": "GC",
    "id": "ID",
    "ip": "IP",
    "oom": "OOM",
    "qos": "QOS",
    "qps": "QPS",
    "tls": "TLS",
    "ttl": "TTL",
    "url": "URL",
    "api": "API",
}


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(_UPPER.get(word, word.capitalize()) for word in rest)


class _Part(msgspec.Struct, frozen=True, kw_only=True, rename=_json_name, omit_defaults=True):
    """A part of the configuration."""


Duration = str


class X509Authentication(_Part, frozen=True):
    """Client certificates."""

    client_ca_file: str = ""


class WebhookAuthentication(_Part, frozen=True):
    """Bearer tokens, checked by the apiserver."""

    enabled: bool | None = None
    cache_ttl: Duration = ""


class AnonymousAuthentication(_Part, frozen=True):
    """Requests without credentials."""

    enabled: bool | None = None


class Authentication(_Part, frozen=True):
    """Who may speak to the server."""

    x509: X509Authentication = X509Authentication()
    webhook: WebhookAuthentication = WebhookAuthentication()
    anonymous: AnonymousAuthentication = AnonymousAuthentication()


class WebhookAuthorization(_Part, frozen=True):
    """How long answers of the apiserver are remembered."""

    cache_authorized_ttl: Duration = ""
    cache_unauthorized_ttl: Duration = ""


class Authorization(_Part, frozen=True):
    """What they may do: AlwaysAllow or Webhook."""

    mode: str = ""
    webhook: WebhookAuthorization = WebhookAuthorization()


class MemorySwap(_Part, frozen=True):
    """Swap of workloads."""

    swap_behavior: str = ""


class CrashLoopBackOff(_Part, frozen=True):
    """The longest wait between restarts."""

    max_container_restart_period: Duration | None = None


class ShutdownGracePeriodByPodPriority(_Part, frozen=True):
    """Seconds for pods from a priority on."""

    priority: int = 0
    shutdown_grace_period_seconds: int = 0


class MemoryReservation(_Part, frozen=True):
    """Memory kept free on a NUMA node."""

    numa_node: int = 0
    limits: Mapping[str, str | int | float] = {}


class UserNamespaces(_Part, frozen=True):
    """Size of a pod's range of user ids."""

    ids_per_pod: int | None = msgspec.field(default=None, name="idsPerPod")


class Taint(_Part, frozen=True):
    """A taint the node registers with."""

    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: str | None = None


class VModuleItem(_Part, frozen=True):
    """Verbosity of some files of the kubelet's source."""

    file_pattern: str = ""
    verbosity: int = 0


class Logging(_Part, frozen=True):
    """Form and amount of the log."""

    format: str = ""
    flush_frequency: Duration | int = ""
    verbosity: int = 0
    vmodule: tuple[VModuleItem, ...] = ()
    options: Any = None


class Tracing(_Part, frozen=True):
    """OpenTelemetry."""

    endpoint: str | None = None
    sampling_rate_per_million: int | None = None


class KubeletConfiguration(_Part, frozen=True):
    """The configuration file."""

    api_version: str = ""
    kind: str = ""
    enable_server: bool | None = None
    static_pod_path: str = ""
    pod_logs_dir: str = ""
    sync_frequency: Duration = ""
    file_check_frequency: Duration = ""
    http_check_frequency: Duration = ""
    static_pod_url: str = ""
    static_pod_url_header: Mapping[str, tuple[str, ...]] = {}
    address: str = ""
    port: int = 0
    read_only_port: int = 0
    tls_cert_file: str = ""
    tls_private_key_file: str = ""
    tls_cipher_suites: tuple[str, ...] = ()
    tls_curve_preferences: tuple[int, ...] = ()
    tls_min_version: str = ""
    rotate_certificates: bool = False
    server_tls_bootstrap: bool = False
    authentication: Authentication = Authentication()
    authorization: Authorization = Authorization()
    registry_pull_qps: int | None = None
    registry_burst: int = 0
    image_pull_credentials_verification_policy: str = ""
    preloaded_images_verification_allowlist: tuple[str, ...] = ()
    event_record_qps: int | None = None
    event_burst: int = 0
    enable_debugging_handlers: bool | None = None
    enable_contention_profiling: bool = False
    healthz_port: int | None = None
    healthz_bind_address: str = ""
    oom_score_adj: int | None = None
    cluster_domain: str = ""
    cluster_dns: tuple[str, ...] = ()
    streaming_connection_idle_timeout: Duration = ""
    node_status_update_frequency: Duration = ""
    node_status_report_frequency: Duration = ""
    node_lease_duration_seconds: int = 0
    image_minimum_gc_age: Duration = ""
    image_maximum_gc_age: Duration = ""
    image_gc_high_threshold_percent: int | None = None
    image_gc_low_threshold_percent: int | None = None
    volume_stats_agg_period: Duration = ""
    kubelet_cgroups: str = ""
    system_cgroups: str = ""
    cgroup_root: str = ""
    cgroups_per_qos: bool | None = None
    cgroup_driver: str = ""
    cpu_manager_policy: str = ""
    single_process_oom_kill: bool | None = None
    cpu_manager_policy_options: Mapping[str, str] = {}
    cpu_manager_reconcile_period: Duration = ""
    memory_manager_policy: str = ""
    topology_manager_policy: str = ""
    topology_manager_scope: str = ""
    topology_manager_policy_options: Mapping[str, str] = {}
    qos_reserved: Mapping[str, str] = {}
    runtime_request_timeout: Duration = ""
    hairpin_mode: str = ""
    max_pods: int = 0
    pod_cidr: str = ""
    pod_pids_limit: int | None = None
    resolv_conf: str | None = None
    run_once: bool = False
    cpu_cfs_quota: bool | None = None
    cpu_cfs_quota_period: Duration | None = None
    node_status_max_images: int | None = None
    max_open_files: int = 0
    content_type: str = ""
    kube_api_qps: int | None = None
    kube_api_burst: int = 0
    serialize_image_pulls: bool | None = None
    max_parallel_image_pulls: int | None = None
    eviction_hard: Mapping[str, str] = {}
    eviction_soft: Mapping[str, str] = {}
    eviction_soft_grace_period: Mapping[str, str] = {}
    eviction_pressure_transition_period: Duration = ""
    eviction_max_pod_grace_period: int = 0
    eviction_minimum_reclaim: Mapping[str, str] = {}
    merge_default_eviction_settings: bool | None = None
    pods_per_core: int = 0
    enable_controller_attach_detach: bool | None = None
    protect_kernel_defaults: bool = False
    make_iptables_util_chains: bool | None = msgspec.field(
        default=None, name="makeIPTablesUtilChains"
    )
    iptables_masquerade_bit: int | None = None
    iptables_drop_bit: int | None = None
    feature_gates: Mapping[str, bool] = {}
    fail_swap_on: bool | None = None
    memory_swap: MemorySwap = MemorySwap()
    container_log_max_size: str = ""
    container_log_max_files: int | None = None
    container_log_max_workers: int | None = None
    container_log_monitor_interval: Duration | None = None
    config_map_and_secret_change_detection_strategy: str = ""
    system_reserved: Mapping[str, str] = {}
    kube_reserved: Mapping[str, str] = {}
    reserved_system_cpus: str = ""
    show_hidden_metrics_for_version: str = ""
    system_reserved_cgroup: str = ""
    kube_reserved_cgroup: str = ""
    enforce_node_allocatable: tuple[str, ...] | None = None
    allowed_unsafe_sysctls: tuple[str, ...] = ()
    volume_plugin_dir: str = ""
    provider_id: str = ""
    kernel_memcg_notification: bool = False
    logging: Logging = Logging()
    enable_system_log_handler: bool | None = None
    enable_system_log_query: bool | None = None
    shutdown_grace_period: Duration = ""
    shutdown_grace_period_critical_pods: Duration = ""
    shutdown_grace_period_by_pod_priority: tuple[ShutdownGracePeriodByPodPriority, ...] = ()
    crash_loop_back_off: CrashLoopBackOff = CrashLoopBackOff()
    reserved_memory: tuple[MemoryReservation, ...] = ()
    enable_profiling_handler: bool | None = None
    enable_debug_flags_handler: bool | None = None
    seccomp_default: bool | None = None
    memory_throttling_factor: float | None = None
    memory_reservation_policy: str = ""
    register_with_taints: tuple[Taint, ...] = ()
    register_node: bool | None = None
    tracing: Tracing | None = None
    local_storage_capacity_isolation: bool | None = None
    container_runtime_endpoint: str = ""
    image_service_endpoint: str = ""
    fail_cgroup_v1: bool | None = None
    user_namespaces: UserNamespaces | None = None
