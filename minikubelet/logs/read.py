"""Reading a container's log: from the right place, in the right form, following it if asked.

Following sleeps on inotify. When the file was renamed and made anew (rotation), the old one is read
to its end first: the runtime goes on writing there until it has opened the new one. Source: kubelet
kuberuntime/logs/logs.go ReadLogs.
"""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import anyio
import anyio.to_thread
from inotify_simple import INotify, flags

from minikubelet.logs.cri_log import LogEntry, parse_entry

CHUNK = 64 * 1024
TAIL_BLOCK = 16 * 1024
_CHANGES = flags.CREATE | flags.MODIFY | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE


@dataclass(frozen=True, slots=True)
class LogOptions:
    """What of a log is wanted; `since_ns` in Unix nanoseconds, `stream` empty for both."""

    tail_lines: int | None = None
    since_ns: int = 0
    limit_bytes: int | None = None
    timestamps: bool = False
    follow: bool = False
    stream: str = ""


class _Form:
    """Turns entries into what the reader wants; remembers bytes left and unfinished lines."""

    def __init__(self, options: LogOptions) -> None:
        self._options = options
        self._left = options.limit_bytes
        self._is_new_line = True

    @property
    def is_full(self) -> bool:
        """True when the byte limit is reached."""
        return self._left is not None and self._left <= 0

    def text(self, entry: LogEntry) -> bytes:
        """Return what is shown of an entry; empty when it isn't wanted."""
        options = self._options
        if options.stream and entry.stream != options.stream:
            return b""
        if options.since_ns and entry.unix_ns < options.since_ns:
            return b""
        shown = entry.content
        if options.timestamps and self._is_new_line:
            shown = entry.stamp + b" " + shown
        self._is_new_line = not entry.is_partial
        if self._left is not None:
            shown = shown[: self._left]
            self._left -= len(shown)
        return shown


class _LogFile:
    """An open log file, read by whole lines.

    Unless it `grows`, its end is where it is now: a reader that is slower than the container
    writes would never come to another.
    """

    def __init__(self, path: str, *, grows: bool = True) -> None:
        self._path = path
        self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115  closed by close()
        self._end = None if grows else os.fstat(self._file.fileno()).st_size
        self._rest = b""

    def close(self) -> None:
        self._file.close()

    def seek_tail(self, lines: int) -> None:
        """Go to where the last `lines` lines begin."""
        fd = self._file.fileno()
        end = position = os.fstat(fd).st_size
        # The newline that ends the last line begins none.
        missing = lines + 1
        while position > 0 and lines > 0:
            begin = max(0, position - TAIL_BLOCK)
            block = os.pread(fd, position - begin, begin)
            at = len(block)
            while missing and (at := block.rfind(b"\n", 0, at)) >= 0:
                missing -= 1
            if not missing:
                self._file.seek(begin + at + 1)
                return
            position = begin
        self._file.seek(0 if lines > 0 else end)

    def read_lines(self) -> list[bytes]:
        """Return the next whole lines, empty when there is no more now."""
        while True:
            left = CHUNK if self._end is None else max(0, self._end - self._file.tell())
            block = self._file.read(min(CHUNK, left))
            if not block:
                return []
            *lines, self._rest = (self._rest + block).split(b"\n")
            if lines:
                return [line + b"\n" for line in lines]

    def take_rest(self) -> list[bytes]:
        """Return a last line that nobody will finish."""
        rest, self._rest = self._rest, b""
        return [rest] if rest else []

    def successor(self) -> "_LogFile | None":
        """Return the file now at the path if it is another one, and written to."""
        with suppress(FileNotFoundError):
            now = Path(self._path).stat()
            # Until the first byte is there, the runtime may still be writing to the old file.
            if now.st_ino != os.fstat(self._file.fileno()).st_ino and now.st_size > 0:
                return _LogFile(self._path)
        return None

    def rewind_if_truncated(self) -> bool:
        """Go back to the begin when the file became shorter than what was read of it."""
        is_shorter = os.fstat(self._file.fileno()).st_size < self._file.tell()
        if is_shorter:
            self._file.seek(0)
            self._rest = b""
        return is_shorter


class _Log:
    """A log that is being read: its current file, its form, and (to follow it) its folder."""

    def __init__(self, path: str, options: LogOptions) -> None:
        self._form = _Form(options)
        self._inotify: INotify | None = None
        self._file: _LogFile | None = None
        self.is_over = not options.follow
        self._is_old_drained = False
        self._leftover: list[bytes] = []
        try:
            if options.follow:
                self._inotify = INotify(nonblocking=True)
                self._inotify.add_watch(str(Path(path).parent), _CHANGES)
            self._file = _LogFile(path, grows=options.follow)
            if options.tail_lines is not None:
                self._file.seek_tail(options.tail_lines)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._inotify is not None:
            self._inotify.close()

    @property
    def is_done(self) -> bool:
        """True when nothing can follow what was read."""
        return self.is_over or self._form.is_full

    def next_piece(self) -> bytes:
        """Return the next text that is there, empty when there is no more now. Blocking."""
        while self._file is not None and not self._form.is_full:
            lines = self._leftover or self._file.read_lines()
            self._leftover = []
            if not lines and not self._advance(self._file):
                return self._shown(self._file.take_rest()) if self.is_over else b""
            if text := self._shown(lines):
                return text
        return b""

    def _advance(self, file: _LogFile) -> bool:
        """Go on to the next file, once nothing more comes to this one; tell whether there is one.

        The old file is read once more after the first byte in the new one was seen.
        """
        if file.rewind_if_truncated():
            return True
        successor = file.successor()
        if successor is None:
            return False
        if self._is_old_drained:
            self._is_old_drained = False
            self._leftover = file.take_rest()
            file.close()
            self._file = successor
        else:
            self._is_old_drained = True
            successor.close()
        return True

    def _shown(self, lines: list[bytes]) -> bytes:
        """Return the text of lines; one that is no log entry is left out."""
        pieces = []
        for line in lines:
            with suppress(ValueError):
                pieces.append(self._form.text(parse_entry(line)))
        return b"".join(pieces)

    async def wait(self, ended: Callable[[], Awaitable[None]] | None) -> None:
        """Wait until something happens in the folder or the container is done."""
        inotify = self._inotify
        assert inotify is not None  # noqa: S101  only a log that is followed is waited for

        async with anyio.create_task_group() as group:

            async def watch_end(until: Callable[[], Awaitable[None]]) -> None:
                await until()
                self.is_over = True
                group.cancel_scope.cancel()

            if ended is not None:
                group.start_soon(watch_end, ended)
            await anyio.wait_readable(inotify)
            inotify.read(timeout=0)
            group.cancel_scope.cancel()


async def read_log(
    path: str, options: LogOptions, ended: Callable[[], Awaitable[None]] | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the log's text in pieces. Raises OSError when the file can't be read.

    Without `follow` it ends at the end of the file. With it, it goes on until `ended()` has
    returned (the container is done) and all that was written is read; without an `ended` for ever.
    Close the iterator (`contextlib.aclosing`) when leaving early.
    """
    with closing(await anyio.to_thread.run_sync(_Log, path, options)) as log:
        while True:
            while piece := await anyio.to_thread.run_sync(log.next_piece):
                yield piece
            if log.is_done:
                return
            await log.wait(ended)


def read_tail(path: str, lines: int, limit: int) -> bytes:
    """Return the end of a log, at most so many lines and bytes. Blocking. Raises OSError."""
    with closing(_Log(path, LogOptions(tail_lines=lines))) as log:
        text = b""
        while piece := log.next_piece():
            text = (text + piece)[-limit:]
        return text
