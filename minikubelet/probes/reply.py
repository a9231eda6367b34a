"""What an HTTP/1 server answered, put together from bytes as they come: no I/O.

Only what a probe looks at: the status, the headers, ten KiB of the body. Words of errors are those
of Go's net/http.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

MAX_BODY = 10 * 1024
MAX_HEAD = 1 << 20

_HEAD_END = re.compile(rb"\n\r?\n")  # Go takes a bare line feed, too
_NO_BODY = frozenset({204, 304})
_FINAL = 200
_STATUS_FIELDS = 2


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply. Header names are in lower case; of a repeated one the first counts."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""


class MalformedReply(OSError):
    """Raised when what came is no HTTP."""

    def __init__(self, what: str, text: str) -> None:
        shown = text.replace("\\", "\\\\").replace('"', '\\"')
        super().__init__(
            f'net/http: HTTP/1.x transport connection broken: malformed {what} "{shown}"'
        )


class CutBody(Exception):
    """Raised when the body ends before its announced end."""


class Reader:
    """Takes bytes in, gives the reply out once there is enough of it."""

    def __init__(self) -> None:
        self._bytes = b""
        self.head: Reply | None = None
        """The reply without its body, as soon as it is known."""

    def reset(self) -> None:
        """Begin with another reply."""
        self._bytes, self.head = b"", None

    def feed(self, data: bytes) -> Reply | None:
        """Take what came (nothing: the end); return the reply or None if more is needed.

        Raises MalformedReply, EOFError when no reply came, CutBody.
        """
        self._bytes += data
        while self.head is None:
            end = _HEAD_END.search(self._bytes)
            if end is None:
                self._check_unfinished(ended=not data)
                return None
            reply = _parse_head(self._bytes[: end.start()])
            self._bytes = self._bytes[end.end() :]
            if reply.status >= _FINAL or reply.status == 101:  # noqa: PLR2004  Switching Protocols
                self.head = reply
        body = self._body(self.head, ended=not data)
        return None if body is None else Reply(self.head.status, self.head.headers, body)

    def _check_unfinished(self, *, ended: bool) -> None:
        if b"\n" in self._bytes or len(self._bytes) > MAX_HEAD or ended:
            first = self._bytes.partition(b"\n")[0].rstrip(b"\r")
            if not first:
                raise EOFError("EOF")
            _parse_status(first.decode("latin-1"))
            if ended or len(self._bytes) > MAX_HEAD:
                raise EOFError("unexpected EOF")

    def _body(self, head: Reply, *, ended: bool) -> bytes | None:
        if head.status in _NO_BODY:
            return b""
        if head.headers.get("transfer-encoding", "").lower() == "chunked":
            return self._chunks(ended=ended)
        length = head.headers.get("content-length")
        if length is None:
            whole = ended or len(self._bytes) >= MAX_BODY
            return self._bytes[:MAX_BODY] if whole else None
        if not length.isdecimal():
            raise MalformedReply("Content-Length", length)
        wanted = min(int(length), MAX_BODY)
        if len(self._bytes) < wanted:
            if ended:
                raise CutBody("unexpected EOF")
            return None
        return self._bytes[:wanted]

    def _chunks(self, *, ended: bool) -> bytes | None:
        body, rest = b"", self._bytes
        while len(body) < MAX_BODY:
            line, found, rest = rest.partition(b"\r\n")
            if not found:
                break
            try:
                size = int(line.partition(b";")[0], 16)
            except ValueError:
                raise CutBody("invalid byte in chunk length") from None
            if size == 0:
                return body
            body += rest[:size]
            if len(rest) < size + 2:
                break
            rest = rest[size + 2 :]
        if len(body) >= MAX_BODY:
            return body[:MAX_BODY]
        if ended:
            raise CutBody("unexpected EOF")
        return None


def _parse_status(text: str) -> int:
    version, _, rest = text.partition(" ")
    if not version.startswith("HTTP/") or not rest:
        raise MalformedReply("HTTP response", text)
    code = rest.lstrip().partition(" ")[0]
    if len(code) != 3 or not code.isdecimal():  # noqa: PLR2004  digits of a status code
        raise MalformedReply("HTTP status code", code)
    return int(code)


def _parse_head(head: bytes) -> Reply:
    first, *lines = head.decode("latin-1").split("\n")
    status = _parse_status(first.rstrip("\r"))
    headers: dict[str, str] = {}
    for line in lines:
        name, found, value = line.rstrip("\r").partition(":")
        if not found:
            raise MalformedReply("MIME header line", name)
        headers.setdefault(name.strip().lower(), value.strip())
    return Reply(status, headers)
