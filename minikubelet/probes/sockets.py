"""Connections to containers from the node, as steps: no proxy, no keep-alive, nothing in between.

A raw socket that waits only where the kernel makes it wait: a pod of this node usually answers the
connect within the call. Sockets linger for a second, so that thousands of closed ones don't fill
the table of ports (kubelet: pkg/probe/dialer_others.go). Errors are OSErrors with the words of Go's
net package, which people know from the kubelet's events.
"""

import errno
import os
import socket
import struct
from collections.abc import Sequence
from ipaddress import ip_address

import anyio

from minikubelet.probes.request import authority
from minikubelet.probes.steps import readable, writable

_LINGER = struct.pack("ii", 1, 1)


def is_address(host: str) -> bool:
    """Tell an address from a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


async def addresses_of(host: str) -> list[str]:
    """Return the addresses of a name, no step of an exchange. Raises OSError."""
    if is_address(host):
        return [host]
    try:
        found = await anyio.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise OSError(f"dial tcp: lookup {host}: {error.strerror}") from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def connect(addresses: Sequence[str], port: int) -> socket.socket:
    """Return a connected non-blocking socket, which is the caller's to close. Raises OSError."""
    for number, address in enumerate(addresses, start=1):
        try:
            return await _connect(address, port)
        except OSError:
            if number == len(addresses):
                raise
    raise OSError("dial tcp: no such host")


async def _connect(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
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
        await writable(made)
        return made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    return 0


def words(code: int) -> str:
    """Return an error number's text as Go writes it."""
    return os.strerror(code).lower()


async def receive(connected: socket.socket, limit: int = 16384) -> bytes:
    """Return what comes next, nothing at the end. Raises OSError."""
    while True:
        # An answer is hardly ever there already: trying first costs more than waiting.
        await readable(connected)
        try:
            return connected.recv(limit)
        except BlockingIOError:
            continue


async def send(connected: socket.socket, data: bytes) -> None:
    """Send all of it. Raises OSError."""
    rest = data
    while rest:
        try:
            rest = rest[connected.send(rest) :]
        except BlockingIOError:
            await writable(connected)
