"""Failures on the way to the agent, in words that help."""

import errno
import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from minikubelet.agent.agent import SOCKET_NAME as AGENTS_NAME
from minikubelet.cli import client
from minikubelet.cli.client import DEFAULT_ROOT_DIR, SOCKET_NAME, Agent, AgentError, socket_path
from minikubelet.config.flags import FLAG_DEFAULTS


def test_it_looks_where_the_agent_serves() -> None:
    assert SOCKET_NAME == AGENTS_NAME
    assert FLAG_DEFAULTS["root-dir"] == DEFAULT_ROOT_DIR


@pytest.mark.parametrize(
    ("option", "root", "path"),
    [("", "/r", "/r/minikubelet.sock"), ("/x/s", "/r", "/x/s")],
)
def test_where_the_socket_is(option: str, root: str, path: str) -> None:
    assert socket_path(option, root) == Path(path)


def refusal(path: Path, target: str = "/pods") -> str:
    with pytest.raises(AgentError) as error:
        Agent(path).get(target)
    return str(error.value)


class TestNoWay:
    def test_there_is_no_socket(self, tmp_path: Path) -> None:
        path = tmp_path / "minikubelet.sock"
        assert refusal(path) == (
            f"cannot reach the agent: there is no {path}: it isn't running (start it with "
            "`minikubelet run`) or runs with another --root-dir (say it with --root-dir or "
            "--socket)"
        )

    def test_nobody_listens(self, tmp_path: Path) -> None:
        path = tmp_path / "minikubelet.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        assert refusal(path).startswith(
            f"cannot reach the agent: nobody listens on {path}: it has ended (start it with"
        )

    def test_only_root_may(self) -> None:
        error = OSError(errno.EACCES, os.strerror(errno.EACCES))
        assert Agent(Path("/r/s"))._why_not(error) == (
            "cannot reach the agent: only root may open /r/s; try again with sudo"
        )

    def test_a_path_that_no_socket_can_have(self) -> None:
        path = Path("/" + "x" * 200)
        assert refusal(path) == f"cannot reach the agent at {path}: AF_UNIX path too long"


LATER_SECONDS = 0.8


@contextmanager
def saying(folder: Path, answer: bytes | None, later: bytes = b"") -> Iterator[Path]:
    """A server that says one thing to the first client (and one later), or nothing at all."""
    path = folder / "s"
    done = threading.Event()

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(4096)
            if answer is None:
                done.wait(10)
            else:
                connection.sendall(answer)
                if later:
                    done.wait(LATER_SECONDS)
                    # A client that has read enough is gone by then.
                    with suppress(BrokenPipeError, ConnectionResetError):
                        connection.sendall(later)

    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen()
        thread = threading.Thread(target=serve)
        thread.start()
        yield path
        done.set()
        thread.join()


class TestOddAnswers:
    def test_a_refusal_is_passed_on(self, tmp_path: Path) -> None:
        text = b"HTTP/1.1 404 Not Found\r\nContent-Length: 3\r\n\r\nno\n"
        with saying(tmp_path, text) as path:
            assert refusal(path) == "no"

    def test_no_json(self, tmp_path: Path) -> None:
        with saying(tmp_path, b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{") as path:
            assert refusal(path).startswith(
                "cannot read the agent's answer to /pods: it is no JSON"
            )

    def test_an_end_before_the_answer(self, tmp_path: Path) -> None:
        with saying(tmp_path, b"") as path:
            assert refusal(path) == "the agent ended the connection; it may have been stopped"

    def test_an_end_in_the_middle_of_a_stream(self, tmp_path: Path) -> None:
        text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
        with saying(tmp_path, text) as path:
            got: list[bytes] = []
            with (
                pytest.raises(AgentError, match="the agent ended the connection"),
                Agent(path).stream("/containerLogs/a/b/c", {}) as pieces,
            ):
                got.extend(pieces)
            assert got == [b"abc"]

    def test_a_stream_may_be_silent_for_longer_than_an_answer(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(client, "ANSWER_SECONDS", LATER_SECONDS / 2)
        text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        with (
            saying(tmp_path, text, b"3\r\nabc\r\n0\r\n\r\n") as path,
            Agent(path).stream("/containerLogs/a/b/c", {}) as pieces,
        ):
            assert list(pieces) == [b"abc"]

    def test_silence(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(client, "ANSWER_SECONDS", 0.05)
        with saying(tmp_path, None) as path:
            assert refusal(path) == f"the agent at {path} does not answer within 0.05 s"
