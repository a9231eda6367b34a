"""The way to a running agent: HTTP/1.1 over its unix socket.

Only the standard library is used: a person waits for each import. All failures become `AgentError`,
whose text says what to do.
"""

import http.client
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

DEFAULT_ROOT_DIR = "/var/lib/kubelet"
"""As `minikubelet run` has it (config/flags.py)."""
SOCKET_NAME = "minikubelet.sock"

ANSWER_SECONDS = 10.0
_CHUNK = 64 * 1024
_ELSEWHERE = "or runs with another --root-dir (say it with --root-dir or --socket)"


class AgentError(Exception):
    """The agent can't be asked or says no; the text is for people."""


class Agent:
    """An agent by its socket. Each question is a connection of its own."""

    def __init__(self, socket_path: Path) -> None:
        self.socket_path = socket_path

    def get(self, path: str) -> Any:
        """Return a JSON document. Raises AgentError."""
        with self._asked(path) as response:
            body = response.read()
        try:
            return json.loads(body)
        except ValueError as error:
            raise AgentError(
                f"cannot read the agent's answer to {path}: it is no JSON ({error})"
            ) from error

    @contextmanager
    def stream(self, path: str, query: dict[str, str]) -> Iterator[Iterator[bytes]]:
        """Give an answer in pieces as they come, for as long as it takes. Raises AgentError."""
        target = f"{path}?{urlencode(query)}" if query else path
        with self._asked(target, endless=True) as response:
            yield _pieces(response)

    @contextmanager
    def _asked(self, target: str, *, endless: bool = False) -> Iterator[http.client.HTTPResponse]:
        connection = _UnixConnection(self.socket_path)
        try:
            try:
                connection.connect()
            except OSError as error:
                raise AgentError(self._why_not(error)) from error
            connection.request("GET", target, headers={"Host": "localhost"})
            response = connection.getresponse()
            if response.status != http.client.OK:
                raise AgentError(response.read().decode(errors="replace").strip())
            if endless:
                connection.wait_for_ever()
            yield response
        except TimeoutError as error:
            raise AgentError(
                f"the agent at {self.socket_path} does not answer within {ANSWER_SECONDS:g} s"
            ) from error
        except (http.client.HTTPException, ConnectionResetError) as error:
            raise AgentError("the agent ended the connection; it may have been stopped") from error
        finally:
            connection.close()

    def _why_not(self, error: OSError) -> str:
        path = self.socket_path
        if isinstance(error, PermissionError):
            return f"cannot reach the agent: only root may open {path}; try again with sudo"
        if isinstance(error, FileNotFoundError | NotADirectoryError):
            return (
                f"cannot reach the agent: there is no {path}: it isn't running (start it with "
                f"`minikubelet run`) {_ELSEWHERE}"
            )
        if isinstance(error, ConnectionRefusedError):
            return (
                f"cannot reach the agent: nobody listens on {path}: it has ended (start it with "
                f"`minikubelet run`) {_ELSEWHERE}"
            )
        return f"cannot reach the agent at {path}: {error.strerror or error}"


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=ANSWER_SECONDS)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(os.fsencode(self._path))

    def wait_for_ever(self) -> None:
        """Wait for the rest as long as it takes: a container may be silent for days."""
        self.sock.settimeout(None)


def _pieces(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while piece := response.read1(_CHUNK):
        yield piece


def socket_path(socket_option: str, root_dir: str) -> Path:
    """Return where the agent's socket is: as told, or in its root folder."""
    return Path(socket_option) if socket_option else Path(root_dir) / SOCKET_NAME
