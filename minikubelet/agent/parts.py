"""Small parts built from the configuration and the machine: values and callables for the rooms."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from minikubelet.api import quantity
from minikubelet.config.config import Config
from minikubelet.cri.errors import CRIError
from minikubelet.cri.services import RuntimeService
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.dns import RESOLVED_UPSTREAM_FILE, ResolvConf, parse_resolv_conf
from minikubelet.host import machine
from minikubelet.host.cgroups import Hierarchies
from minikubelet.images.policy import ImageSettings
from minikubelet.pods.kit import Limits
from minikubelet.sources.file import FileSource
from minikubelet.sources.reports import LastGood, ManifestReport, Source
from minikubelet.sources.updates import FILE, HTTP

HUGEPAGES = Path("/sys/kernel/mm/hugepages")
CPUS = Path("/sys/devices/system/cpu")
STATUS_SECONDS = 5.0

_log = structlog.get_logger("agent")


async def node_context(
    config: Config, hierarchies: Hierarchies, runtime: RuntimeService
) -> NodeContext:
    """Return the node as its pods see it."""
    ips = config.node_ips
    if not ips:
        found = await anyio.to_thread.run_sync(machine.internal_ip)
        ips = (found,) if found is not None else ()
    memory = machine.memory_bytes()
    return NodeContext(
        node_name=config.node_name,
        node_ips=ips,
        cluster_dns=config.cluster_dns,
        cluster_domain=config.cluster_domain,
        root_dir=config.root_dir,
        pod_logs_dir=config.pod_logs_dir,
        cgroup_root=config.cgroup_root or "/",
        cgroup_driver=config.cgroup_driver,
        cgroup_version=hierarchies.version,
        cgroups_per_qos=config.cgroups_per_qos,
        memory_capacity=memory,
        allocatable=_allocatable(config, memory),
        cpu_cfs_quota=config.cpu_cfs_quota,
        cpu_cfs_quota_period_us=round(config.cpu_cfs_quota_period * 1_000_000),
        seccomp_default=config.seccomp_default,
        pod_pids_limit=config.pod_pids_limit,
        single_process_oom_kill=bool(
            hierarchies.version == 1
            if config.single_process_oom_kill is None
            else config.single_process_oom_kill
        ),
        swap_controller=_has_swap_controller(hierarchies),
        hugepage_sizes=_hugepage_sizes(),
        recursive_read_only_handlers=await _recursive_read_only_handlers(runtime),
        extra_masked_paths=await anyio.to_thread.run_sync(_thermal_folders),
    )


def _allocatable(config: Config, memory: int) -> dict[str, str | int]:
    """Return capacity less what the configuration reserves, in exact units."""
    capacity = {"cpu": quantity.parse(machine.cpu_count()), "memory": quantity.parse(memory)}
    for reserved in (config.system_reserved, config.kube_reserved):
        for name, amount in reserved.items():
            if name in capacity:
                capacity[name] -= quantity.parse(amount)
    cpu, left = max(0, int(capacity["cpu"] * 1000)), max(0, int(capacity["memory"]))
    disk = _disk_bytes(config.root_dir)
    return {"cpu": f"{cpu}m", "memory": left, "ephemeral-storage": disk, "pods": config.max_pods}


def _thermal_folders() -> tuple[str, ...]:
    return tuple(str(path) for path in sorted(CPUS.glob("cpu[0-9]*/thermal_throttle")))


def _disk_bytes(root: str) -> int:
    import shutil  # noqa: PLC0415  once at start

    folder = Path(root)
    while not folder.exists():
        folder = folder.parent
    return shutil.disk_usage(folder).total


def _has_swap_controller(hierarchies: Hierarchies) -> bool:
    memory = hierarchies.v1.get("memory")
    if memory is not None:
        return (memory / "memory.memsw.limit_in_bytes").exists()
    unified = hierarchies.unified
    return unified is not None and any(unified.glob("*/memory.swap.max"))


def _hugepage_sizes() -> tuple[int, ...]:
    names = (entry.name for entry in HUGEPAGES.glob("hugepages-*kB"))
    return tuple(
        sorted(int(name.removeprefix("hugepages-").removesuffix("kB")) * 1024 for name in names)
    )


async def _recursive_read_only_handlers(runtime: RuntimeService) -> frozenset[str]:
    try:
        status = await runtime.status()
    except CRIError:
        return frozenset()
    return frozenset(
        handler.name
        for handler in status.runtime_handlers
        if handler.features.recursive_read_only_mounts
    )


def pod_limits(config: Config) -> Limits:
    """Return what admission and restarts go by."""
    return Limits(
        max_pods=config.max_pods,
        allowed_unsafe_sysctls=config.allowed_unsafe_sysctls,
        kernel_version=machine.kernel_numbers(machine.kernel_version()),
        node_labels={
            "kubernetes.io/os": "linux",
            "kubernetes.io/hostname": config.node_name,
            "kubernetes.io/arch": _architecture(),
        },
        max_restart_delay=config.max_container_restart_period,
        sync_frequency=config.sync_frequency,
    )


def image_settings(config: Config) -> ImageSettings:
    """Return how images are pulled."""
    return ImageSettings(
        serialize=config.serialize_image_pulls,
        max_parallel=config.max_parallel_image_pulls,
        qps=float(config.registry_pull_qps),
        burst=config.registry_burst,
    )


def resolv_conf(path: str) -> Callable[[], Awaitable[ResolvConf | None]]:
    """Return a reader of the node's resolv.conf; an empty path switches look-ups off."""

    def read() -> ResolvConf | None:
        if not path:
            return None
        conf = _parsed(path)
        # The stub answers on the node's loopback only: useless inside a pod's network.
        upstream = Path(RESOLVED_UPSTREAM_FILE)
        return _parsed(str(upstream)) if conf.is_resolved_stub and upstream.exists() else conf

    async def in_thread() -> ResolvConf | None:
        return await anyio.to_thread.run_sync(read)

    return in_thread


