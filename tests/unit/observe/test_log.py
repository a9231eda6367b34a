"""Logs as lines: JSON for machines, text for people, bound keys in each."""

import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from minikubelet.observe import log


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Put the process's logging back as it was."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def json_lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    return [json.loads(line) for line in capsys.readouterr().err.splitlines()]


def test_json_lines_carry_what_is_bound(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up(json_format=True)
    with structlog.contextvars.bound_contextvars(pod="default/web", uid="uid-1", container="app"):
        structlog.get_logger().info("container started", image="busybox")
    (line,) = json_lines(capsys)
    assert line.pop("timestamp")
    assert line == {
        "event": "container started",
        "level": "info",
        "pod": "default/web",
        "uid": "uid-1",
        "container": "app",
        "image": "busybox",
    }


def test_a_crash_is_one_line_of_json(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up(json_format=True)
    try:
        int("no number")
    except ValueError:
        structlog.get_logger().exception("worker crashed")
    (line,) = json_lines(capsys)
    assert line["event"] == "worker crashed"
    assert "ValueError: invalid literal" in str(line["exception"])


def test_what_is_no_terminal_gets_json(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    structlog.get_logger().info("hello")
    assert json_lines(capsys)[0]["event"] == "hello"


def test_people_get_text(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up(json_format=False)
    with structlog.contextvars.bound_contextvars(pod="default/web"):
        structlog.get_logger().info("container started")
    text = capsys.readouterr().err
    assert "container started" in text
    assert "default/web" in text
    assert not text.startswith("{")


@pytest.mark.parametrize(("verbosity", "shown"), [(0, 0), (3, 0), (4, 1), (10, 1)])
def test_debug_lines_from_v_4_on(
    capsys: pytest.CaptureFixture[str], verbosity: int, shown: int
) -> None:
    log.set_up(verbosity=verbosity, json_format=True)
    structlog.get_logger().debug("detail")
    assert len(json_lines(capsys)) == shown


def test_libraries_speak_json_too(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up(json_format=True)
    logging.getLogger("asyncio").error("Task exception was %s", "never retrieved")
    logging.getLogger("asyncio").info("chatter")
    (line,) = json_lines(capsys)
    assert line["event"] == "Task exception was never retrieved"
    assert (line["level"], line["logger"]) == ("error", "asyncio")
