"""Samples to a Markdown table, and the table to its place in a document. Pure but for the file."""

import os
import platform
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

from benchmark.cases import BARE_SHARE, Case
from benchmark.room import BenchError

BARE, KUBELET, MINIKUBELET = "bare", "kubelet", "minikubelet"
_HEAD = ("case", "CRI calls alone", "kubelet", "minikubelet", "ratio", "limit", "")


def table(cases: Sequence[Case], samples_of: Callable[[Case, str], list[float]]) -> str:
    """Return the table of the cases that were measured: medians, least and most beside them."""
    rows = [_row(case, samples_of) for case in cases if samples_of(case, MINIKUBELET)]
    lines = [_HEAD, ("---", "---:", "---:", "---:", "---:", "---:", "---"), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _row(case: Case, samples_of: Callable[[Case, str], list[float]]) -> tuple[str, ...]:
    found = {name: samples_of(case, name) for name in (BARE, KUBELET, MINIKUBELET)}
    middle = {name: median(values) for name, values in found.items() if values}
    ours, kubelet = middle[MINIKUBELET], middle.get(KUBELET)
    limit = case.limit(kubelet, middle.get(BARE))
    return (
        case.title,
        *(_cell(found[name], case.unit) for name in (BARE, KUBELET, MINIKUBELET)),
        f"{ours / kubelet:.2f}" if kubelet else "",
        _limit(case, limit),
        "" if limit is None else "ok" if ours <= limit else "**over**",
    )


def _cell(values: list[float], unit: str) -> str:
    if not values:
        return ""
    text = f"{_number(median(values))} {unit}"
    return text if len(values) == 1 else f"{text} ({_number(min(values))}-{_number(max(values))})"


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.1f}" if value >= 5 else f"{value:.2f}"  # noqa: PLR2004  three digits of interest


def _limit(case: Case, limit: float | None) -> str:
    if limit is None:
        return ""
    rule = "" if case.share is None else f" ({case.share:g} x)"
    return f"{_number(limit)} {case.unit}{rule}"


def circumstances(versions: str, rounds: str, restless: str) -> str:
    """Return the sentence below the table that says how it came about."""
    return (
        f"Medians (least-most) of {rounds}, {time.strftime('%Y-%m-%d')}: {versions}; "
        f"Python {platform.python_version()}, Linux {platform.release()}, {os.cpu_count()} CPUs, "
        f"load {os.getloadavg()[2]:.1f} at the end, {restless} samples taken while the machine did "
        "other things. All on the same containerd in turn, with "
        "default settings. Running, stopped and gone are what another process sees through CRI. "
        "CPU counts all processes of the agent, or containerd with its shims and their helpers. "
        "The limit is the named share of the kubelet's figure or "
        f"{BARE_SHARE:g} times the CRI calls alone, where that is more."
    )


def write(document: Path, text: str, mark: str = "bench") -> None:
    """Put a text between the two markers of a document. Raises BenchError when they are missing."""
    opening, closing = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, begin, rest = document.read_text().partition(opening)
    _, end, after = rest.partition(closing)
    if not begin or not end:
        raise BenchError(f"cannot write to {document}: it has no lines {opening} and {closing}")
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}")
