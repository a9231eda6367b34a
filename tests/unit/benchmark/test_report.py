"""The bench's table: what a limit is, who keeps it, and where the text goes."""

from pathlib import Path

import pytest
from benchmark import report
from benchmark.cases import Case
from benchmark.room import BenchError

SHARE = Case("share", "a share of the kubelet's", share=0.5)
MOST = Case("most", "a figure of its own", most=2.0)
FREE = Case("free", "nothing asked for")


@pytest.mark.parametrize(
    ("case", "kubelet", "bare", "limit"),
    [
        pytest.param(SHARE, 1.0, 0.1, 0.5, id="share of the kubelet's"),
        pytest.param(SHARE, 1.0, 1.0, 1.1, id="never less than the calls take"),
        pytest.param(SHARE, 1.0, None, 0.5, id="no calls to compare with"),
        pytest.param(SHARE, None, 1.0, None, id="no kubelet, no share"),
        pytest.param(MOST, 60.0, 1.0, 2.0, id="absolute"),
        pytest.param(FREE, 1.0, 1.0, None, id="none"),
    ],
)
def test_limit(case: Case, kubelet: float | None, bare: float | None, limit: float | None) -> None:
    assert case.limit(kubelet, bare) == pytest.approx(limit)


def test_row_has_medians_ratio_and_verdict() -> None:
    samples = {"bare": [0.1], "kubelet": [1.0, 3.0, 2.0], "minikubelet": [1.5, 1.4, 1.6]}

    text = report.table([SHARE], lambda _case, name: samples[name])

    cells = [cell.strip() for cell in text.splitlines()[-1].strip("|").split("|")]
    assert cells == [
        "a share of the kubelet's",
        "0.10 s",
        "2.00 s (1.00-3.00)",
        "1.50 s (1.40-1.60)",
        "0.75",
        "1.00 s (0.5 x)",
        "**over**",
    ]


def test_case_that_was_not_measured_has_no_row() -> None:
    assert len(report.table([SHARE], lambda _case, _name: []).splitlines()) == 2


def test_text_replaces_what_stands_between_the_markers(tmp_path: Path) -> None:
    document = tmp_path / "README.md"
    document.write_text("before\n<!-- bench -->\nold\n<!-- /bench -->\nafter\n")

    report.write(document, "new")

    assert document.read_text() == "before\n<!-- bench -->\nnew\n<!-- /bench -->\nafter\n"


def test_document_without_markers_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "README.md"
    document.write_text("nothing to replace\n")

    with pytest.raises(BenchError, match="it has no lines"):
        report.write(document, "new")

    assert document.read_text() == "nothing to replace\n"