def _parsed(path: str) -> ResolvConf:
    try:
        return parse_resolv_conf(Path(path).read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return ResolvConf()


def network_problem(runtime: RuntimeService) -> Callable[[], Awaitable[str]]:
    """Return a question to the runtime: why its network isn't ready (empty: it is)."""

    async def ask() -> str:
        try:
            with anyio.fail_after(STATUS_SECONDS):
                reply = await runtime.status()
        except (CRIError, TimeoutError) as error:
            return f"container runtime status check may not have completed yet: {error}"
        for condition in reply.status.conditions:
            if condition.type == "NetworkReady" and not condition.status:
                return (
                    f"container runtime network not ready: NetworkReady=false "
                    f"reason:{condition.reason} message:{condition.message}"
                )
        return ""

    return ask


def _architecture() -> str:
    """Return the machine's architecture by Go's name, as in the label kubernetes.io/arch."""
    name = os.uname().machine
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(name, name)


def configured(config: Config) -> list[str]:
    """Return the names of the configured sources: only these count for being ready."""
    named = ((FILE, config.static_pod_path), (HTTP, config.static_pod_url))
    return [source for source, place in named if place]


def static_sources(config: Config, store: LastGood) -> list[Source]:
    """Return the configured sources of static pods."""
    sources: list[Source] = []
    if config.static_pod_path:
        sources.append(
            FileSource(
                config.static_pod_path,
                config.node_name,
                store,
                check_frequency=config.file_check_frequency,
                on_problem=_tell,
            )
        )
    if config.static_pod_url:
        from minikubelet.sources.http import HTTPSource  # noqa: PLC0415  only where asked for

        sources.append(
            HTTPSource(
                config.static_pod_url,
                config.node_name,
                store,
                headers=config.static_pod_url_headers,
                check_frequency=config.http_check_frequency,
                on_problem=_tell,
            )
        )
    return sources


def _tell(report: ManifestReport) -> None:
    for text in report.errors:
        _log.error("manifest refused", error=text, last_good_runs=report.last_good)
    for text in report.warnings:
        _log.warning("manifest warning", warning=text)
