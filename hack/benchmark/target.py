"""What probes ask in the bench: a server on loopback that answers with 200 and closes.

A process of its own, so that nobody's figure holds its work. It prints its port; each line that it
reads is answered with the number of connections so far.
"""

import asyncio
import subprocess
import sys
from typing import Self

from benchmark.room import BenchError, Room

_REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"


class Target:
    """The server's process."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._process: subprocess.Popen[bytes] | None = None
        self.port = 0

    def __enter__(self) -> Self:
        argv = [sys.executable, "-m", "benchmark.target"]
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PYTHONPATH": str(self._room.hack)},
        )
        self.port = self._read()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()

    def connections(self) -> int:
        """Return how many there were so far."""
        if self._process is None or self._process.stdin is None:
            raise BenchError("the target of the probes isn't started")
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> int:
        line = b""
        if self._process is not None and self._process.stdout is not None:
            line = self._process.stdout.readline()
        if not line:
            raise BenchError("the target of the probes ended by itself")
        return int(line)


class _Answer(asyncio.Protocol):
    count = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        _Answer.count += 1
        self._transport = transport

    def data_received(self, data: bytes) -> None:  # noqa: ARG002  whatever it is
        if isinstance(self._transport, asyncio.WriteTransport):
            self._transport.write(_REPLY)
            self._transport.close()


def _tell(number: int) -> None:
    sys.stdout.write(f"{number}\n")
    sys.stdout.flush()


def _answer() -> None:
    sys.stdin.readline()
    _tell(_Answer.count)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Answer, "127.0.0.1", 0, backlog=1024)
    _tell(server.sockets[0].getsockname()[1])
    loop.add_reader(sys.stdin.fileno(), _answer)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_serve())
