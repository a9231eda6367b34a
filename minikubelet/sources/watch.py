"""Changes of a path as events: inotify on the path, what its links lead to, and parents.

The parents are watched for the one name that matters, so that a path that is missing is seen when
it appears, and one that is replaced (also by a swapped link) is followed. `cover` is called before
each look: what it watches then can't change unseen. Without inotify (its limits are per user)
`wait` only sleeps, and the slow relist does the work. Never reads files.
"""

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import anyio
from inotify_simple import INotify, flags

from minikubelet.sources.folder import is_left_out

_COMING_AND_GOING = flags.CREATE | flags.MOVED_TO | flags.MOVED_FROM | flags.DELETE
_SELF = flags.DELETE_SELF | flags.MOVE_SELF
_CONTENT = flags.CLOSE_WRITE | flags.ATTRIB
_SLOW = "changes are seen by the slow relist only"
_MAX_LINKS = 40
"""As many links as the kernel follows in one path."""


@dataclass(slots=True)
class _Wanted:
    """What matters in one folder: which names, and whether files' contents or only names."""

    names: set[str] = field(default_factory=set)
    any_name: bool = False
    contents: bool = False

    def mask(self) -> int:
        """Return the events to ask for."""
        return int(_COMING_AND_GOING | _SELF | flags.ONLYDIR | (_CONTENT if self.contents else 0))

    def matters(self, name: str) -> bool:
        """Return True when an event about this name asks for a look."""
        if name in self.names:
            return True
        return self.any_name and (name.startswith("..") or not is_left_out(name))


def steps(path: str) -> tuple[list[tuple[str, str]], str]:
    """Return (real folder, name) of each step, links included, and the real end if it exists."""
    todo = [part for part in path.split("/") if part]
    current, links, result = "/", 0, []
    while todo:
        part = todo.pop(0)
        if part == ".":
            continue
        if part == "..":
            current = os.path.dirname(current)
            continue
        result.append((current, part))
        here = os.path.join(current, part)
        try:
            mode = os.lstat(here).st_mode
            target = os.readlink(here) if stat.S_ISLNK(mode) else None
        except OSError:
            return result, ""
        if target is None:
            current = here
            continue
        links += 1
        if links > _MAX_LINKS:
            return result, ""
        if target.startswith("/"):
            current = "/"
        todo = [part for part in target.split("/") if part] + todo
    return result, current


class Watch:
    """An inotify instance and the folders it covers. Enter it in a thread: loading blocks."""

    def __init__(self) -> None:
        self.fault = ""
        self._inotify: INotify | None = None
        self._by_wd: dict[int, tuple[str, _Wanted]] = {}

    def __enter__(self) -> Self:
        try:
            self._inotify = INotify()
        except OSError as error:
            self.fault = f"cannot watch manifests: inotify: {error.strerror}; {_SLOW}"
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._inotify is not None:
            self._inotify.close()
            self._inotify = None

    def cover(self, root: str, links: Iterable[str]) -> None:
        """Watch exactly what the path and the links among its entries depend on now."""
        if self._inotify is None:
            return
        wanted: dict[str, _Wanted] = {}
        end = _add_steps(wanted, root)
        for link in links:
            _add_steps(wanted, link)
        if os.path.isdir(end):
            folder = wanted.setdefault(end, _Wanted())
            folder.any_name = folder.contents = True
        old, self._by_wd = self._by_wd, {}
        for folder_path, what in wanted.items():
            try:
                wd = self._inotify.add_watch(folder_path, what.mask())
            except OSError as error:
                if not isinstance(error, FileNotFoundError | NotADirectoryError):
                    self.fault = f"cannot watch {folder_path}: {error.strerror}; {_SLOW}"
                continue
            self._by_wd[wd] = (folder_path, what)
        for wd in old.keys() - self._by_wd.keys():
            try:
                self._inotify.rm_watch(wd)
            except OSError:  # gone with its folder
                continue

    async def wait(self, timeout: float) -> frozenset[str] | None:
        """Return the paths that events named, after `timeout` seconds without any None."""
        with anyio.move_on_after(timeout):
            if self._inotify is None:
                await anyio.sleep_forever()
            while self._inotify is not None:
                await anyio.wait_readable(self._inotify.fileno())
                touched, relevant = self._drain()
                if relevant:
                    return frozenset(touched)
        return None

    def _drain(self) -> tuple[set[str], bool]:
        touched: set[str] = set()
        relevant = False
        if self._inotify is None:
            return touched, relevant
        for event in self._inotify.read(timeout=0):
            if event.mask & flags.Q_OVERFLOW:
                relevant = True
            watched = self._by_wd.get(event.wd)
            if watched is None or event.mask & flags.IGNORED:
                continue
            folder, what = watched
            if event.mask & _SELF:
                relevant = True
            elif what.matters(event.name):
                relevant = True
                touched.add(os.path.join(folder, event.name))
        return touched, relevant


def _add_steps(wanted: dict[str, _Wanted], path: str) -> str:
    """Add what one path depends on; return its real end, empty while it is missing."""
    parts, end = steps(path)
    for folder, name in parts:
        what = wanted.setdefault(folder, _Wanted())
        what.names.add(name)
    if parts and end and not os.path.isdir(end):
        # A file: its content matters, in the folder where it really is.
        wanted[parts[-1][0]].contents = True
    return end
