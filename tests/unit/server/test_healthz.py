"""The lines of a health report."""

import pytest

from minikubelet.server.healthz import report

CHECKS = {"ping": "", "log": "", "syncloop": "too late"}


@pytest.mark.parametrize(
    ("checks", "excluded", "text", "failed"),
    [
        pytest.param({"ping": "", "log": ""}, [], "[+]ping ok\n[+]log ok\n", False, id="well"),
        pytest.param(
            CHECKS,
            [],
            "[+]ping ok\n[+]log ok\n[-]syncloop failed: reason withheld\n",
            True,
            id="one fails",
        ),
        pytest.param(
            CHECKS,
            ["syncloop"],
            "[+]ping ok\n[+]log ok\n[+]syncloop excluded: ok\n",
            False,
            id="the failing one is left out",
        ),
        pytest.param(
            {"ping": ""},
            ["b", "a", "ping"],
            "[+]ping excluded: ok\n"
            'warn: some health checks cannot be excluded: no matches for "a","b"\n',
            False,
            id="unknown names",
        ),
    ],
)
def test_report(checks: dict[str, str], excluded: list[str], text: str, failed: bool) -> None:
    assert report(checks, excluded) == (text, failed)
