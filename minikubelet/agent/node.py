"""The node as the configuration, the machine and the runtime make it: values, gathered once."""

from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from minikubelet import KUBERNETES_VERSION
from minikubelet.config.config import Config
from minikubelet.config.node_flags import node_ip_problem
from minikubelet.cri.errors import CRIError, Unimplemented
from minikubelet.cri.services import RuntimeService
from minikubelet.criconfig.context import NodeContext
from minikubelet.host import machine
from minikubelet.host.cgroups import Hierarchies
from minikubelet.node import capacity
from minikubelet.node.document import labels
from minikubelet.node.facts import MachineFacts, NodeSettings, Taint
from minikubelet.pods.placement import NodeView

CPUS = Path("/sys/devices/system/cpu")
DRIVER_TRIES, DRIVER_PAUSE = 3, 2.0

_log = structlog.get_logger("agent")


def machine_facts(root_dir: str) -> MachineFacts:
    """Return what the machine is; read once at start. May block."""
    return MachineFacts(
        architecture=machine.architecture(),
        cpus=machine.cpu_count(),
        memory=machine.memory_bytes(),
        disk=machine.disk_bytes(root_dir),
        hugepages=machine.hugepages(),
        swap=machine.swap_bytes(),
        machine_id=machine.machine_id(),
        system_uuid=machine.system_uuid(),
        boot_id=machine.boot_id(),
        kernel_version=machine.kernel_version(),
        os_image=machine.os_image(),
    )


def node_settings(config: Config, node_ips: tuple[str, ...]) -> NodeSettings:
    """Return what the configuration says of the Node object."""
    return NodeSettings(
        name=config.node_name,
        hostname=config.node_name,
        node_ips=node_ips,
        labels=config.node_labels,
        taints=tuple(
            Taint(taint["key"], taint.get("value", ""), taint["effect"])
            for taint in config.register_with_taints
        ),
        provider_id=config.provider_id,
        external_cloud=config.cloud_provider == "external",
        register=config.register_node,
        attach_detach=config.enable_controller_attach_detach,
        max_pods=config.max_pods,
        reserved=(config.system_reserved, config.kube_reserved),
        eviction_hard=config.eviction_hard,
        max_images=config.node_status_max_images,
        port=int(config.document["port"]),
        version=KUBERNETES_VERSION,
        status_update_frequency=config.node_status_update_frequency,
        status_report_frequency=config.node_status_report_frequency,
        lease_duration=config.node_lease_duration_seconds,
    )


def allocatable(settings: NodeSettings, facts: MachineFacts) -> dict[str, str | int]:
    """Return what pods can have, as quantities."""
    amounts = capacity.capacity(facts, settings.max_pods)
    left = capacity.allocatable(amounts, capacity.reservations(settings, amounts))
    return dict(capacity.shown(left))


async def node_addresses(config: Config) -> tuple[str, ...]:
    """Return the node's addresses: those given, else the one of the default route.

    An address that no node can have is told and left out, as in the kubelet; one that no interface
    has yet is told and used.
    """
    if config.node_ips in ((), ("0.0.0.0",), ("::",)):
        found = await anyio.to_thread.run_sync(machine.internal_ip, config.node_ips == ("::",))
        return (found,) if found is not None else ()
    usable = []
    for address in config.node_ips:
        if problem := node_ip_problem(address):
            _log.error("the node goes without an address of --node-ip", error=problem)
            continue
        if not machine.is_local(address):
            _log.warning("an address of --node-ip is on no interface", address=address)
        usable.append(address)
    return tuple(usable)


def default_view(settings: NodeSettings, facts: MachineFacts) -> NodeView:
    """Return the node as admission sees it where there is no Node object."""
    return NodeView(settings.name, labels(settings, facts))


async def node_context(
    config: Config,
    settings: NodeSettings,
    facts: MachineFacts,
    hierarchies: Hierarchies,
    runtime: RuntimeService,
) -> NodeContext:
    """Return the node as its pods see it."""
    return NodeContext(
        node_name=config.node_name,
        node_ips=settings.node_ips,
        cluster_dns=config.cluster_dns,
        cluster_domain=config.cluster_domain,
        root_dir=config.root_dir,
        pod_logs_dir=config.pod_logs_dir,
        cgroup_root=config.cgroup_root or "/",
        cgroup_driver=await _cgroup_driver(config, runtime),
        cgroup_version=hierarchies.version,
        cgroups_per_qos=config.cgroups_per_qos,
        memory_capacity=facts.memory,
        allocatable=allocatable(settings, facts),
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
        hugepage_sizes=tuple(sorted(facts.hugepages)),
        recursive_read_only_handlers=await _recursive_read_only_handlers(runtime),
        extra_masked_paths=await anyio.to_thread.run_sync(_thermal_folders),
    )


def _thermal_folders() -> tuple[str, ...]:
    return tuple(str(path) for path in sorted(CPUS.glob("cpu[0-9]*/thermal_throttle")))


def _has_swap_controller(hierarchies: Hierarchies) -> bool:
    memory = hierarchies.v1.get("memory")
    if memory is not None:
        return (memory / "memory.memsw.limit_in_bytes").exists()
    unified = hierarchies.unified
    return unified is not None and any(unified.glob("*/memory.swap.max"))


async def _cgroup_driver(config: Config, runtime: RuntimeService) -> str:
    """Return the runtime's driver; the configured one where it can't say (KEP-4033)."""
    for _ in range(DRIVER_TRIES):
        try:
            driver = await runtime.cgroup_driver()
        except Unimplemented:
            break
        except CRIError as error:
            _log.warning("cannot ask the runtime for its cgroup driver", error=str(error))
            await anyio.sleep(DRIVER_PAUSE)
        else:
            if driver != config.cgroup_driver:
                _log.info("the runtime's cgroup driver counts", driver=driver)
            return driver
    return config.cgroup_driver


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
