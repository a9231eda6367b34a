import os
from pathlib import Path
from typing import Any

import pytest

from minikubelet.cri import messages as m
from minikubelet.logs.termination import termination_message

pytestmark = pytest.mark.anyio

POLICY = "io.kubernetes.container.terminationMessagePolicy"
PATH = "io.kubernetes.container.terminationMessagePath"


def exited(folder: Path, policy: str = "File", **fields: Any) -> m.ContainerStatus:
    return m.ContainerStatus(
        exit_code=fields.pop("exit_code", 1),
        annotations={PATH: "/dev/termination-log", POLICY: policy},
        mounts=[m.Mount(container_path="/dev/termination-log", host_path=str(folder / "message"))],
        log_path=str(folder / "0.log"),
        **fields,
    )


def log(folder: Path, lines: int) -> None:
    text = "".join(f"2026-01-01T00:00:00Z stdout F line {n}\n" for n in range(lines))
    (folder / "0.log").write_text(text)


async def test_the_end_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "message").write_bytes(b"a" + b"b" * 4096)
    assert await termination_message(exited(tmp_path)) == "b" * 4096


async def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    (tmp_path / "message").write_bytes(b"\xff!")
    assert await termination_message(exited(tmp_path)) == "\ufffd!"


FALL_BACK = "FallbackToLogsOnError"


@pytest.mark.parametrize(
    ("policy", "message", "fields", "expected"),
    [
        (FALL_BACK, "", {}, "line 0\nline 1\n"),
        (FALL_BACK, None, {}, "line 0\nline 1\n"),
        (FALL_BACK, "said", {}, "said"),
        (FALL_BACK, "", {"exit_code": 0}, ""),
        (FALL_BACK, "", {"reason": "ContainerCannotRun"}, ""),
        ("File", "", {}, ""),
        ("File", None, {}, ""),
    ],
)
async def test_fall_back_to_logs(
    tmp_path: Path, policy: str, message: str | None, fields: dict[str, Any], expected: str
) -> None:
    log(tmp_path, 2)
    if message is not None:
        (tmp_path / "message").write_text(message)
    assert await termination_message(exited(tmp_path, policy, **fields)) == expected


async def test_the_logs_end_is_80_lines_and_2048_bytes(tmp_path: Path) -> None:
    log(tmp_path, 100)
    text = await termination_message(exited(tmp_path, FALL_BACK))
    assert text.splitlines() == [f"line {n}" for n in range(20, 100)]
    line = "2026-01-01T00:00:00Z stdout F " + "x" * 99 + "\n"
    (tmp_path / "0.log").write_text(line * 100)
    assert len(await termination_message(exited(tmp_path, FALL_BACK))) == 2048


async def test_a_missing_log_is_said(tmp_path: Path) -> None:
    text = await termination_message(exited(tmp_path, FALL_BACK))
    assert text.startswith("Error on reading termination message from logs: ")


async def test_only_a_regular_file_is_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "message")
    assert await termination_message(exited(tmp_path)) == ""
    (tmp_path / "message").unlink()
    (tmp_path / "message").symlink_to("/etc/passwd")
    assert (await termination_message(exited(tmp_path))).startswith(
        "Error on reading termination log "
    )
