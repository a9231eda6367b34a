"""Small parts built from the configuration and the machine: values and callables for the rooms."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.to_thread
import structlog

from minikubelet.api.pod import Pod
from minikubelet.config.config import Config
from minikubelet.cri.errors import CRIError
from minikubelet.cri.execs import Execs
from minikubelet.cri.services import RuntimeService
from minikubelet.criconfig.cgroup import pod_cgroup
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.dns import RESOLVED_UPSTREAM_FILE, ResolvConf, parse_resolv_conf
from minikubelet.host import machine
from minikubelet.host.cgroups import Cgroups, Hierarchies
from minikubelet.images.policy import ImageSettings
from minikubelet.images.records import Policy, Verification
from minikubelet.pods.kit import Limits
from minikubelet.probes.exec import ExecProber
from minikubelet.probes.prober import NodeProber
from minikubelet.sources.file import FileSource
from minikubelet.sources.reports import LastGood, ManifestReport, Source
from minikubelet.sources.updates import API, FILE, HTTP

STATUS_SECONDS = 5.0

_log = structlog.get_logger("agent")


def node_prober(execs: Execs, hierarchies: Hierarchies, node: NodeContext) -> NodeProber:
    """Return what makes probes; it finds a container's processes by its cgroup."""
    cgroups = Cgroups(hierarchies)

    def processes_of(pod: Pod, container_id: str) -> set[int]:
        return cgroups.processes_below(pod_cgroup(pod, node), container_id)

    return NodeProber(ExecProber(execs, processes_of))


def pod_limits(config: Config) -> Limits:
    """Return what admission and restarts go by."""
    return Limits(
        max_pods=config.max_pods,
        allowed_unsafe_sysctls=config.allowed_unsafe_sysctls,
        kernel_version=machine.kernel_numbers(machine.kernel_version()),
        app_armor=machine.has_app_armor(),
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


def image_verification(config: Config) -> Verification:
    """Return which images a pod may use without proving its login."""
    return Verification(
        Policy(config.document["imagePullCredentialsVerificationPolicy"]),
        tuple(config.document.get("preloadedImagesVerificationAllowlist") or ()),
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


def configured(config: Config) -> list[str]:
    """Return the names of the configured sources: only these count for being ready."""
    named = (
        (FILE, config.static_pod_path),
        (HTTP, config.static_pod_url),
        (API, config.kubeconfig),
    )
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
