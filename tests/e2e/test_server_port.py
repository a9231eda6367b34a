"""The node's own port, seen from outside: an agent with a client CA and no apiserver to ask."""

import json
import socket
import ssl
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import aiohttp
import anyio
import pytest
from cryptography import x509

from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell
from tests.unit.server.pki import Authority
from tests.websockets import STDERR, STDIN, STDOUT, channels, exit_code

pytestmark = pytest.mark.anyio

CLIENT = ("kube-apiserver-kubelet-client", "system:masters")
ECHO = "nc -ll -p 8080 -e cat"


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


class Door:
    """The way to an agent's port."""

    def __init__(self, agent: Agent) -> None:
        self.authority = Authority(agent.folder)
        self.pair = self.authority.sign(*CLIENT)
        self.port = _free_port()
        self.certificate = agent.folder / "pki" / "kubelet.crt"

    @asynccontextmanager
    async def session(self, *, known: bool = True) -> AsyncIterator[aiohttp.ClientSession]:
        context = ssl.create_default_context(cafile=str(self.certificate))
        context.check_hostname = False  # by address here; the name has its own test
        if known:
            context.load_cert_chain(self.pair.cert, self.pair.key)
        connector = aiohttp.TCPConnector(ssl=context)
        url = f"https://127.0.0.1:{self.port}"
        async with aiohttp.ClientSession(url, connector=connector) as session:
            yield session

    async def answer(self, method: str, path: str, *, known: bool = True) -> tuple[int, str]:
        async with (
            self.session(known=known) as session,
            session.request(method, path) as reply,
        ):
            return reply.status, await reply.text()


_DOORS: dict[Path, Door] = {}


def port_of(agent: Agent) -> int:
    """Return the port that `prepare` gave an agent."""
    return _DOORS[agent.folder].port


def prepare(agent: Agent) -> None:
    """Give the agent a port on loopback, for whoever has a certificate of its CA."""
    door = _DOORS[agent.folder] = Door(agent)
    agent.settings = {
        "address": "127.0.0.1",
        "port": door.port,
        "authentication": {
            "webhook": {"enabled": False},
            "x509": {"clientCAFile": str(door.authority.file)},
        },
        "authorization": {"mode": "AlwaysAllow"},
    }
    agent.flags = [f"--cert-dir={agent.folder}/pki"]


@pytest.fixture
def door(node: Agent) -> Door:
    return _DOORS[node.folder]


def command_of(script: str, **streams: str) -> str:
    query = [("command", "/bin/sh"), ("command", "-c"), ("command", script), *streams.items()]
    return urlencode(query)


async def test_who_gets_in(door: Door) -> None:
    assert await door.answer("GET", "/healthz") == (200, "ok")
    assert await door.answer("GET", "/healthz", known=False) == (401, "Unauthorized")


async def test_its_certificate_names_the_node(node: Agent, door: Door) -> None:
    first, _ = x509.load_pem_x509_certificates(door.certificate.read_bytes())
    names = first.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [node.node]
    assert names.get_values_for_type(x509.IPAddress)


async def test_configz_is_the_whole_configuration(node: Agent, door: Door) -> None:
    status, text = await door.answer("GET", "/configz")
    shown = json.loads(text)["kubeletconfig"]
    assert (status, shown["kind"]) == (200, "KubeletConfiguration")
    assert shown["port"] == door.port
    assert shown["staticPodPath"] == str(node.manifests)
    assert shown["maxPods"] == 110


async def test_pods_and_what_runs(node: Agent, door: Door) -> None:
    await node.run("listed", a_shell("main", FOREVER))
    pods = json.loads((await door.answer("GET", "/pods"))[1])
    assert f"listed-{node.node}" in [pod["metadata"]["name"] for pod in pods["items"]]
    running = json.loads((await door.answer("GET", "/runningpods/"))[1])
    (pod,) = [each for each in running["items"] if each["metadata"]["name"].startswith("listed-")]
    assert [each["name"] for each in pod["spec"]["containers"]] == ["main"]


async def test_B57_a_command_ends_with_its_process(node: Agent, door: Door) -> None:
    await node.run("background", a_shell("main", FOREVER))
    path = f"/run/default/background-{node.node}/main?"
    query = urlencode({"cmd": "sh -c echo${IFS}out;echo${IFS}err>&2"})
    assert await door.answer("POST", path + query) == (200, "out\nerr\n")
    began = time.monotonic()
    # What was written goes with the pipes that the child keeps: CRI tells it at their end only.
    query = urlencode({"cmd": "sh -c sleep${IFS}999&"})
    assert await door.answer("POST", path + query) == (200, "")
    assert time.monotonic() - began < 10
    status, text = await door.answer("POST", path + urlencode({"cmd": "ls /nope"}))
    assert status == 500
    assert text.startswith("command 'ls /nope' exited with 1: ls: /nope: No such file")


