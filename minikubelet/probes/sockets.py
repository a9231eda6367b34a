"""Connections to containers from the node: no proxy, no keep-alive, no streams in between.

A raw socket that waits only where the kernel makes it wait: a pod of this node usually answers the
connect within the call. Sockets linger for a second, so that thousands of closed ones don't fill
the table of ports (kubelet: pkg/probe/dialer_others.go). Errors are OSErrors with the words of Go's
net package, which people know from the kubelet's events.
"""

import errno
import os
import socket
import struct
from functools import lru_cache
from ipaddress import ip_address

import anyio

from minikubelet.probes.request import authority

_LINGER = struct.pack("ii", 1, 1)


async def connect(host: str, port: int) -> socket.socket:
    """Return a connected non-blocking socket, which is the caller's to close. Raises OSError.

    `host` is an address or a name.
    """
    failure = OSError(f"dial tcp: lookup {host}: no such host")
    for address in await _addresses(host):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            return await _connect(family, address, port)
        except OSError as error:
            failure = error
    raise failure


async def _addresses(host: str) -> list[str]:
    if _is_address(host):
        return [host]
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(f"dial tcp: lookup {host}: {error.strerror}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


@lru_cache(maxsize=1024)
def _is_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def _connect(family: int, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
        code = made.connect_ex((address, port))
        if code == errno.EINPROGRESS:
            code = await _outcome(made)
    except BaseException:
        made.close()
        raise
    if code:
        made.close()
        raise OSError(f"dial tcp {authority(address, port)}: connect: {words(code)}")
    return made


async def _outcome(made: socket.socket) -> int:
    """Wait for a connect to end; return its error number, 0 for none."""
    try:
        made.getpeername()
    except OSError:
        await anyio.wait_writable(made)
    else:
        return 0
    return made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)


def words(code: int) -> str:
    """Return an error number's text as Go writes it."""
    return os.strerror(code).lower()


async def receive(connected: socket.socket, limit: int = 16384) -> bytes:
    """Return what comes next, nothing at the end. Raises OSError."""
    while True:
        try:
            return connected.recv(limit)
        except BlockingIOError:
            await anyio.wait_readable(connected)


async def send(connected: socket.socket, data: bytes) -> None:
    """Send all of it. Raises OSError."""
    view = memoryview(data)
    while view:
        try:
            view = view[connected.send(view) :]
        except BlockingIOError:
            await anyio.wait_writable(connected)
