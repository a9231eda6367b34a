"""A skip is allowed only for a missing capability that hack/allowed-skips.txt lists.

Loaded as a pytest plugin: it counts the skips by reason and fails the session for any other one, so
that a test can't silently stop testing.
"""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest

LIST = Path(__file__).parent.parent / "hack" / "allowed-skips.txt"


def read_list(text: str) -> frozenset[str]:
    """Return the capabilities of the file's text; `#` starts a comment line."""
    lines = (line.strip() for line in text.splitlines())
    return frozenset(line for line in lines if line and not line.startswith("#"))


def forbidden(reasons: Iterable[str], allowed: frozenset[str]) -> list[str]:
    """Return the reasons that aren't on the list."""
    return sorted(set(reasons) - allowed)


class SkipGuard:
    """Collects the skips of a session."""

    def __init__(self, allowed: frozenset[str]) -> None:
        self.allowed = allowed
        self.reasons: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._add(report.longrepr)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._add(report.longrepr)

    def _add(self, longrepr: object) -> None:
        text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
        self.reasons[str(text).removeprefix("Skipped: ")] += 1

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if forbidden(self.reasons, self.allowed) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for reason, count in sorted(self.reasons.items()):
            terminalreporter.write_line(f"skipped {count}: {reason}")
        for reason in forbidden(self.reasons, self.allowed):
            terminalreporter.write_line(
                f"ERROR: the skip {reason!r} is not in hack/allowed-skips.txt", red=True
            )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SkipGuard(read_list(LIST.read_text())), "skip-guard")
