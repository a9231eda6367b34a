#!/usr/bin/env python3
"""Write the README's table of what works from a test run's own results.

    hack/test e2e --junitxml=results.xml
    hack/works.py results.xml

A row is a file of end-to-end tests: its docstring, and how many of its tests passed on which
containerd. A failed test is shown as such, nothing is hidden.
"""

import ast
import re
import sys
from collections import Counter, defaultdict
from pathlib import Path
from xml.etree import ElementTree as ET

REPO = Path(__file__).resolve().parent.parent
RUNTIMES = ("1.6", "2")
BEGIN, END = "<!-- works -->", "<!-- /works -->"


def theme(path: Path) -> str:
    """Return the first paragraph of a test file's docstring, as one line."""
    text = ast.get_docstring(ast.parse(path.read_text())) or path.stem
    return " ".join(text.split("\n\n")[0].split())


def counts(results: Path) -> dict[str, dict[str, Counter[str]]]:
    """Return outcomes by test file and runtime; a test without a runtime counts for both."""
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for case in ET.parse(results).iter("testcase"):  # noqa: S314  our own test run's file
        module = case.get("classname", "").split(".")
        name = next((part for part in module if part.startswith("test_")), "")
        outcome = "failed" if case.find("failure") is not None else "passed"
        outcome = "failed" if case.find("error") is not None else outcome
        outcome = "skipped" if case.find("skipped") is not None else outcome
        runtime = re.search(r"containerd-(1\.6|2)", case.get("name", ""))
        for each in (runtime[1],) if runtime else RUNTIMES:
            found[name][each][outcome] += 1
    return found


def cell(outcomes: Counter[str]) -> str:
    """Return `12`, or `11, 1 failed`."""
    others = [f"{n} {what}" for what, n in sorted(outcomes.items()) if what != "passed"]
    return ", ".join([str(outcomes["passed"]), *others])


def table(results: Path) -> str:
    """Return the Markdown tables: pods from manifests, and nodes of a cluster."""
    found = counts(results)
    own = ["| tests | what | containerd 1.6 | containerd 2.x |", "|---|---|---|---|"]
    for path in sorted((REPO / "tests" / "e2e").glob("test_*.py")):
        by_runtime = found.get(path.stem)
        if by_runtime is None:
            continue
        cells = " | ".join(cell(by_runtime[runtime]) for runtime in RUNTIMES)
        own.append(f"| `{path.name}` | {theme(path)} | {cells} |")
    joined = [
        "As a node of a real control plane (etcd, kube-apiserver, scheduler, controller-manager),",
        "on containerd 2.x:",
        "",
        "| tests | what | passed |",
        "|---|---|---|",
    ]
    for folder in ("cluster", "kindlike"):
        for path in sorted((REPO / "tests" / "e2e" / folder).glob("test_*.py")):
            if (outcomes := found.get(path.stem)) is not None:
                name = f"{folder}/{path.name}"
                joined.append(f"| `{name}` | {theme(path)} | {cell(outcomes['2'])} |")
    return "\n".join([*own, "", *joined])


def main() -> None:
    """Replace the table between the README's marks."""
    if len(sys.argv) != 2:  # noqa: PLR2004  one argument
        sys.exit("usage: hack/works.py RESULTS.xml")
    readme = REPO / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    _, after = rest.split(END)
    readme.write_text(f"{before}{BEGIN}\n\n{table(Path(sys.argv[1]))}\n\n{END}{after}")


if __name__ == "__main__":
    main()
