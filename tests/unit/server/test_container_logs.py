"""Options of a log request: what is read from the query, what is refused and how."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.cli.client import Agent
from minikubelet.server.callables import LogRequest, NotFound
from minikubelet.server.container_logs import Invalid, Undecodable, log_request
from tests.unit.server.serving import Log, answer, callables, serving

PATH = {"namespace": "default", "pod": "web-node1", "container": "app"}
TIME = "2026-01-02T03:04:05Z"
UNDECODABLE = '{"message": "Unable to decode query."}'
INVALID = '{"message": "Invalid request."}'


@pytest.mark.parametrize(
    ("query", "fields"),
    [
        pytest.param({}, {}, id="nothing"),
        pytest.param({"follow": "true"}, {"follow": True}, id="follow"),
        pytest.param({"follow": ""}, {"follow": True}, id="a name alone means yes"),
        pytest.param({"follow": "0", "previous": "1"}, {"previous": True}, id="digits"),
        pytest.param({"follow": "False"}, {}, id="capital no"),
        pytest.param({"timestamps": "maybe"}, {"timestamps": True}, id="any other word is a yes"),
        pytest.param({"tailLines": "0"}, {"tail_lines": 0}, id="no lines"),
        pytest.param({"tailLines": "5", "limitBytes": "9"}, {"tail_lines": 5, "limit_bytes": 9}),
        pytest.param({"tail": "7", "tailLines": "5"}, {"tail_lines": 7}, id="older name"),
        pytest.param({"tail": "all", "tailLines": "5"}, {}, id="older name, all"),
        pytest.param({"sinceSeconds": "10"}, {"since_seconds": 10}, id="since"),
        pytest.param({"sinceTime": TIME}, {"since_time": TIME}),
        pytest.param({"sinceTime": "null"}, {}, id="older clients' null"),
        pytest.param({"stream": "All", "tailLines": "1"}, {"stream": "All", "tail_lines": 1}),
        pytest.param({"stream": "Stdout"}, {"stream": "Stdout"}),
    ],
)
def test_options(query: dict[str, str], fields: dict[str, Any]) -> None:
    assert log_request(PATH, query) == LogRequest("default", "web-node1", "app", **fields)


@pytest.mark.parametrize(
    "query",
    [
        {"tailLines": ""},
        {"tailLines": "²"},
        {"tailLines": "1_0"},
        {"limitBytes": "9223372036854775808"},
        {"sinceSeconds": "1.5"},
        {"sinceTime": "yesterday"},
        {"sinceTime": "2026-01-02T03:04:05"},
        {"tailLines": "x", "limitBytes": "0"},
    ],
    ids=str,
)
def test_what_can_not_be_decoded(query: dict[str, str]) -> None:
    with pytest.raises(Undecodable, match=r"Unable to decode query\."):
        log_request(PATH, query)


@pytest.mark.parametrize(
    ("query", "text"),
    [
        ({"tailLines": "-1"}, "tailLines"),
        ({"limitBytes": "0"}, "limitBytes"),
        ({"sinceSeconds": "0"}, "sinceSeconds"),
        ({"sinceTime": TIME, "sinceSeconds": "1"}, "at most one"),
        ({"stream": "Both"}, "stream"),
        ({"stream": ""}, "stream"),
        ({"stream": "Stdout", "tailLines": "1"}, "mutually exclusive"),
    ],
    ids=str,
)
def test_what_makes_no_sense(query: dict[str, str], text: str) -> None:
    with pytest.raises(Invalid, match=text):
        log_request(PATH, query)


@pytest.mark.parametrize(
    ("missing", "text"),
    [
        ("pod", "Missing podID."),
        ("container", "Missing container name."),
        ("namespace", "Missing podNamespace."),
    ],
)
def test_an_empty_name(missing: str, text: str) -> None:
    with pytest.raises(Undecodable, match=text):
        log_request({**PATH, missing: ""}, {})


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("?tailLines=x&limitBytes=0", 400, UNDECODABLE),
        ("?limitBytes=0", 422, INVALID),
        ("", 404, 'pod "web" does not exist'),
    ],
)
async def test_the_order_of_refusals(tmp_path: Path, query: str, status: int, text: str) -> None:
    log = Log(refusal=NotFound('pod "web" does not exist'))
    async with serving(tmp_path, callables(log=log)) as agent:
        found = await answer(agent.socket_path, f"/containerLogs/default/web/app{query}")
        assert found == (status, text.encode())


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
