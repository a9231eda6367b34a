"""Exec, attach, port-forward and run for the API: from a pod's name to what the runtime offers.

The runtime is asked what runs now, as the kubelet does: its word counts, not the last view of it.
Texts are the kubelet's (kubelet_pods.go GetExec, GetAttach, GetPortForward, RunInContainer).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from minikubelet.api.pod import Pod
from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.execs import Execs
from minikubelet.cri.services import RuntimeService, Streams
from minikubelet.criconfig.labels import CONTAINER_NAME, POD_NAME, POD_NAMESPACE, POD_UID
from minikubelet.server.callables import Refused, Target

TICKET_SECONDS = 60
"""How long a runtime keeps a URL that nobody uses: after that it has room again."""

FindPod = Callable[[str, str], Pod | None]
"""The pod of a namespace and a name."""


class StreamFinder:
    """Finds what streams are asked of. `translate_uid` turns a mirror pod's uid into its pod's."""

    def __init__(
        self,
        runtime: RuntimeService,
        execs: Execs,
        find_pod: FindPod,
        translate_uid: Callable[[str], str] = lambda uid: uid,
    ) -> None:
        self._runtime = runtime
        self._execs = execs
        self._find_pod = find_pod
        self._translate_uid = translate_uid

    async def exec(self, target: Target, command: Sequence[str], streams: Streams) -> str:
        """Return the URL of a command's streams. Raises Refused."""
        pod = self._pod(target)
        try:
            container = await self._running(pod, target)
            if container is None:
                raise Refused(f'container not found ("{target.container}")')
            return await self._runtime.exec(container.id, command, streams)
        except CRIError as error:
            raise refused(error) from None

    async def attach(self, target: Target, streams: Streams) -> str:
        """Return the URL of a container's streams. Raises Refused."""
        pod = self._pod(target)
        spec = next((c for c in pod.all_containers() if c.name == target.container), None)
        try:
            container = await self._running(pod, target)
            if container is None or spec is None:
                text = f"container {target.container} not found in pod {target.full_name}"
                raise Refused(text)
            if target.uid and self._translate_uid(target.uid) != pod.metadata.uid:
                raise Refused(f"pod {target.full_name} not found")
            wanted = Streams(
                stdin=streams.stdin,
                stdout=streams.stdout,
                stderr=streams.stderr,
                tty=spec.tty,
            )
            return await self._runtime.attach(container.id, wanted)
        except CRIError as error:
            raise refused(error) from None

    async def port_forward(self, target: Target, ports: Sequence[int]) -> str:
        """Return the URL of connections into the pod's newest sandbox. Raises Refused."""
        pod = self._pod(target)
        uid = pod.metadata.uid
        if target.uid and self._translate_uid(target.uid) != uid:
            raise Refused("pod not found", 404)
        try:
            found = await self._runtime.list_pod_sandbox(label_selector={POD_UID: uid})
            if not any(each.state == m.SANDBOX_READY for each in found):
                raise Refused(f'pod not found ("{target.full_name}")')
            newest = max(found, key=lambda each: each.created_at)
            return await self._runtime.port_forward(newest.id, ports)
        except CRIError as error:
            raise refused(error) from None

    async def run(self, target: Target, command: Sequence[str]) -> bytes:
        """Run a command to its end, return stdout and then stderr. Raises Refused."""
        pod = self._pod(target)
        try:
            container = await self._running(pod, target)
            if container is None:
                raise Refused(f'container not found ("{target.container}")')
            result = await self._execs.run(container.id, command, 0)
        except CRIError as error:
            raise Refused(str(error)) from None
        if result.exit_code:
            errors = result.stderr.decode(errors="replace")
            raise Refused(f"command '{' '.join(command)}' exited with {result.exit_code}: {errors}")
        return bytes(result.stdout + result.stderr)

    async def running_pods(self) -> Mapping[str, Any]:
        """Return a v1 PodList of what runs, with as much as the runtime knows. Raises Refused."""
        try:
            sandboxes = await self._runtime.list_pod_sandbox(state=m.SANDBOX_READY)
            containers = await self._runtime.list_containers(state=m.CONTAINER_RUNNING)
        except CRIError as error:
            raise Refused(str(error)) from None
        return running_pod_list(sandboxes, containers)

    def _pod(self, target: Target) -> Pod:
        pod = self._find_pod(target.namespace, target.pod)
        if pod is None:
            raise Refused("pod does not exist", 404)
        return pod

    async def _running(self, pod: Pod, target: Target) -> m.Container | None:
        """Return the newest running container of the name."""
        selector = {
            POD_NAME: target.pod,
            POD_NAMESPACE: target.namespace,
            CONTAINER_NAME: target.container,
            POD_UID: self._translate_uid(target.uid) or pod.metadata.uid,
        }
        found = await self._runtime.list_containers(
            state=m.CONTAINER_RUNNING, label_selector=selector
        )
        return max(found, key=lambda each: each.created_at, default=None)


def refused(error: CRIError) -> Refused:
    """Return what the client gets for an error of the runtime. Pure.

    Source: cri-streaming pkg/streaming/errors.go WriteError.
    """
    if error.code == "NotFound":
        return Refused(str(error), 404)
    if error.code == "ResourceExhausted":
        return Refused(str(error), 429, retry_after=TICKET_SECONDS)
    return Refused(str(error))


def running_pod_list(
    sandboxes: Sequence[m.PodSandbox], containers: Sequence[m.Container]
) -> dict[str, Any]:
    """Return sandboxes and containers as a v1 PodList, sorted by name. Pure."""
    pods: dict[str, dict[str, Any]] = {}
    every = [each.labels for each in sandboxes] + [each.labels for each in containers]
    for labels in every:
        if labels.get(POD_UID):
            pods.setdefault(labels[POD_UID], _pod_document(labels))
    for container in containers:
        if container.labels.get(POD_UID):
            pods[container.labels[POD_UID]]["spec"]["containers"].append(
                {
                    "name": container.metadata.name,
                    "image": container.image.image,
                    "resources": {},
                }
            )
    items = sorted(
        pods.values(), key=lambda pod: (pod["metadata"]["namespace"], pod["metadata"]["name"])
    )
    return {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}


def _pod_document(labels: Mapping[str, str]) -> dict[str, Any]:
    metadata = {
        "name": labels.get(POD_NAME, ""),
        "namespace": labels.get(POD_NAMESPACE, ""),
        "uid": labels[POD_UID],
        "creationTimestamp": None,
    }
    return {"metadata": metadata, "spec": {"containers": []}, "status": {}}
