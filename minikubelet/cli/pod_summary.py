"""READY, STATUS and RESTARTS of a pod as `kubectl get pods` computes them. Pure.

Source: kubernetes pkg/printers/internalversion/printers.go printPod.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikubelet.cli.human_time import since

Document = Mapping[str, Any]
_FINAL = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Summary:
    """The pod in three words; `last_restart` is when the newest restarted instance had ended."""

    ready: int
    total: int
    status: str
    restarts: int
    last_restart: str = ""

    @property
    def ready_text(self) -> str:
        """READY: how many containers are, of how many."""
        return f"{self.ready}/{self.total}"

    def restarts_text(self, now: float) -> str:
        """RESTARTS, with the time since the last one; `now` in Unix seconds."""
        if not self.restarts or not self.last_restart:
            return str(self.restarts)
        return f"{self.restarts} ({since(self.last_restart, now)} ago)"


def summarize(pod: Document) -> Summary:
    """Return the summary of a pod document."""
    spec, status = pod.get("spec", {}), pod.get("status", {})
    init = spec.get("initContainers", ())
    sidecars = {each["name"] for each in init if each.get("restartPolicy") == "Always"}
    statuses: Sequence[Document] = status.get("initContainerStatuses", ())
    waits, ready, passed = _initializing(statuses, sidecars, len(init))
    counted = list(statuses[:passed])
    text = waits or status.get("reason") or status.get("phase", "")
    if not waits or _condition(status, "Initialized"):
        regular = status.get("containerStatuses", ())
        counted = [each for each in counted if each["name"] in sidecars] + list(regular)
        running = sum(1 for each in regular if _is_up(each))
        ready += running
        text = _regular(regular) or text
        if text == "Completed" and running:
            text = "Running" if _condition(status, "Ready") else "NotReady"
    if pod.get("metadata", {}).get("deletionTimestamp") and status.get("phase") not in _FINAL:
        text = "Terminating"
    return Summary(
        ready=ready,
        total=len(spec.get("containers", ())) + len(sidecars),
        status=text,
        restarts=sum(each.get("restartCount", 0) for each in counted),
        last_restart=max((_ended_before(each) for each in counted), default=""),
    )


def _initializing(
    statuses: Sequence[Document], sidecars: set[str], total: int
) -> tuple[str, int, int]:
    """Return what initialization waits for (empty: done), ready sidecars, containers looked at."""
    ready = 0
    for index, each in enumerate(statuses):
        ended, waiting = state_of(each, "terminated"), state_of(each, "waiting")
        if ended is not None and not ended.get("exitCode"):
            continue
        if each["name"] in sidecars and each.get("started"):
            ready += bool(each.get("ready"))
            continue
        if ended is not None:
            return f"Init:{_end(ended)}", ready, index + 1
        reason = (waiting or {}).get("reason", "")
        if reason and reason != "PodInitializing":
            return f"Init:{reason}", ready, index + 1
        return f"Init:{index}/{total}", ready, index + 1
    return "", ready, len(statuses)


def _regular(statuses: Sequence[Document]) -> str:
    """Return the reason of the first container that has one."""
    for each in statuses:
        ended, waiting = state_of(each, "terminated"), state_of(each, "waiting")
        if waiting is not None and waiting.get("reason"):
            return str(waiting["reason"])
        if ended is not None:
            return _end(ended)
    return ""


def _end(ended: Document) -> str:
    if ended.get("reason"):
        return str(ended["reason"])
    if ended.get("signal"):
        return f"Signal:{ended['signal']}"
    return f"ExitCode:{ended.get('exitCode', 0)}"


def _is_up(status: Document) -> bool:
    return bool(status.get("ready")) and state_of(status, "running") is not None


def _ended_before(status: Document) -> str:
    ended = status.get("lastState", {}).get("terminated") or {}
    return ended.get("finishedAt") or ""


def _condition(status: Document, kind: str) -> bool:
    return any(
        each.get("type") == kind and each.get("status") == "True"
        for each in status.get("conditions", ())
    )


def state_of(status: Document, name: str) -> Document | None:
    """Return one member of a container's state (`waiting`, `running`, `terminated`)."""
    found = status.get("state", {}).get(name)
    return found if isinstance(found, Mapping) else None
