"""Whose log is meant: from what a person types to one container of one pod. Pure."""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from minikubelet.cli.client import AgentError
from minikubelet.cli.tables import select

Document = Mapping[str, Any]
DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"
_LISTS = (
    ("containers", ""),
    ("initContainers", " (init)"),
    ("ephemeralContainers", " (ephemeral)"),
)


@dataclass(frozen=True, slots=True)
class Target:
    """One container; `note` tells which one was taken when none was named."""

    namespace: str
    pod: str
    container: str
    note: str = ""

    @property
    def path(self) -> str:
        """The endpoint of its log."""
        return f"/containerLogs/{self.namespace}/{self.pod}/{self.container}"


def log_target(pods: Sequence[Document], namespace: str, typed: str, container: str) -> Target:
    """Return the target of `POD[/CONTAINER]`; empty means not given. Raises AgentError."""
    name, _, named = typed.partition("/")
    if named and container and named != container:
        raise AgentError(f"cannot tell the container: {named} or {container}?")
    pod = _pod(pods, namespace, name)
    chosen, note = _container(pod, named or container)
    metadata = pod["metadata"]
    return Target(metadata["namespace"], metadata["name"], chosen, note)


def _pod(pods: Sequence[Document], namespace: str, name: str) -> Document:
    found = select(pods, namespace, name) if name else []
    keys = sorted({(each["metadata"]["namespace"], each["metadata"]["name"]) for each in found})
    if len(keys) > 1:
        places = ", ".join(f"{space}/{full}" for space, full in keys)
        raise AgentError(f'cannot tell the pod: "{name}" is each of {places}; say it with -n')
    if found:
        return found[0]
    where = f" in namespace {namespace}" if namespace else ""
    names = [each["metadata"]["name"] for each in pods]
    near = difflib.get_close_matches(name, names, n=1)
    hint = f'; did you mean "{near[0]}"?' if near else "; `minikubelet get pods` lists all"
    raise AgentError(f'pod "{name}" not found{where}{hint}')


def _container(pod: Document, wanted: str) -> tuple[str, str]:
    every = list(_containers(pod["spec"]))
    names = [name for name, _ in every]
    shown = ", ".join(name + kind for name, kind in every)
    if wanted:
        if wanted not in names:
            raise AgentError(
                f'container "{wanted}" not found in pod "{pod["metadata"]["name"]}": '
                f"choose one of {shown}"
            )
        return wanted, ""
    default = pod["metadata"].get("annotations", {}).get(DEFAULT_CONTAINER, "")
    if default in names:
        return default, ""
    note = f'Defaulted container "{names[0]}" out of: {shown}' if len(names) > 1 else ""
    return names[0], note


def _containers(spec: Document) -> Iterator[tuple[str, str]]:
    for key, kind in _LISTS:
        for each in spec.get(key, ()):
            yield each["name"], kind
