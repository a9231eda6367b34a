"""Keeps a source's reports and tells news of them once: a new problem, and that one is over."""

from collections.abc import Callable, Sequence

from minikubelet.sources.reports import ManifestReport

Key = tuple[str, int]


class Reporter:
    """Compares each list of reports with the last and calls `on_problem` for what is new."""

    def __init__(self, on_problem: Callable[[ManifestReport], None] | None = None) -> None:
        self._on_problem = on_problem
        self._reports: list[ManifestReport] = []

    def reports(self) -> list[ManifestReport]:
        """Return the newest reports."""
        return list(self._reports)

    def update(self, reports: Sequence[ManifestReport]) -> None:
        """Take the newest reports; tell those that say something new."""
        before, self._reports = self._reports, list(reports)
        if self._on_problem is None:
            return
        told = set(before)
        troubled = {_key(report) for report in before if report.errors or report.warnings}
        for report in reports:
            if report in told:
                continue
            if report.errors or report.warnings or _key(report) in troubled:
                self._on_problem(report)


def _key(report: ManifestReport) -> Key:
    return report.location, report.document
