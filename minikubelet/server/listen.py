"""The sockets: TCP for the node's own port, and the unix socket of the local API.

The unix socket is private: only its owner may open it, and only one agent serves on it.

A socket file that nobody listens on is a leftover of an agent that was killed; it is replaced. One
that takes connections belongs to a living agent (even one that is stopped or busy: the kernel
queues the connection), and the newcomer must not take its pods over.
"""

import errno
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PRIVATE = 0o600
_ALIVE = frozenset({0, errno.EAGAIN})
"""What connecting gives when somebody listens; EAGAIN: too many wait already."""
_MAX_PATH = 107
"""Bytes of a unix socket's path that the kernel takes (man 7 unix)."""


class CannotListen(Exception):
    """The socket can't be served on; the text says why and what to do."""


@contextmanager
def private_listener(path: Path) -> Iterator[socket.socket]:
    """Bind a socket with mode 0600, its folder made; remove it at the end. Raises CannotListen."""
    if len(os.fsencode(path)) > _MAX_PATH:
        raise CannotListen(
            f"cannot serve on {path}: a socket's path has at most {_MAX_PATH} bytes; "
            "choose a shorter --root-dir"
        )
    if _is_alive(path):
        raise CannotListen(_taken(path))
    with (
        _only_one(path),
        socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as listener,
    ):
        try:
            path.unlink(missing_ok=True)
            # A socket file gets its mode from the socket: there is no moment at which others may
            # open it, and no umask that other threads would feel.
            os.fchmod(listener.fileno(), _PRIVATE)
            listener.bind(str(path))
            inode = path.stat().st_ino
        except OSError as error:
            raise CannotListen(f"cannot serve on {path}: {error.strerror}") from error
        try:
            yield listener
        finally:
            _remove(path, inode)


@contextmanager
def tcp_listener(host: str, port: int) -> Iterator[socket.socket]:
    """Bind a TCP address; `::` takes IPv4, too, as Go's servers do. Raises CannotListen.

    A kernel without IPv6 serves IPv4 on `::`.
    """
    if host == "::" and not socket.has_dualstack_ipv6():
        host = "0.0.0.0"
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server(
            (host, port), family=family, backlog=1024, dualstack_ipv6=host == "::"
        )
    except OSError as error:
        raise CannotListen(
            f"cannot serve the kubelet API on {host} port {port}: {error.strerror or error}; "
            "stop what listens there, or set another address or port"
        ) from error
    with listener:
        listener.settimeout(0)
        yield listener


def _taken(path: Path) -> str:
    return (
        f"cannot serve on {path}: another agent runs and serves there; stop it first, or give "
        "this one a --root-dir of its own"
    )


@contextmanager
def _only_one(path: Path) -> Iterator[None]:
    """Hold the folder's lock; the kernel releases it with the process.

    The socket alone doesn't tell of an agent whose socket was removed, or of one that starts now.
    """
    lock = path.with_suffix(".lock")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(lock, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _PRIVATE)
    except OSError as error:
        raise CannotListen(f"cannot serve on {path}: {lock}: {error.strerror}") from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise CannotListen(_taken(path)) from None
    try:
        yield
    finally:
        os.close(fd)


def _remove(path: Path, inode: int) -> None:
    """Remove the socket file unless another agent has put its own there meanwhile."""
    try:
        if path.stat().st_ino == inode:
            path.unlink()
    except FileNotFoundError:
        return


def _is_alive(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK) as client:
        return client.connect_ex(str(path)) in _ALIVE
