"""Options of a log request: what is read from the query, what is refused and how."""

import re
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.cli.client import Agent
from minikubelet.server.callables import LogRequest
from minikubelet.server.container_logs import log_request
from tests.unit.server.serving import Log, callables, serving

PATH = {"namespace": "default", "pod": "web-node1", "container": "app"}


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"follow": "true"}, {"follow": True}, id="follow"),
        pytest.param({"follow": ""}, {"follow": True}, id="a name alone means yes"),
        pytest.param({"follow": "0", "previous": "1"}, {"previous": True}, id="digits"),
        pytest.param({"timestamps": "True"}, {"timestamps": True}, id="capital"),
        pytest.param({"tailLines": "0"}, {"tail_lines": 0}, id="no lines"),
        pytest.param({"tailLines": "5", "limitBytes": "9"}, {"tail_lines": 5, "limit_bytes": 9}),
        pytest.param({"sinceSeconds": "10"}, {"since_seconds": 10}, id="since"),
        pytest.param({"sinceTime": "2026-01-02T03:04:05Z"}, {"since_time": "2026-01-02T03:04:05Z"}),
    ],
)
def test_options(query: dict[str, str], fields: dict[str, Any]) -> None:
    assert log_request(PATH, query) == LogRequest("default", "web-node1", "app", **fields)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"follow": "maybe"}, "follow: 'maybe' is neither true nor false"),
        ({"tailLines": "-1"}, "tailLines: '-1' is not a number of 0 or more"),
        ({"tailLines": "²"}, "tailLines: '²' is not a number of 0 or more"),
        ({"limitBytes": "0"}, "limitBytes: '0' is not a number of 1 or more"),
        ({"sinceSeconds": "0"}, "sinceSeconds: '0' is not a number of 1 or more"),
        ({"sinceTime": "yesterday"}, "sinceTime: 'yesterday' is no RFC 3339 time"),
        ({"sinceTime": "2026-01-02T03:04:05"}, "sinceTime: '2026-01-02T03:04:05' is no RFC 3339"),
        (
            {"sinceTime": "2026-01-02T03:04:05Z", "sinceSeconds": "1"},
            "sinceSeconds and sinceTime exclude each other",
        ),
    ],
)
def test_refused_options(query: dict[str, str], text: str) -> None:
    with pytest.raises(ValueError, match=re.escape(text)):
        log_request(PATH, query)


@pytest.mark.anyio
async def test_the_whole_way_of_an_answer(tmp_path: Path) -> None:
    log = Log([b"one\n", b"", b"two\n"])

    def ask(agent: Agent) -> bytes:
        with agent.stream("/containerLogs/default/web-node1/app", {"tailLines": "2"}) as pieces:
            return b"".join(pieces)

    async with serving(tmp_path, callables(log=log)) as agent:
        assert await anyio.to_thread.run_sync(ask, agent) == b"one\ntwo\n"
    assert log.requests == [LogRequest("default", "web-node1", "app", tail_lines=2)]
    assert log.closed.is_set()
