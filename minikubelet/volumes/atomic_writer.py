"""Files that change all at once: readers see the old set or the new one, never a mixture.

`VOLUME/..data` links to a folder named after the time; the names in the volume link through it. A
new set is written beside, then one rename turns `..data` over. Equal content is left alone. May
block. Source: kubelet volume/util/atomic_writer.go.
"""

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from minikubelet.volumes.payload import Payload

DATA, DATA_TMP = "..data", "..data_tmp"
_FOLDER_MODE = 0o755


def write(folder: Path, payload: Payload, own: Callable[[Path], None] | None = None) -> bool:
    """Make a folder show exactly these files; return whether anything changed. Raises OSError.

    `own` is called with the new folder of files before anybody can see it.
    """
    current = _current(folder)
    if current is not None and _shows(current, payload):
        _remove_stale(folder, payload)
        return False
    fresh = _make(folder, payload)
    if own is not None:
        own(fresh)
    link = folder / DATA_TMP
    link.unlink(missing_ok=True)
    link.symlink_to(fresh.name)
    link.rename(folder / DATA)
    _link_names(folder, payload)
    _remove_stale(folder, payload)
    if current is not None:
        shutil.rmtree(current, ignore_errors=True)
    _sweep(folder, keep=fresh.name)
    return True


def _current(folder: Path) -> Path | None:
    try:
        target = (folder / DATA).readlink()
    except OSError:
        return None
    path = folder / target
    return path if path.is_dir() else None


def _shows(current: Path, payload: Payload) -> bool:
    there = {
        str(path.relative_to(current)): path for path in current.rglob("*") if not path.is_dir()
    }
    if there.keys() != payload.keys():
        return False
    return all(path.read_bytes() == payload[name].data for name, path in there.items())


def _make(folder: Path, payload: Payload) -> Path:
    stamp = time.strftime("..%Y_%m_%d_%H_%M_%S.", time.gmtime())
    fresh = Path(tempfile.mkdtemp(prefix=stamp, dir=folder))
    try:
        _fill(fresh, payload)
    except OSError as error:
        shutil.rmtree(fresh, ignore_errors=True)
        # Without the name of the time, which would make each failure look like a new one.
        named = str(error.filename or folder).replace(f"{fresh.name}/", "")
        raise OSError(error.errno, error.strerror, named) from error
    return fresh


def _fill(fresh: Path, payload: Payload) -> None:
    fresh.chmod(_FOLDER_MODE)
    for name, file in payload.items():
        path = fresh / name
        for parent in reversed(path.relative_to(fresh).parents[:-1]):
            made = fresh / parent
            if not made.exists():
                made.mkdir()
                made.chmod(_FOLDER_MODE)
        path.write_bytes(file.data)
        path.chmod(stat.S_IMODE(file.mode))
        if file.uid is not None:
            os.chown(path, file.uid, -1)


def _top_names(payload: Payload) -> set[str]:
    return {name.split("/", 1)[0] for name in payload}


def _link_names(folder: Path, payload: Payload) -> None:
    for name in _top_names(payload):
        link = folder / name
        if not link.is_symlink():
            link.symlink_to(f"{DATA}/{name}")


def _remove_stale(folder: Path, payload: Payload) -> None:
    wanted = _top_names(payload)
    for entry in os.scandir(folder):
        if not entry.name.startswith("..") and entry.name not in wanted and entry.is_symlink():
            Path(entry.path).unlink()


def _sweep(folder: Path, *, keep: str) -> None:
    """Remove what a crash between two steps has left."""
    for entry in os.scandir(folder):
        is_old = entry.name.startswith("..") and entry.name not in (DATA, keep)
        if is_old and entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.path, ignore_errors=True)
