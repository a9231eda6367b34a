"""Go durations: `1m30s`, `300ms`, `-1h`. Source: Go time.ParseDuration."""

import re
from fractions import Fraction

_UNIT = {
    "ns": Fraction(1, 10**9),
    "us": Fraction(1, 10**6),
    "µs": Fraction(1, 10**6),
    "μs": Fraction(1, 10**6),
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
}
_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_MAX_SECONDS = 2**63 / 10**9


def seconds(text: str) -> float:
    """Return a duration in seconds; raises ValueError for anything that Go refuses."""
    body = text.lstrip("+-") if text[:1] in {"+", "-"} else text
    total, position = Fraction(0), 0
    for match in _PART.finditer(body):
        if match.start() != position:
            break
        position = match.end()
        total += Fraction(match[1].rstrip(".") or "0") * _UNIT[match[2]]
    if body != "0" and (not body or position != len(body)):
        raise ValueError(f"{text!r} is no duration such as 20s or 1m30s")
    if total > _MAX_SECONDS:
        raise ValueError(f"duration {text!r} is too long")
    return -float(total) if text.startswith("-") else float(total)
