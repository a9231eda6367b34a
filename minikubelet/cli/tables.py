"""The documents of the local API as tables, and what must be said above them. Pure.

A manifest that can't be used at all has no pod, so it gets a row of its own; one whose last good
version runs is told beside its pod. An error that doesn't begin with a file's own place is about
the whole source (a folder that is missing, a URL that doesn't answer): it stands above the table.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from minikubelet.cli.human_time import since
from minikubelet.cli.pod_message import pod_message
from minikubelet.cli.pod_summary import summarize
from minikubelet.cli.table import Table

Document = Mapping[str, Any]
NONE = "<none>"
INVALID = "Invalid"

_PODS = ("NAMESPACE", "NAME", "READY", "STATUS", "RESTARTS", "AGE", "IP", "SOURCE")
_WIDE = ("UID", "NODE", "CONTAINERS", "IMAGES", "ORIGIN")
_SOURCE = "kubernetes.io/config.source"
_SEEN = "kubernetes.io/config.seen"


def pods_table(
    pods: Sequence[Document], manifests: Document, now: float, *, wide: bool, narrowed: bool
) -> Table:
    """Return the rows of pods, and of invalid manifests unless the pods were narrowed down."""
    reports = manifests.get("manifests", ())
    by_pod, unseen = _reports_by_pod(reports), manifests.get("mirrors", {})
    rows = [
        _pod_row(pod, by_pod.get(name, ()), unseen.get(name, ""), now, wide=wide)
        for pod in pods
        for name in [_full_name(pod)]
    ]
    if not narrowed:
        shown = {_full_name(pod) for pod in pods}
        rows += [row for report in reports for row in _invalid_rows(report, shown, wide=wide)]
    return Table((*_PODS, *(_WIDE if wide else ()), "MESSAGE"), tuple(rows))


def manifests_table(manifests: Document) -> Table:
    """Return a row for each document of each file and URL."""
    return Table(
        ("SOURCE", "LOCATION", "DOCUMENT", "STATE", "PODS", "MESSAGE"),
        tuple(
            _manifest_row(report, manifests.get("mirrors", {}))
            for report in manifests.get("manifests", ())
        ),
    )


def notes(manifests: Document, *, hides_invalid: bool = False) -> list[str]:
    """Return what concerns more than one pod, a line each."""
    reports = manifests.get("manifests", ())
    runtime = manifests.get("runtime", "")
    lines = [f"runtime: {runtime}"] if runtime else []
    lines += [text for report in reports for text in _source_errors(report)]
    lines += manifests.get("conflicts", ())
    invalid = sum(1 for report in reports if _own_errors(report))
    if hides_invalid and invalid:
        lines.append(f"invalid manifests: {invalid} (see `minikubelet get manifests`)")
    return lines


def select(pods: Sequence[Document], namespace: str, name: str) -> list[Document]:
    """Return the pods of a namespace and name; empty means any. The node's suffix may be left out.

    A name that is somebody's whole name stands for that one only.
    """
    found = [each for each in pods if namespace in ("", each["metadata"].get("namespace"))]
    if not name:
        return found
    exact = [each for each in found if each["metadata"]["name"] == name]
    return exact or [each for each in found if each["metadata"]["name"] == _on_node(each, name)]


def _on_node(pod: Document, name: str) -> str:
    return f"{name}-{pod.get('spec', {}).get('nodeName', '').lower()}"


def _pod_row(
    pod: Document, reports: Sequence[Document], unseen: str, now: float, *, wide: bool
) -> tuple[str, ...]:
    metadata, status = pod["metadata"], pod.get("status", {})
    summary = summarize(pod)
    errors = [text for report in reports for text in report.get("errors", ())]
    return (
        metadata.get("namespace", ""),
        metadata["name"],
        summary.ready_text,
        summary.status,
        summary.restarts_text(now),
        _age(pod, now),
        status.get("podIP") or NONE,
        metadata.get("annotations", {}).get(_SOURCE, NONE),
        *(_wide_cells(pod, reports) if wide else ()),
        pod_message(pod, errors, now) or unseen,
    )


def _age(pod: Document, now: float) -> str:
    """Return the age. Without an apiserver nobody creates a pod: its start counts then."""
    metadata = pod["metadata"]
    began = (
        metadata.get("creationTimestamp")
        or pod.get("status", {}).get("startTime")
        or metadata.get("annotations", {}).get(_SEEN)
    )
    return since(began, now) if began else "<unknown>"


def _wide_cells(pod: Document, reports: Sequence[Document]) -> tuple[str, ...]:
    spec = pod.get("spec", {})
    containers = [*spec.get("initContainers", ()), *spec.get("containers", ())]
    return (
        pod["metadata"].get("uid", ""),
        spec.get("nodeName") or NONE,
        ",".join(each["name"] for each in containers),
        ",".join(each.get("image", "") for each in containers),
        ",".join(_place(report) for report in reports) or NONE,
    )


def _invalid_rows(report: Document, shown: set[str], *, wide: bool) -> Iterator[tuple[str, ...]]:
    errors = _own_errors(report)
    if not errors or any(name in shown for name in report.get("pods", ())):
        return
    filler = ("-",) * (len(_WIDE) - 1) if wide else ()
    origin = (_place(report),) if wide else ()
    cells = ("-", "-", "-", INVALID, "-", "-", "-", report.get("source", ""))
    yield (*cells, *filler, *origin, "\n".join(errors))


def _manifest_row(report: Document, unseen: Mapping[str, str]) -> tuple[str, ...]:
    errors, warnings = report.get("errors", ()), list(report.get("warnings", ()))
    warnings += [unseen[name] for name in report.get("pods", ()) if name in unseen]
    state = "Valid"
    if errors:
        state = "LastGoodRuns" if report.get("lastGoodRuns") else INVALID
    elif warnings:
        state = "Warning" if report.get("pods") else "Skipped"
    number = report.get("document", 0)
    return (
        report.get("source", ""),
        report.get("location", ""),
        str(number) if number else "-",
        state,
        "\n".join(_namespaced(name) for name in report.get("pods", ())) or "-",
        "\n".join([*errors, *warnings]),
    )


def _reports_by_pod(reports: Sequence[Document]) -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = {}
    for report in reports:
        for name in report.get("pods", ()):
            found.setdefault(name, []).append(report)
    return found


def _own_errors(report: Document) -> list[str]:
    return [text for text in report.get("errors", ()) if text.startswith(report["location"])]


def _source_errors(report: Document) -> list[str]:
    return [text for text in report.get("errors", ()) if not text.startswith(report["location"])]


def _place(report: Document) -> str:
    number = report.get("document", 0)
    return f"{report['location']}#{number}" if number else str(report["location"])


def _full_name(pod: Document) -> str:
    metadata = pod["metadata"]
    return f"{metadata['name']}_{metadata.get('namespace', '')}"


def _namespaced(full_name: str) -> str:
    name, _, namespace = full_name.rpartition("_")
    return f"{namespace}/{name}"
