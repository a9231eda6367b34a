"""Probes of static pods on the real runtime, with no apiserver anywhere.

The agent's longest back-off is a second, so that restarts can be seen.
"""

import contextlib
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import grpc
import pytest
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell

pytestmark = pytest.mark.anyio

HTTPD = "mkdir /www; echo ok > /www/index.html; httpd -p 8080 -h /www; "
SCRATCH = {
    "volumes": [{"name": "d", "emptyDir": {}}],
}
MOUNT = {"volumeMounts": [{"name": "d", "mountPath": "/d"}]}
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
SICK = b"HTTP/1.1 503 Sick\r\nContent-Length: 0\r\n\r\n"


def prepare(agent: Agent) -> None:
    """Let nothing wait for longer than a second."""
    agent.settings["crashLoopBackOff"] = {"maxContainerRestartPeriod": "1s"}


def shell(script: str, **fields: Any) -> dict[str, Any]:
    """Return an exec probe that is made every second."""
    return {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 1} | fields


def file_is_there(path: str, **fields: Any) -> dict[str, Any]:
    return shell(f"test -f {path}", **fields)


def said(node: Agent, pod: str) -> str:
    """Return the lines of the agent's log about a pod: its events among them."""
    lines = node.log_file.read_text(errors="replace").splitlines()
    return "\n".join(line for line in lines if f"/{pod}-{node.node}" in line)


