import pytest

from minikubelet.api import quantity


@pytest.mark.parametrize(
    ("text", "units", "thousandths"),
    [
        ("100m", 1, 100),
        ("1", 1, 1000),
        ("1.5", 2, 1500),
        (".5", 1, 500),
        ("1.", 1, 1000),
        ("64Mi", 67108864, 67108864000),
        ("1.5Gi", 1610612736, 1610612736000),
        ("1k", 1000, 1000000),
        ("1M", 10**6, 10**9),
        ("1E", 10**18, 10**21),
        ("2e3", 2000, 2000000),
        ("2E-3", 1, 2),
        ("1n", 1, 1),
        ("0", 0, 0),
        ("-1", -1, -1000),
        (2, 2, 2000),
        (0.25, 1, 250),
    ],
)
def test_reads_and_rounds_up(text: str | float, units: int, thousandths: int) -> None:
    assert quantity.value(text) == units
    assert quantity.milli(text) == thousandths


@pytest.mark.parametrize(
    "text", ["", "Mi", "1 Mi", "1mi", "1KiB", "0x10", "1e", "1emi", "1e99999", "\u0661", "--1"]
)
def test_refuses_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="cannot read quantity"):
        quantity.parse(text)
