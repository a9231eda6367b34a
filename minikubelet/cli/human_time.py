"""Times as kubectl shows them to people: `5s`, `3m20s`, `4d3h`. Pure.

Source: apimachinery pkg/util/duration HumanDuration.
"""

import re
from datetime import datetime

_MINUTE, _HOUR, _DAY, _YEAR = 60, 3600, 86_400, 365 * 86_400
_NANOSECONDS = re.compile(r"(\.\d{6})\d+")


def human_duration(seconds: float) -> str:
    """Return two or three significant places of a duration."""
    total = int(seconds)
    if total < -1:
        return "<invalid>"
    if total < 0:
        return "0s"
    for limit, unit, part in (
        (2 * _MINUTE, (1, "s"), None),
        (10 * _MINUTE, (_MINUTE, "m"), (1, "s")),
        (3 * _HOUR, (_MINUTE, "m"), None),
        (8 * _HOUR, (_HOUR, "h"), (_MINUTE, "m")),
        (2 * _DAY, (_HOUR, "h"), None),
        (8 * _DAY, (_DAY, "d"), (_HOUR, "h")),
        (2 * _YEAR, (_DAY, "d"), None),
        (8 * _YEAR, (_YEAR, "y"), (_DAY, "d")),
    ):
        if total < limit:
            return _parts(total, unit, part)
    return _parts(total, (_YEAR, "y"), None)


def _parts(total: int, unit: tuple[int, str], part: tuple[int, str] | None) -> str:
    size, name = unit
    whole, rest = divmod(total, size)
    if part is None or rest < part[0]:
        return f"{whole}{name}"
    return f"{whole}{name}{rest // part[0]}{part[1]}"


def unix_seconds(text: str) -> float:
    """Return an API time as Unix seconds; raises ValueError."""
    return datetime.fromisoformat(_NANOSECONDS.sub(r"\1", text)).timestamp()


def since(text: str, now: float) -> str:
    """Return how long ago an API time was, at `now` (Unix seconds)."""
    try:
        return human_duration(now - unix_seconds(text))
    except ValueError:
        return "<unknown>"
