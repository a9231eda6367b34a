"""One look at the manifest path: which files are there and what they mean. Blocking.

`look` takes what the last look found and gives back a new value, so an abandoned call can't do
harm. A file is read again only when its stat identity changed or an event named it. What can't be
read keeps its last good pods; only an entry that is gone, from a folder that can be read, takes its
pods along. Never watches and never sends: that is `sources.watch` and `sources.file`.
"""

import errno
import fcntl
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from minikubelet.sources.decode import Manifest, broken, decode_manifest
from minikubelet.sources.reports import ManifestReport, RawDocument
from minikubelet.sources.static import Place
from minikubelet.sources.updates import FILE

MAX_SIZE = 10 * 2**20
"""Bytes; the kubelet's limit for one manifest (kubelet config/file.go maxConfigLength)."""

Identity = tuple[int, ...]
Stored = Mapping[str, Sequence[RawDocument]]


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's last reading; `identity` None asks for another, `unfinished` was being written."""

    manifest: Manifest
    identity: Identity | None
    unfinished: Identity | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """What one look found: files, entries left out, links to follow, the path's own fault."""

    files: Mapping[str, FileState] = field(default_factory=dict)
    notes: tuple[ManifestReport, ...] = ()
    links: tuple[str, ...] = ()
    fault: str = ""

    @property
    def reports(self) -> list[ManifestReport]:
        """All reports, files in order of their names."""
        files = [
            report for path in sorted(self.files) for report in self.files[path].manifest.reports
        ]
        return [*self.notes, *files]


@dataclass(frozen=True, slots=True)
class Request:
    """What to look at: the path, the node, files named by events, and whether it is the relist."""

    root: str
    node_name: str
    touched: frozenset[str] = frozenset()
    relist: bool = False

    def place(self, path: str) -> Place:
        """Return the place of one file."""
        return Place(FILE, path, self.node_name)


def is_left_out(name: str) -> str:
    """Return why an entry of the folder is no manifest, empty when it may be one."""
    if name.startswith("."):
        return "its name begins with a dot"
    if not name.isprintable():
        return "its name is no printable UTF-8"
    if name.endswith(("~", ".bak", ".swp")) or (name.startswith("#") and name.endswith("#")):
        return "it is an editor's backup"
    return ""


def look(request: Request, before: Look, stored: Stored) -> Look:
    """Return the present state of the path."""
    try:
        is_folder = stat.S_ISDIR(os.stat(request.root).st_mode)
        names = sorted(os.listdir(request.root)) if is_folder else None
    except OSError as error:
        return _kept(request, before, stored, error)
    paths = (
        [request.root] if names is None else [os.path.join(request.root, name) for name in names]
    )
    files: dict[str, FileState] = {}
    notes: list[ManifestReport] = []
    links: list[str] = []
    for path in paths:
        reason = "" if names is None else is_left_out(os.path.basename(path))
        if reason:
            if not os.path.basename(path).startswith(".."):  # the atomic writer's own entries
                notes.append(_note(path, f"is left out: {reason}"))
            continue
        if os.path.islink(path):
            links.append(path)
        state = _file(request, path, before.files.get(path), stored.get(path, ()))
        if isinstance(state, FileState):
            files[path] = state
        elif state:
            notes.append(_note(path, state))
    if names is None and not _is_usable(files.get(request.root)):
        # A broken file in the place of a folder is no wish to stop the folder's pods.
        files = {**_earlier(request, before, stored), **files}
    return Look(files, tuple(notes), tuple(links))


def _is_usable(state: FileState | None) -> bool:
    return state is not None and not any(report.errors for report in state.manifest.reports)


def _kept(request: Request, before: Look, stored: Stored, error: OSError) -> Look:
    """The path itself can't be read: everything known stays, the fault is told."""
    fault = (
        f"cannot read manifests: {request.root} does not exist; create it, it will be picked up"
        if isinstance(error, FileNotFoundError)
        else f"cannot read manifests: {request.root}: {error.strerror}"
    )
    files = _earlier(request, before, stored)
    report = ManifestReport(FILE, request.root, errors=(fault,), last_good=bool(files))
    return Look(files, (report,), before.links, fault)


def _earlier(request: Request, before: Look, stored: Stored) -> dict[str, FileState]:
    """Return what was known of the path before it became unreadable."""
    files = dict(before.files)
    if not files and not before.fault:
        for path, documents in stored.items():
            if path == request.root or os.path.dirname(path) == request.root:
                manifest = broken(
                    f"{path}: cannot read manifest: it is gone with its folder",
                    request.place(path),
                    documents,
                )
                files[path] = FileState(manifest, None)
    return files


def _note(path: str, text: str) -> ManifestReport:
    path = os.fsencode(path).decode(errors="backslashreplace")
    return ManifestReport(FILE, path, warnings=(f"{path} {text}",))


def _file(
    request: Request, path: str, before: FileState | None, stored: Sequence[RawDocument]
) -> FileState | str:
    """Return the file's state, or why it is none; an empty reason when it has just gone."""
    place = request.place(path)
    last_good = before.manifest.documents if before else stored
    try:
        status = os.stat(path)
        if stat.S_ISDIR(status.st_mode):
            return "is left out: folders in the manifest folder are not entered"
        if not stat.S_ISREG(status.st_mode):
            return "is left out: it is no regular file"
        if before and before.identity == _identity(status) and path not in request.touched:
            return before
        return _read(request, path, before, last_good)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not os.path.lexists(path):
            return ""
        return FileState(
            broken(f"{path}: cannot read manifest: {error.strerror}", place, last_good), None
        )


def _read(
    request: Request, path: str, before: FileState | None, last_good: Sequence[RawDocument]
) -> FileState:
    place = request.place(path)
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as stream:
        identity = _identity(os.fstat(fd))
        waited = request.relist and before is not None and before.unfinished == identity
        if _is_being_written(fd) and not waited:
            return _unfinished(place, before, last_good, identity)
        content = stream.read(MAX_SIZE + 1)
        if _identity(os.fstat(fd)) != identity:
            return _unfinished(place, before, last_good, identity)
    if len(content) > MAX_SIZE:
        message = f"{path}: cannot read manifest: it is larger than {MAX_SIZE // 2**20} MiB"
        return FileState(broken(message, place, last_good), identity)
    return FileState(decode_manifest(content, place, last_good), identity)


def _unfinished(
    place: Place, before: FileState | None, last_good: Sequence[RawDocument], identity: Identity
) -> FileState:
    """Wait for the end of the writing or the next relist: what was read before stays."""
    if before is not None:
        return replace(before, identity=None, unfinished=identity)
    manifest = broken("", place, last_good)
    note = f"{place.name} is still being written"
    reports = tuple(replace(report, errors=(), warnings=(note,)) for report in manifest.reports)
    return FileState(replace(manifest, reports=reports), None, identity)


def _is_being_written(fd: int) -> bool:
    """Ask for a read lease: the kernel refuses it while anyone has the file open for writing.

    Where leases aren't to be had (foreign owner, network file system) the file counts as complete.
    A writer that comes in between breaks the lease by a signal: one that is ignored by default.
    """
    try:
        fcntl.fcntl(fd, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    return False


def _identity(status: os.stat_result) -> Identity:
    return (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
