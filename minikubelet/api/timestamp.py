"""API timestamps: RFC 3339 strings, compared and sent in whole seconds of UTC."""

from datetime import UTC, datetime

NANOSECONDS = 1_000_000_000


def rfc3339(wall_ns: int) -> str:
    """Return Unix nanoseconds as `2026-01-02T03:04:05Z`."""
    return datetime.fromtimestamp(wall_ns // NANOSECONDS, tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_or_none(wall_ns: int) -> str | None:
    """Return None for the unset time 0."""
    return rfc3339(wall_ns) if wall_ns > 0 else None


def rfc3339_nano(wall_ns: int) -> str:
    """Return Unix nanoseconds with nine digits, as in the annotation config.seen."""
    seconds = datetime.fromtimestamp(wall_ns // NANOSECONDS, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{seconds}.{wall_ns % NANOSECONDS:09d}Z"


def parse(text: str) -> int:
    """Return Unix nanoseconds; raises ValueError for anything but RFC 3339."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"cannot read time {text!r}: no time zone")
    return int(moment.timestamp()) * NANOSECONDS + moment.microsecond * 1000
