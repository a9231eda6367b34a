"""Files of a container on the node: log folder, hosts file, termination message, log link.

One trip to a thread for all of them. The hosts file is written once per sandbox, so that what an
init container adds to it is there for the others (the kubelet rewrites it at each start).
"""

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import anyio.to_thread

from minikubelet.api.pod import Container, Pod
from minikubelet.criconfig.container import log_file, log_symlink
from minikubelet.criconfig.context import NodeContext
from minikubelet.criconfig.hosts import host_network_hosts_file, hosts_file, needs_hosts_file
from minikubelet.criconfig.sandbox import pod_log_directory
from minikubelet.lifecycle.runtime import ContainerRecord

_LOG_NAME = re.compile(r"^(\d+)\.log(\..*)?$")


@dataclass(frozen=True, slots=True)
class ContainerFiles:
    """Paths on the node for one creation of a container."""

    restart_count: int
    hosts_path: str
    termination_log_path: str
    log_path: str


def pod_directory(node: NodeContext, uid: str) -> Path:
    """Return the pod's folder below the root dir."""
    return Path(node.root_dir, "pods", uid)


async def prepare_files(
    node: NodeContext,
    pod: Pod,
    container: Container,
    newest: ContainerRecord | None,
    pod_ips: Sequence[str],
    *,
    extra_count: int,
) -> ContainerFiles:
    """Make the files; `extra_count` skips restart counts whose names the runtime holds reserved.

    Raises OSError.
    """
    return await anyio.to_thread.run_sync(
        lambda: _prepare(node, pod, container, newest, pod_ips, extra_count)
    )


def _prepare(
    node: NodeContext,
    pod: Pod,
    container: Container,
    newest: ContainerRecord | None,
    pod_ips: Sequence[str],
    extra_count: int,
) -> ContainerFiles:
    logs = Path(pod_log_directory(pod, node), container.name)
    # The runtime may have lost its records, the log files still tell how often it was started.
    count = _next_log(logs) if newest is None else newest.restart_count + 1
    if newest is not None and newest.start_cancelled:
        count = newest.restart_count
    count += extra_count
    logs.mkdir(mode=0o755, parents=True, exist_ok=True)
    return ContainerFiles(
        restart_count=count,
        hosts_path=_hosts(node, pod, pod_ips),
        termination_log_path=_termination_log(node, pod, container),
        log_path=log_file(pod, container.name, count, node),
    )


def _next_log(logs: Path) -> int:
    try:
        names = [entry.name for entry in logs.iterdir()]
    except FileNotFoundError:
        return 0
    numbers = [int(match[1]) for name in names if (match := _LOG_NAME.match(name))]
    return max(numbers) + 1 if numbers else 0


def _hosts(node: NodeContext, pod: Pod, pod_ips: Sequence[str]) -> str:
    if not needs_hosts_file(pod, pod_ips):
        return ""
    path = pod_directory(node, pod.metadata.uid) / "etc-hosts"
    path.parent.mkdir(mode=0o750, parents=True, exist_ok=True)
    marker = path.with_name("etc-hosts.for")
    made_for = " ".join(pod_ips)
    if path.exists() and marker.exists() and marker.read_text() == made_for:
        return str(path)
    if pod.spec.host_network:
        text = host_network_hosts_file(pod, _node_hosts())
    else:
        text = hosts_file(pod, node, pod_ips)
    # Written in place: containers of an earlier look at the sandbox keep the same inode.
    path.write_text(text)
    path.chmod(0o644)
    marker.write_text(made_for)
    return str(path)


def _node_hosts() -> str:
    try:
        return Path("/etc/hosts").read_text()
    except OSError:
        return ""


def _termination_log(node: NodeContext, pod: Pod, container: Container) -> str:
    if not container.termination_message_path:
        return ""
    folder = pod_directory(node, pod.metadata.uid) / "containers" / container.name
    folder.mkdir(mode=0o750, parents=True, exist_ok=True)
    path = folder / secrets.token_hex(4)
    path.touch()
    path.chmod(0o666)
    return str(path)


async def link_log(
    node: NodeContext, pod: Pod, container: str, container_id: str, log_path: str
) -> None:
    """Make the link that log collectors follow; a failure to do so stops nothing."""
    link = log_symlink(pod, container, container_id, node)
    await anyio.to_thread.run_sync(_link, link, log_path)


def _link(link: str, target: str) -> None:
    try:
        Path(link).parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        Path(link).symlink_to(target)
    except OSError:
        return


async def remove_pod_files(node: NodeContext, pod: Pod) -> None:
    """Remove a pod's logs, the links to them and its own folder, after its volumes are gone."""
    await anyio.to_thread.run_sync(_remove_pod_files, node, pod)


def _remove_pod_files(node: NodeContext, pod: Pod) -> None:
    import shutil  # noqa: PLC0415  needed only when a pod ends

    logs = pod_log_directory(pod, node)
    links = Path(node.log_links_dir)
    prefix = f"{pod.metadata.name}_{pod.metadata.namespace}_"
    for link in links.glob(f"{prefix}*.log"):
        if link.is_symlink() and str(link.readlink()).startswith(f"{logs}/"):
            link.unlink(missing_ok=True)
    shutil.rmtree(logs, ignore_errors=True)
    shutil.rmtree(pod_directory(node, pod.metadata.uid), ignore_errors=True)
