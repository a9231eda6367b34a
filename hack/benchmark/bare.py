"""The process that makes the bare CRI calls: what no agent can undercut.

Reads one JSON object a line: `ready` and `prepare` are answered with a line, `add` and `remove` go
on in the background. A pod costs RunPodSandbox and, for each container, CreateContainer and
StartContainer with the configs an agent would send; the end of an init container is polled for.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
from anyio.abc import TaskGroup

from benchmark.room import MARK, NODE
from minikubelet.api.pod import Container, Pod
from minikubelet.cri import messages as m
from minikubelet.cri.client import connect
from minikubelet.cri.services import RuntimeService
from minikubelet.criconfig.container import container_config
from minikubelet.criconfig.context import ContainerInputs, ImageInfo, NodeContext
from minikubelet.criconfig.sandbox import pod_log_directory, pod_sandbox_config
from minikubelet.sources.static import Place, static_pod
from minikubelet.sources.updates import FILE

_POLL_SECONDS = 0.005
_GRACE_SECONDS = 30


class BarePod:
    """One pod's messages, and the ids of what was made of them."""

    def __init__(self, document: dict[str, Any], folder: Path) -> None:
        pod = _decoded(document)
        root = folder / "root"
        node = NodeContext(
            node_name=NODE,
            root_dir=str(root),
            pod_logs_dir=str(folder / "logs"),
            cgroup_root=f"/{MARK}-pods",
            cgroup_version=1 if Path("/sys/fs/cgroup/cpuset").is_dir() else 2,
        )
        self.sandbox_config = pod_sandbox_config(pod, 0, node, m.DNSConfig())
        self.inits = [_config(pod, each, node) for each in pod.spec.init_containers]
        self.regulars = [_config(pod, each, node) for each in pod.spec.containers]
        self.sandbox_id = ""
        self.running: list[str] = []

    async def start(self, runtime: RuntimeService) -> None:
        """Bring its containers to life, one after the other."""
        self.sandbox_id = await runtime.run_pod_sandbox(self.sandbox_config)
        for config in self.inits:
            container_id = await self._start(runtime, config)
            while (  # noqa: ASYNC110  the runtime is another process
                await runtime.container_status(container_id)
            ).state != m.CONTAINER_EXITED:
                await anyio.sleep(_POLL_SECONDS)
        for config in self.regulars:
            self.running.append(await self._start(runtime, config))

    async def _start(self, runtime: RuntimeService, config: m.ContainerConfig) -> str:
        container_id = await runtime.create_container(self.sandbox_id, config, self.sandbox_config)
        await runtime.start_container(container_id)
        return container_id

    async def end(self, runtime: RuntimeService) -> None:
        """Stop its containers, then its sandbox; remove all."""
        for container_id in self.running:
            await runtime.stop_container(container_id, _GRACE_SECONDS)
        await runtime.stop_pod_sandbox(self.sandbox_id)
        await runtime.remove_pod_sandbox(self.sandbox_id)


def _decoded(document: dict[str, Any]) -> Pod:
    outcome = static_pod(document, Place(FILE, "/bench", NODE))
    if outcome.record is None:
        raise SystemExit(f"cannot measure a faulty pod: {outcome.errors}")
    return outcome.record.pod


def _config(pod: Pod, container: Container, node: NodeContext) -> m.ContainerConfig:
    """Build the message and the files that it mounts."""
    Path(pod_log_directory(pod, node), container.name).mkdir(parents=True, exist_ok=True)
    folder = Path(node.root_dir, "pods", pod.metadata.uid, container.name)
    folder.mkdir(parents=True, exist_ok=True)
    files = [folder / "hosts", folder / "termination-log"]
    for file in files:
        file.touch()
    hosts, termination_log = (str(file) for file in files)
    image = ImageInfo(ref=container.image, user_specified=container.image)
    inputs = ContainerInputs(image=image, hosts_path=hosts, termination_log_path=termination_log)
    return container_config(pod, container, node, inputs)


async def _serve(endpoint: str, folder: Path) -> None:
    runtime = connect(endpoint).runtime
    await runtime.version()
    pods: dict[str, BarePod] = {}
    lines = anyio.wrap_file(sys.stdin)
    async with anyio.create_task_group() as group:
        async for line in lines:
            request = json.loads(line)
            _act(request["verb"], request["values"], pods, group, runtime, folder)


def _act(
    verb: str,
    values: Sequence[Any],
    pods: dict[str, BarePod],
    group: TaskGroup,
    runtime: RuntimeService,
    folder: Path,
) -> None:
    if verb == "add":
        for name in values:
            group.start_soon(pods[name].start, runtime)
        return
    if verb == "remove":
        for name in values:
            group.start_soon(pods[name].end, runtime)
        return
    if verb == "prepare":
        pods |= {each["metadata"]["name"]: BarePod(each, folder) for each in values}
    sys.stdout.write("done\n")
    sys.stdout.flush()


if __name__ == "__main__":
    anyio.run(_serve, sys.argv[1], Path(sys.argv[2]))