async def test_B56_a_follower_hears_everything_over_rotations(node: Agent, door: Door) -> None:
    script = "i=0; while [ $i -lt 400 ]; do echo line $i; i=$((i+1)); sleep 0.01; done"
    node.write("counter.yaml", a_counter(script))
    await node.wait_until("it counts", lambda: counts(node))
    container = (await node.containers("counter"))[-1]
    path = (await node.client.runtime.container_status(container.id)).log_path

    async def rotate() -> None:
        for number in range(3):
            await anyio.sleep(0.8)
            await anyio.Path(path).rename(f"{path}.{number}")
            await node.client.runtime.reopen_container_log(container.id)

    url = f"/containerLogs/default/counter-{node.node}/main?follow=true"
    async with (
        door.session() as session,
        anyio.create_task_group() as group,
        session.get(url) as reply,
    ):
        assert reply.status == 200
        group.start_soon(rotate)
        text = await reply.text()
    assert text.splitlines() == [f"line {number}" for number in range(400)]


def a_counter(script: str) -> dict[str, Any]:
    return a_manifest("counter", a_shell("main", script), restartPolicy="Never")


async def counts(node: Agent) -> bool:
    return await node.output("counter", "main") != ""


class TestStreams:
    async def test_exec_with_stdin_output_and_exit_code(self, node: Agent, door: Door) -> None:
        await node.run("commands", a_shell("main", FOREVER))
        pod = f"/exec/default/commands-{node.node}/main?"
        query = command_of(
            "read word; echo got $word; echo oops >&2; exit 7", input="1", output="1", error="1"
        )
        async with door.session() as session, channels(session, pod + query) as command:
            await command.send(STDIN, b"hello\n")
            assert exit_code(await command.status()) == 7
            assert command.received[STDOUT] == b"got hello\n"
            assert command.received[STDERR] == b"oops\n"

    async def test_exec_with_a_terminal(self, node: Agent, door: Door) -> None:
        await node.run("terminal", a_shell("main", FOREVER))
        uid = (await node.pods())["terminal"]["metadata"]["uid"]
        pod = f"/exec/default/terminal-{node.node}/{uid}/main?"
        # containerd may lose what a terminal's process writes before it is asked something.
        script = "read word; test -t 1 && echo a $word; read word"
        query = command_of(script, input="1", output="1", tty="1")
        async with door.session() as session, channels(session, pod + query) as command:
            await command.send(STDIN, b"terminal\n")
            expected = b"terminal\r\na terminal\r\n"  # what is typed is echoed
            assert await command.until(STDOUT, len(expected)) == expected
            await command.send(STDIN, b"\n")
            assert exit_code(await command.status()) == 0

    @pytest.mark.parametrize(
        ("path", "status", "text"),
        [
            ("nope/main", 404, "pod does not exist"),
            ("commands2-shared/nope", 500, 'container not found ("nope")'),
        ],
    )
    async def test_exec_refused(
        self, node: Agent, door: Door, path: str, status: int, text: str
    ) -> None:
        await node.run("commands2", a_shell("main", FOREVER))
        url = f"/exec/default/{path}?command=true&output=1"
        assert await door.answer("POST", url) == (status, text)

    async def test_attach(self, node: Agent, door: Door) -> None:
        script = "while read word; do echo got $word; done; exec sleep 1000"
        await node.run("attached", a_shell("main", script, stdin=True))
        url = f"/attach/default/attached-{node.node}/main?input=1&output=1"
        async with door.session() as session, channels(session, url) as attached:
            await attached.send(STDIN, b"hello\n")
            assert await attached.until(STDOUT, 10) == b"got hello\n"

    async def test_B58_a_reset_in_the_pod_ends_its_stream_only(
        self, node: Agent, door: Door
    ) -> None:
        # It goes away without reading what was sent to it: the kernel answers with a reset.
        rude = "nc -ll -p 9001 -e true"
        await node.run("forwarded", a_shell("echo", ECHO), a_shell("rude", rude))
        url = f"/portForward/default/forwarded-{node.node}?port=9001&port=8080"
        async with door.session() as session, channels(session, url) as forwarded:
            await forwarded.send(0, b"x" * 100_000)
            await forwarded.send(2, b"one")
            assert (await forwarded.until(2, 5))[2:] == b"one"
            await anyio.sleep(0.5)
            await forwarded.send(2, b"two")
            assert (await forwarded.until(2, 8))[5:] == b"two"

    async def test_clients_that_vanish_leave_no_connection(self, node: Agent, door: Door) -> None:
        await node.run("vanished", a_shell("main", FOREVER))
        before = open_files(node)
        pod = f"/exec/default/vanished-{node.node}/main?"
        query = command_of("cat", input="1", output="1")
        for _ in range(5):
            async with door.session() as session, channels(session, pod + query) as command:
                await command.send(STDIN, b"x")
                await command.until(STDOUT, 1)
                assert open_files(node) > before
                command.drop()
        await node.wait_until("nothing is open any more", lambda: open_files(node) <= before, 10)


def open_files(node: Agent) -> int:
    """The number of files and connections that the agent has open."""
    assert node._process is not None
    return len(list(Path(f"/proc/{node._process.pid}/fd").iterdir()))
