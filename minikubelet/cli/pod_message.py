"""Why a pod isn't fine: the one reason that helps most. Pure.

In order: an edit of its manifest that can't be used, what the pod as a whole waits for, the first
container that waits, a postStart hook that runs, the first container that failed.
"""

from collections.abc import Iterator, Mapping, Sequence

from minikubelet.cli.human_time import since
from minikubelet.cli.pod_summary import Document, state_of


def pod_message(pod: Document, manifest_errors: Sequence[str], now: float) -> str:
    """Return the most important reason, or an empty text; `now` in Unix seconds."""
    if manifest_errors:
        return f"the last good version runs: {'; '.join(manifest_errors)}"
    status = pod.get("status", {})
    if status.get("message"):
        return str(status["message"])
    for reasons in (_waiting, _hooks, _failed):
        for text in reasons(pod, now):
            return text
    return ""


def _statuses(pod: Document) -> Iterator[Document]:
    """Yield container statuses in the order of start: kubelets sort regular ones by name."""
    status = pod.get("status", {})
    yield from status.get("initContainerStatuses", ())
    by_name = {each["name"]: each for each in status.get("containerStatuses", ())}
    for container in pod.get("spec", {}).get("containers", ()):
        if container["name"] in by_name:
            yield by_name[container["name"]]
    yield from status.get("ephemeralContainerStatuses", ())


def _waiting(pod: Document, _now: float) -> Iterator[str]:
    for status in _statuses(pod):
        waiting = state_of(status, "waiting")
        if waiting is not None and waiting.get("message"):
            yield f"{status['name']}: {waiting['message']}"


def _hooks(pod: Document, now: float) -> Iterator[str]:
    spec = pod.get("spec", {})
    containers = {each["name"]: each for each in _containers(spec)}
    for status in _statuses(pod):
        running = state_of(status, "running")
        container = containers.get(status["name"], {})
        has_hook = "postStart" in (container.get("lifecycle") or {})
        # With a startup probe, `started` waits for that as well: no telling which of them it is.
        if running is None or status.get("started") or not has_hook:
            continue
        if not container.get("startupProbe"):
            taken = since(running.get("startedAt") or "", now)
            yield f"{status['name']}: its postStart hook runs ({taken})"


def _failed(pod: Document, _now: float) -> Iterator[str]:
    for status in _statuses(pod):
        ended = state_of(status, "terminated")
        if ended is not None and ended.get("exitCode"):
            said = f": {ended['message'].strip()}" if ended.get("message") else ""
            yield f"{status['name']}: exit code {ended['exitCode']}{said}"


def _containers(spec: Document) -> Iterator[Mapping[str, Document]]:
    yield from spec.get("initContainers", ())
    yield from spec.get("containers", ())
