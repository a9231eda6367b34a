from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.quantity import canonical, parse


@pytest.mark.parametrize(
    ("text", "decimal", "binary"),
    [
        ("0", "0", "0"),
        ("1000m", "1", "1"),
        ("1500m", "1500m", "1500m"),
        ("0.5", "500m", "500m"),
        ("1000", "1k", "1k"),
        ("1024", "1024", "1Ki"),
        ("1Gi", "1073741824", "1Gi"),
        ("1.5Gi", "1610612736", "1536Mi"),
        ("2e6", "2M", "2000000"),
        ("-2k", "-2k", "-2000"),
    ],
)
def test_an_amount_is_printed_as_the_apiserver_does(text: str, decimal: str, binary: str) -> None:
    assert canonical(parse(text)) == decimal
    assert canonical(parse(text), binary=True) == binary


@given(st.integers(-(10**15), 10**15), st.booleans())
def test_the_printed_form_means_the_same_amount(number: int, binary: bool) -> None:
    assert parse(canonical(Fraction(number), binary=binary)) == number
