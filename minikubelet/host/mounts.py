"""The one door to mounts: the kernel's calls and its list, without any program in between.

All functions are short system calls; those on a hanging file system may block, so callers use a
thread. Every failure is an OSError whose text names the call and the paths.
"""

import ctypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_SLAVE = 0x80000
MS_SHARED = 0x100000
_MNT_DETACH = 0x2
_UMOUNT_NOFOLLOW = 0x8

_libc = ctypes.CDLL(None, use_errno=True)
_OCTAL = re.compile(rb"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of /proc/self/mountinfo (proc(5))."""

    id: int
    parent_id: int
    root: str
    mount_point: str
    options: str
    fs_type: str
    source: str
    super_options: str
    shared: bool = False


def parse_mountinfo(text: str) -> list[Mount]:
    """Return the mounts in the kernel's order: what covers something comes after it. Pure."""
    return [_parse_line(line) for line in text.splitlines() if line]


def _parse_line(line: str) -> Mount:
    before, _, after = line.partition(" - ")
    mount_id, parent_id, _, root, point, options, *optional = before.split(" ")
    fs_type, source, super_options = after.split(" ", 2)
    return Mount(
        id=int(mount_id),
        parent_id=int(parent_id),
        root=unescape(root),
        mount_point=unescape(point),
        options=options,
        fs_type=fs_type,
        source=unescape(source),
        super_options=super_options,
        shared=any(field.startswith("shared:") for field in optional),
    )


def unescape(text: str) -> str:
    r"""Return a mountinfo field as it was: the kernel writes blanks and `\` in octal."""
    raw = text.encode("utf-8", "surrogateescape")
    return _OCTAL.sub(lambda match: bytes([int(match[1], 8)]), raw).decode(
        "utf-8", "surrogateescape"
    )


def list_mounts() -> list[Mount]:
    """Return the mounts of this process' mount namespace."""
    # A path may hold bytes that are no UTF-8: they pass through, as with os.fsdecode.
    data = Path("/proc/self/mountinfo").read_bytes()
    return parse_mountinfo(data.decode("utf-8", "surrogateescape"))


def mounts_below(folder: str) -> Iterator[str]:
    """Yield the mount points at and below a folder, the ones mounted last first."""
    prefix = folder.rstrip("/") + "/"
    for mount in reversed(list_mounts()):
        if mount.mount_point == folder or mount.mount_point.startswith(prefix):
            yield mount.mount_point


def is_mount_point(path: str) -> bool:
    """Return whether something is mounted exactly here."""
    return any(mount.mount_point == path for mount in list_mounts())


def mount(source: str, target: str, fs_type: str, flags: int = 0, data: str = "") -> None:
    """Attach a file system or folder, as the system call of this name does."""
    arguments = [os.fsencode(source), os.fsencode(target), fs_type.encode()]
    if _libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None) != 0:
        _fail(f"cannot mount {source} ({fs_type}) on {target}")


def tmpfs(target: str, size_bytes: int | None = None, mode: int = 0o777) -> None:
    """Mount an empty tmpfs; without a size it may take half of the memory."""
    size = "" if size_bytes is None else f",size={size_bytes}"
    mount("tmpfs", target, "tmpfs", 0, f"mode={mode:o}{size}")


def bind(source: str, target: str, *, read_only: bool = False, recursive: bool = False) -> None:
    """Bind a file or folder. The kernel ignores read-only at first: a remount sets it."""
    flags = MS_BIND | (MS_REC if recursive else 0)
    mount(source, target, "none", flags)
    if read_only:
        try:
            remount_read_only(target)
        except OSError:
            unmount(target, detach=True)
            raise


def remount_read_only(target: str) -> None:
    """Make a bind mount read-only, with the restrictions that it has already.

    A remount that leaves out a flag which is locked in a user namespace is refused.
    """
    found = [each for each in list_mounts() if each.mount_point == target]
    options = found[-1].options.split(",") if found else []
    names = {"nosuid": MS_NOSUID, "nodev": MS_NODEV, "noexec": MS_NOEXEC}
    flags = sum(flag for name, flag in names.items() if name in options)
    mount("none", target, "none", MS_BIND | MS_REMOUNT | MS_RDONLY | flags)


def propagate(target: str, flags: int) -> None:
    """Set a mount's propagation: MS_SHARED, MS_SLAVE or MS_PRIVATE, with MS_REC for all below."""
    mount("none", target, "none", flags)


def unmount(target: str, *, detach: bool = False) -> None:
    """Unmount; `detach` hides it at once and lets its last user finish. Never follows a symlink."""
    flags = _UMOUNT_NOFOLLOW | (_MNT_DETACH if detach else 0)
    if _libc.umount2(os.fsencode(target), flags) != 0:
        _fail(f"cannot unmount {target}")


def _fail(text: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{text}: {os.strerror(number)}")
