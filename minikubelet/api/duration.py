"""Durations as Go prints them: `10s`, `1m20s`, `1.5ms`; messages of the kubelet carry them.

Source: Go time.Duration.String.
"""

_SECOND = 1_000_000_000


def _trimmed(units: int, per_unit: int) -> str:
    """Return units/per_unit without trailing zeros; both are nanoseconds."""
    whole, rest = divmod(units, per_unit)
    if rest == 0:
        return str(whole)
    digits = len(str(per_unit)) - 1
    return f"{whole}.{rest:0{digits}d}".rstrip("0")


def go_duration(nanoseconds: int) -> str:
    """Return Go's text of a duration given in nanoseconds."""
    if nanoseconds == 0:
        return "0s"
    if nanoseconds < 0:
        return "-" + go_duration(-nanoseconds)
    for limit, per_unit, name in (
        (1_000, 1, "ns"),
        (1_000_000, 1_000, "µs"),
        (_SECOND, 1_000_000, "ms"),
    ):
        if nanoseconds < limit:
            return _trimmed(nanoseconds, per_unit) + name
    minutes, rest = divmod(nanoseconds, 60 * _SECOND)
    hours, minutes = divmod(minutes, 60)
    text = f"{hours}h{minutes}m" if hours else f"{minutes}m" if minutes else ""
    return f"{text}{_trimmed(rest, _SECOND)}s"


def go_duration_seconds(seconds: float) -> str:
    """Return Go's text of a duration given in seconds."""
    return go_duration(round(seconds * _SECOND))
