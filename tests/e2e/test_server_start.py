"""When the node's own port is opened: the agent's start with and without authentication."""

import socket

import anyio
import pytest

from tests.e2e.agent import Agent
from tests.e2e.test_server_port import port_of, prepare

pytestmark = pytest.mark.anyio


async def test_a_port_that_is_taken_ends_the_start_with_its_reason(agent: Agent) -> None:
    prepare(agent)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port_of(agent)))
        taken.listen()
        await agent.start()
        assert await agent.ended() == 1
    log = agent.log_file.read_text()
    assert f"cannot serve the kubelet API on 127.0.0.1 port {port_of(agent)}" in log
    assert "Traceback" not in log


async def test_without_authentication_no_port_is_opened(agent: Agent) -> None:
    await agent.start()
    assert agent._process is not None
    sockets = await anyio.run_process(["ss", "-tlnp"])
    assert f"pid={agent._process.pid},".encode() not in sockets.stdout
