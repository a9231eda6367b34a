"""What counts as seen: the answers of the runtime to a process that is no contestant.

It polls, as somebody outside has no better way: quickly for one pod, slowly for many, so that the
watcher itself uses little. While idle contestants are measured it asks nothing.
"""

import contextlib
import time
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import grpc
from google.protobuf.message import Message

from benchmark.manifests import MAIN
from benchmark.room import NODE, BenchError
from minikubelet.cri import messages as m
from minikubelet.cri.grpc import Reply, ReplyType, target_of
from minikubelet.cri.messages import v1

ONE_SECONDS = 0.002
MANY_SECONDS = 0.025
GONE_SECONDS = 0.01
"""Pauses between two looks."""
_POD_NAME = "io.kubernetes.pod.name"
_CONTAINER_NAME = "io.kubernetes.container.name"
_CALL_SECONDS = 60
_PURGES_AT_ONCE = 8
_PURGE_SECONDS = 120.0


class Observer:
    """A connection of its own to the runtime; blocking, as nothing else runs beside it."""

    def __init__(self, endpoint: str) -> None:
        options = [("grpc.default_authority", "localhost")]
        self._channel = grpc.insecure_channel(target_of(endpoint), options=options)

    def close(self) -> None:
        """Let go of the connection."""
        self._channel.close()

    def running_at(self, pods: Collection[str], seconds: float) -> float:
        """Wait until the main container of each pod runs; return when that was seen."""
        return self._when(
            f"{len(pods)} pods to run", lambda: self._main_running(pods) == set(pods), pods, seconds
        )

    def stopped_at(self, pod: str, seconds: float) -> float:
        """Wait until no container of the pod runs; return when that was seen."""
        return self._when(
            f"pod {pod} to stop",
            lambda: not self._containers((pod,), running=True),
            (pod,),
            seconds,
        )

    def gone_at(self, pods: Collection[str], seconds: float) -> dict[str, float]:
        """Wait until the pods' sandboxes are gone; return when that was seen of those that are."""
        seen: dict[str, float] = {}
        deadline = time.monotonic() + seconds
        while len(seen) < len(pods) and time.monotonic() < deadline:
            left = self._sandboxes()
            now = time.monotonic()
            for pod in pods:
                if pod not in left:
                    seen.setdefault(pod, now)
            time.sleep(GONE_SECONDS)
        return seen

    def check_order(self, pod: str) -> None:
        """Raise BenchError when a container was created before the one it must wait for ended."""
        found = [self._status(each.id) for each in self._containers((pod,), running=False)]
        found.sort(key=lambda status: status.created_at)
        for former, later in pairwise(found):
            if not former.finished_at or later.created_at < former.finished_at:
                raise BenchError(
                    f"container {later.metadata.name} of pod {pod} was created before "
                    f"{former.metadata.name} had ended"
                )

    def purge(self) -> None:
        """Stop and remove all sandboxes; for contestants that don't, or not now."""
        deadline = time.monotonic() + _PURGE_SECONDS
        with ThreadPoolExecutor(_PURGES_AT_ONCE) as pool:
            # The runtime may still be at what the contestant asked for last, and refuse.
            while found := [each.id for each in self._list_sandboxes()]:
                if time.monotonic() > deadline:
                    raise BenchError(f"cannot remove {len(found)} sandboxes")
                list(pool.map(self._remove, found))

    def _when(
        self, text: str, reached: Callable[[], bool], pods: Collection[str], seconds: float
    ) -> float:
        pause = ONE_SECONDS if len(pods) == 1 else MANY_SECONDS
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                raise BenchError(f"waited {seconds:.0f} s in vain for {text}")
            time.sleep(pause)
        return time.monotonic()

    def _main_running(self, pods: Collection[str]) -> set[str]:
        found = self._containers(pods, running=True)
        return {_pod(each.labels) for each in found if each.labels[_CONTAINER_NAME] == MAIN}

    def _containers(self, pods: Collection[str], *, running: bool) -> list[m.Container]:
        wanted = v1.ContainerFilter()
        if running:
            wanted.state.state = m.CONTAINER_RUNNING
        if len(pods) == 1:
            wanted.label_selector[_POD_NAME] = _full_name(*pods)
        request = v1.ListContainersRequest(filter=wanted)
        reply = self._call("ListContainers", request, v1.ListContainersResponse)
        return [each for each in reply.containers if _pod(each.labels) in pods]

    def _sandboxes(self) -> set[str]:
        return {_pod(each.labels) for each in self._list_sandboxes()}

    def _list_sandboxes(self) -> list[m.PodSandbox]:
        reply = self._call("ListPodSandbox", v1.ListPodSandboxRequest(), v1.ListPodSandboxResponse)
        return list(reply.items)

    def _status(self, container_id: str) -> m.ContainerStatus:
        request = v1.ContainerStatusRequest(container_id=container_id)
        return self._call("ContainerStatus", request, v1.ContainerStatusResponse).status

    def _remove(self, sandbox_id: str) -> None:
        stop = v1.StopPodSandboxRequest(pod_sandbox_id=sandbox_id)
        remove = v1.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id)
        with contextlib.suppress(grpc.RpcError):
            self._call("StopPodSandbox", stop, v1.StopPodSandboxResponse)
            self._call("RemovePodSandbox", remove, v1.RemovePodSandboxResponse)

    def _call(self, method: str, request: Message, reply_type: ReplyType[Reply]) -> Reply:
        made = self._channel.unary_unary(
            f"/runtime.v1.RuntimeService/{method}", _serialized, reply_type.FromString
        )
        reply: Reply = made(request, timeout=_CALL_SECONDS)
        return reply


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


def _full_name(pod: str) -> str:
    return f"{pod}-{NODE}"


def _pod(labels: object) -> str:
    name: str = labels.get(_POD_NAME, "")  # type: ignore[attr-defined]  # a protobuf map
    return name.removesuffix(f"-{NODE}")
