"""Kubernetes quantities: `100m`, `1.5Gi`, `2e3`, read exactly.

A quantity stays as written in the structs; whoever counts with it asks here. Rounding is always up,
as the kubelet's `Value()` and `MilliValue()` do. Source: apimachinery pkg/api/resource/quantity.go.
"""

import re
from fractions import Fraction
from math import ceil

_FORM = re.compile(r"([+-]?)(\d+\.?\d*|\.\d+)([eE][+-]?\d+|[a-zA-Z]*)", re.ASCII)
_SUFFIX = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(10**3),
    "M": Fraction(10**6),
    "G": Fraction(10**9),
    "T": Fraction(10**12),
    "P": Fraction(10**15),
    "E": Fraction(10**18),
    "Ki": Fraction(2**10),
    "Mi": Fraction(2**20),
    "Gi": Fraction(2**30),
    "Ti": Fraction(2**40),
    "Pi": Fraction(2**50),
    "Ei": Fraction(2**60),
}
_BINARY_STEP = 1024
_MAX_EXPONENT = 64
"""Beyond this a quantity is nonsense; without a limit `1e999999999` would eat the memory."""


def parse(quantity: str | float) -> Fraction:
    """Return the exact amount. Raises ValueError naming the text."""
    match = _FORM.fullmatch(str(quantity))
    if match is None:
        raise ValueError(
            f"cannot read quantity {quantity!r}: expected a number such as 100m, 1.5 or 2Gi"
        )
    sign, number, suffix = match.groups()
    scale = _SUFFIX.get(suffix)
    if scale is None:
        exponent = suffix[1:]
        is_exponent = suffix[0] in "eE" and exponent.lstrip("+-").isdigit()
        if not is_exponent or abs(int(exponent)) > _MAX_EXPONENT:
            raise ValueError(f"cannot read quantity {quantity!r}: unknown suffix {suffix!r}")
        scale = Fraction(10) ** int(exponent)
    amount = Fraction(number.rstrip(".") or "0") * scale
    return -amount if sign == "-" else amount


def value(quantity: str | float) -> int:
    """Return whole units, rounded up: bytes of memory, CPUs."""
    return ceil(parse(quantity))


def milli(quantity: str | float) -> int:
    """Return thousandths, rounded up: millicores of a cpu quantity."""
    return ceil(parse(quantity) * 1000)


def canonical(amount: Fraction, *, binary: bool = False) -> str:
    """Return an amount as the apiserver prints it: `1500m`, `2k`, with `binary` `128Mi`.

    Below 1024, or where it isn't whole, a binary amount falls back to the decimal form.
    """
    if amount == 0:
        return "0"
    if binary and abs(amount) >= _BINARY_STEP and amount.denominator == 1:
        return _scaled(int(amount), _BINARY_STEP, ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"))
    nano = ceil(amount * 10**9)
    return _scaled(nano, 1000, ("n", "u", "m", "", "k", "M", "G", "T", "P", "E"))


def _scaled(number: int, step: int, suffixes: tuple[str, ...]) -> str:
    index = 0
    while number % step == 0 and index + 1 < len(suffixes):
        number //= step
        index += 1
    return f"{number}{suffixes[index]}"
