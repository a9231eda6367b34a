"""One line of a CRI log file: `<time> <stream> <tags> <content>`. Pure.

    2016-10-06T00:17:09.669794202Z stdout F the line

The tag P marks a part of a longer line, which goes on in the next entry of the same stream.
Source: kubelet kuberuntime/logs/logs.go, CRI logging design.
"""

import calendar
import re
from dataclasses import dataclass

STREAMS = ("stdout", "stderr")
_PARTIAL = b"P"
_NANOSECONDS = 1_000_000_000
_TIME = re.compile(
    rb"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d{1,9}))?(Z|([+-])(\d\d):(\d\d))"
)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry; `content` ends with a newline unless it is a part of a longer line."""

    timestamp: bytes
    stream: str
    is_partial: bool
    content: bytes

    @property
    def stamp(self) -> bytes:
        """The time with nine digits of fraction, as `kubectl logs --timestamps` shows it."""
        match = _TIME.fullmatch(self.timestamp)
        if match is None:
            return self.timestamp
        return b"%s.%s%s" % (self.timestamp[:19], (match[7] or b"").ljust(9, b"0"), match[8])

    @property
    def unix_ns(self) -> int:
        """The time as Unix nanoseconds."""
        return parse_time(self.timestamp)


def parse_time(text: bytes) -> int:
    """Return Unix nanoseconds of an RFC 3339 time. Raises ValueError."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError(f"cannot read time {text!r} of a log entry: expected RFC 3339")
    fields = tuple(int(match[index]) for index in range(1, 7))
    seconds = calendar.timegm((*fields, 0, 0, 0))
    if match[9]:
        offset = int(match[10]) * 3600 + int(match[11]) * 60
        seconds -= offset if match[9] == b"+" else -offset
    return seconds * _NANOSECONDS + int((match[7] or b"0").ljust(9, b"0"))


def parse_entry(line: bytes) -> LogEntry:
    """Return the entry of one line of the file. Raises ValueError for what is none."""
    parts = line.split(b" ", 3)
    if len(parts) != len(("time", "stream", "tags", "content")):
        raise ValueError(f"cannot read log entry {line[:100]!r}: expected time, stream, tag, text")
    timestamp, stream, tags, content = parts
    if _TIME.fullmatch(timestamp) is None:
        raise ValueError(f"cannot read log entry {line[:100]!r}: unexpected timestamp format")
    name = stream.decode(errors="replace")
    if name not in STREAMS:
        raise ValueError(f"cannot read log entry {line[:100]!r}: unexpected stream type")
    is_partial = tags.partition(b":")[0] == _PARTIAL
    if is_partial:
        content = content.removesuffix(b"\n")
    return LogEntry(timestamp, name, is_partial, content)
