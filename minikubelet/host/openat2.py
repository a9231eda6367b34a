"""Opening paths that someone else controls, without ever leaving a folder.

A container may swap a path for a symlink at any time, so checking first and using the name later is
a race (CVE-2021-25741). Here the kernel resolves (openat2(2), RESOLVE_BENEATH): what comes back is
an open descriptor of something inside the folder, used through `fd_path` and never by name.
"""

import ctypes
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SYS_OPENAT2 = 437  # the same on every architecture
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RETRIES = 128  # the kernel gives EAGAIN when a rename elsewhere makes `..` uncertain

_libc = ctypes.CDLL(None, use_errno=True)


class EscapesFolder(OSError):
    """Raised when a path leads out of the folder: by `..`, an absolute or a magic symlink."""


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_beneath(
    folder: int, path: str, flags: int, mode: int = 0, *, follow_symlinks: bool = True
) -> int:
    """Open a relative path below an open folder; return a new descriptor.

    Symlinks that stay inside are followed unless told otherwise. Raises EscapesFolder, or OSError
    with ENOSYS on kernels before 5.6.
    """
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS
    if not follow_symlinks:
        resolve |= _RESOLVE_NO_SYMLINKS
    how = _OpenHow(flags | os.O_CLOEXEC, mode, resolve)
    arguments = (folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))
    number = 0
    for _ in range(_RETRIES):
        descriptor = int(_libc.syscall(_SYS_OPENAT2, *arguments))
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number != errno.EAGAIN:
            break
    text = f"cannot open {path!r} below its folder: {os.strerror(number)}"
    if number == errno.EXDEV or (number == errno.ELOOP and not follow_symlinks):
        raise EscapesFolder(number, f"cannot open {path!r}: it leads out of its folder")
    raise OSError(number, text)


@contextmanager
def opened_folder(path: str) -> Iterator[int]:
    """Open a trusted folder by name for the other functions here."""
    descriptor = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def make_folders_beneath(folder: int, path: str, mode: int) -> int:
    """Make the missing folders of a relative path; return an O_PATH descriptor of the last one.

    Existing ones may be symlinks inside the folder. `mode` is set in spite of the umask.
    """
    current = os.dup(folder)
    done = ""
    for name in [part for part in path.split("/") if part not in ("", ".")]:
        done = f"{done}/{name}" if done else name
        try:
            below = _enter_or_make(folder, current, done, name, mode)
        finally:
            os.close(current)
        current = below
    return current


def _enter_or_make(folder: int, parent: int, path: str, name: str, mode: int) -> int:
    flags = os.O_PATH | os.O_DIRECTORY
    try:
        return open_beneath(folder, path, flags)
    except FileNotFoundError:
        pass
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:  # a dangling symlink, or made by someone else just now
        return open_beneath(folder, path, flags)
    made = open_beneath(parent, name, flags, follow_symlinks=False)
    Path(fd_path(made)).chmod(mode)  # mkdir heeds the umask
    return made


def fd_path(descriptor: int) -> str:
    """Return a name for what a descriptor holds, for mount(2) and the like in this process."""
    return f"/proc/self/fd/{descriptor}"