async def always(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    """Watch that something stays true for a while."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        assert await condition()
        await anyio.sleep(0.05)


async def test_every_kind_of_probe_without_an_apiserver(node: Agent) -> None:
    await node.run(
        "kinds",
        a_shell(
            "main",
            HTTPD + FOREVER,
            ports=[{"name": "web", "containerPort": 8080}],
            startupProbe=shell("test -f /www/index.html"),
            readinessProbe={"httpGet": {"port": "web"}, "periodSeconds": 1},
            livenessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        ),
    )
    status = await node.container_status("kinds", "main")
    assert (status["started"], status["ready"], status["restartCount"]) == (True, True, 0)
    await always(lambda: node.is_ready("kinds"), 3)
    assert "Unhealthy" not in said(node, "kinds")


async def test_B39_probes_need_nothing_in_the_image(node: Agent) -> None:
    """The only program there is the server: every other name of busybox is taken away."""
    bare = "cp /bin/busybox /httpd; rm -r /bin; exec /httpd -f -p 8080 -h /www"
    await node.run(
        "bare",
        a_shell(
            "main",
            f"mkdir /www; echo ok > /www/index.html; {bare}",
            readinessProbe={"httpGet": {"port": 8080}, "periodSeconds": 1},
            livenessProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1},
            startupProbe={"tcpSocket": {"port": 8080}, "periodSeconds": 1},
        ),
    )
    await always(lambda: node.is_ready("bare"), 2)


async def test_B40_defaults_and_an_error_is_a_failure(node: Agent) -> None:
    def probed(name: str, port: int) -> dict[str, Any]:
        probe = {"httpGet": {"port": port}, "periodSeconds": 1}
        return a_shell(name, HTTPD + FOREVER, readinessProbe=probe)

    node.write("good.yaml", a_manifest("good", probed("main", 8080)))
    node.write("refused.yaml", a_manifest("refused", probed("main", 8081)))
    await node.wait_until("the one with a server is ready", lambda: node.is_ready("good"))
    await node.wait_until("the failure is told", lambda: "Unhealthy" in said(node, "refused"))
    ip = (await node.status("refused"))["podIP"]
    text = f'Readiness probe failed: Get \\"http://{ip}:8081/\\": dial tcp {ip}:8081: '
    assert f"{text}connect: connection refused" in said(node, "refused")
    assert not await node.is_ready("refused")


async def test_a_startup_probe_holds_the_others_and_the_next_container(node: Agent) -> None:
    node.write(
        "gated.yaml",
        a_manifest(
            "gated",
            a_shell("main", f"ls /d; {FOREVER}", **MOUNT),
            initContainers=[
                a_shell(
                    "side",
                    f"sleep 2; touch /d/up; {FOREVER}",
                    restartPolicy="Always",
                    startupProbe=file_is_there("/d/up", failureThreshold=30),
                    livenessProbe=file_is_there("/d/up", failureThreshold=1),
                    **MOUNT,
                )
            ],
            **SCRATCH,
        ),
    )
    await node.wait_until("the pod is ready", lambda: node.is_ready("gated"))
    assert await node.said("gated", "main") == "up\n"
    assert await node.restarts("gated", "side") == 0


async def test_B35_failures_of_a_dead_container_are_not_held_against_the_next(
    node: Agent,
) -> None:
    """Its second life is slow to come up: two failures that count anew don't reach three."""
    script = "if test -f /d/again; then sleep 2.2; touch /up; else touch /d/again; fi;" + FOREVER
    liveness = file_is_there("/up", failureThreshold=3)
    await node.run("counts", a_shell("main", script, livenessProbe=liveness, **MOUNT), **SCRATCH)
    await node.wait_until("it is restarted once", lambda: node.restarted("counts"))

    async def not_again() -> bool:
        return await node.restarts("counts") == 1

    await always(not_again, 6)


async def test_B36_a_new_container_is_not_started_before_its_startup_probe(node: Agent) -> None:
    script = f"sleep 2; touch /up; sleep 3; test -f /d/again || rm -f /alive; {FOREVER}"
    container = a_shell(
        "main",
        f"touch /alive; {script}",
        startupProbe=file_is_there("/up", failureThreshold=30),
        livenessProbe=shell("test -f /up || touch /early; test -f /alive || ! touch /d/again"),
        **MOUNT,
    )
    await node.run("anew", container, **SCRATCH)
    first = (await node.container_status("anew", "main"))["containerID"]
    seen: list[tuple[bool, bool]] = []

    async def second_is_ready() -> bool:
        status = await node.container_status("anew", "main")
        if status["containerID"] != first and "running" in status["state"]:
            seen.append((status["started"], status["ready"]))
        return (True, True) in seen

    await node.wait_until("the second container is ready", second_is_ready)
    assert seen[0] == (False, False)
    assert set(seen) == {(False, False), (True, True)}
    # The liveness probe came after the startup probe.
    assert await node.exec("anew", "main", "test -f /early && echo asked too early") == ""
    assert await node.restarts("anew") == 1


def running_commands(number: int) -> list[int]:
    """Return the pids of `sleep NUMBER` on the machine."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                if (entry / "cmdline").read_bytes().endswith(b"sleep\0%d\0" % number):
                    found.append(int(entry.name))
    return found


@pytest.mark.parametrize(
    ("number", "script"),
    [
        pytest.param(9101, "exec sleep {}", id="the command itself"),
        pytest.param(9102, "sleep {} & wait", id="a child"),
        pytest.param(9103, "setsid sleep {} & wait", id="a child in a session of its own"),
        pytest.param(9104, "sleep {} & exit 0", id="a child that holds the pipes"),
        pytest.param(9105, "(setsid sleep {} &); sleep 77", id="a child that went away"),
    ],
)
async def test_B37_a_timed_out_probe_leaves_nothing(node: Agent, number: int, script: str) -> None:
    name = f"timeout-{number}"
    daemon = "setsid sleep 55 > /dev/null 2>&1 &"
    probe = shell(script.format(number), timeoutSeconds=1)
    other = shell("true", timeoutSeconds=1)
    container = a_shell("main", daemon + FOREVER, readinessProbe=probe, livenessProbe=other)
    node.write(f"{name}.yaml", a_manifest(name, container))
    text = "timed out after 1s"

    def told() -> bool:
        return text in said(node, name)

    await node.wait_until("the time-out is told", told)
    counts, lives = [], Counter[int]()
    for _ in range(60):
        pids = running_commands(number)
        counts.append(len(pids))
        lives.update(pids)
        await anyio.sleep(0.1)
    # One probe at a time: its own command, and what is just being killed. The next one follows at
    # once, so there may be no moment without any; but none of them stays.
    assert max(counts) <= 2, counts
    assert max(lives.values(), default=0) < 40, lives
    assert not await node.is_ready(name)
    assert "sleep 55" in await node.exec(name, "main", "ps")
    assert await node.restarts(name) == 0


async def test_a_probe_s_own_grace_counts(node: Agent) -> None:
    stubborn = "trap '' TERM; while :; do sleep 0.1; done"
    liveness = shell("false", failureThreshold=1, terminationGracePeriodSeconds=1)
    container = a_shell("main", stubborn, livenessProbe=liveness)
    node.write("grace.yaml", a_manifest("grace", container, terminationGracePeriodSeconds=300))
    await node.wait_until("it is restarted", lambda: node.restarted("grace"), 15)
    assert "Container main failed liveness probe, will be restarted" in said(node, "grace")


class Server:
    """Answers each probe with `answer`, and says when it was asked."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.answer = SICK
        self.answered_at = 0.0
        self.requests: list[bytes] = []

    async def handle(self, stream: anyio.abc.SocketStream) -> None:
        async with stream:
            self.requests.append(await stream.receive())
            answer = self.answer
            await stream.send(answer)
            if answer is OK and not self.answered_at:
                self.answered_at = time.monotonic()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        found = Server(listener.extra(anyio.abc.SocketAttribute.local_port))  # noqa: S610  not Django's
        async with anyio.create_task_group() as group:
            group.start_soon(listener.serve, found.handle)
            yield found
            group.cancel_scope.cancel()


async def test_a_result_reaches_the_status_within_100_ms(node: Agent, server: Server) -> None:
    probe = {
        "httpGet": {"host": "127.0.0.1", "port": server.port},
        "periodSeconds": 1,
        "failureThreshold": 1,
    }
    node.write("quick.yaml", a_manifest("quick", a_shell("main", FOREVER, readinessProbe=probe)))
    await node.wait_until("it is asked", lambda: len(server.requests) >= 2)

    async def is_unready() -> bool:
        return not await node.is_ready("quick")

    delays = []
    for _ in range(3):
        await node.wait_until("it is not ready", is_unready)
        server.answered_at = 0.0
        server.answer = OK
        await node.wait_until("it is ready", lambda: node.is_ready("quick"))
        # Seen by a poll every 20 ms, which a busy machine may hold up.
        delays.append(time.monotonic() - server.answered_at)
        server.answer = SICK
    assert min(delays) < 0.15, delays
    sent = server.requests[0].decode()
    assert re.search(r"^User-Agent: kube-probe/1\.36\r$", sent, re.MULTILINE)


@contextlib.contextmanager
def a_health_service() -> Iterator[tuple[int, health.HealthServicer]]:
    servicer = health.HealthServicer()
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        port = server.add_insecure_port("[::]:0")
        server.start()
        try:
            yield port, servicer
        finally:
            server.stop(0).wait()


async def test_grpc_probes(node: Agent) -> None:
    with a_health_service() as (port, servicer):
        servicer.set("mine", health_pb2.HealthCheckResponse.NOT_SERVING)
        probe = {"grpc": {"port": port, "service": "mine"}, "periodSeconds": 1}
        container = a_shell("main", FOREVER, readinessProbe=probe)
        node.write("grpc.yaml", a_manifest("grpc", container, hostNetwork=True))
        text = "service unhealthy (responded with "
        await node.wait_until("it is unwell", lambda: text in said(node, "grpc"))
        servicer.set("mine", health_pb2.HealthCheckResponse.SERVING)
        await node.wait_until("it is ready", lambda: node.is_ready("grpc"))


async def test_a_closed_port_of_the_pod_makes_it_unready(node: Agent) -> None:
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1, "failureThreshold": 2}
    await node.run("closing", a_shell("main", HTTPD + FOREVER, readinessProbe=probe))
    await node.exec("closing", "main", "killall httpd")

    async def unready() -> bool:
        return not await node.is_ready("closing")

    await node.wait_until("it is not ready any more", unready)
    assert await node.restarts("closing") == 0
    assert "i/o timeout" not in said(node, "closing")
