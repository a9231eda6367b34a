"""Each prober against a real server on the loopback."""

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import grpc
import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from minikubelet.api.pod import Probe
from minikubelet.api.status import (
    ContainerState,
    ContainerStateRunning,
    ContainerStatus,
    PodStatus,
)
from minikubelet.api.timestamp import rfc3339
from minikubelet.cri.execs import Execs
from minikubelet.cri.fake import FakeRuntime
from minikubelet.host.clock import SystemClock
from minikubelet.lifecycle.probe_state import ProbeKind
from minikubelet.lifecycle.probes import Result
from minikubelet.observe.events import PodRef
from minikubelet.probes.attempt import Attempt, Outcome, ProbeError, Verdict
from minikubelet.probes.exec import ExecProber
from minikubelet.probes.manager import ProbeManager
from minikubelet.probes.prober import NodeProber
from minikubelet.probes.steps import drive
from tests.builders import a_container, a_pod, decoded_container
from tests.unit.probes.server import STAY, free_port, serving

pytestmark = pytest.mark.anyio

CONTAINER = decoded_container(ports=[{"name": "web", "containerPort": 8080}])
EMPTY = b"Content-Length: 0\r\n\r\n"
OK = b"HTTP/1.1 200 OK\r\n" + EMPTY
IP = "127.0.0.1"


async def probing(ip: str = IP, **fields: Any) -> Outcome:
    probe = msgspec.convert({"timeoutSeconds": 1} | fields, Probe)
    attempt = Attempt(a_pod(), CONTAINER, ProbeKind.LIVENESS, probe, "a", ip)
    prober = NodeProber(ExecProber(Execs(FakeRuntime()), lambda _pod, _id: ()))
    prepared = prober.prepare(attempt)
    with anyio.fail_after(10):
        if prepared.exchange is not None:
            return await drive(prepared.exchange(), attempt.timeout)
        assert prepared.run is not None
        return await prepared.run()


async def getting(port: int, **fields: Any) -> Outcome:
    return await probing(httpGet={"port": port} | fields)


def redirect(location: str, status: str = "302 Found") -> bytes:
    return f"HTTP/1.1 {status}\r\nLocation: {location}\r\n".encode() + EMPTY


# httpGet


async def test_what_is_sent() -> None:
    headers = [{"name": "X-A", "value": "1"}, {"name": "Connection", "value": "keep-alive"}]
    async with serving(OK) as server:
        outcome = await getting(server.port, path="/p?q=1", httpHeaders=headers)
    assert outcome.verdict is Verdict.SUCCESS
    assert server.asked[0].decode().split("\r\n") == [
        "GET /p?q=1 HTTP/1.1",
        f"Host: 127.0.0.1:{server.port}",
        "User-Agent: kube-probe/1.36",
        "X-A: 1",
        "Accept: */*",
        "Connection: close",
        "",
        "",
    ]


async def test_B40_a_bare_port_is_enough_and_an_error_is_a_failure() -> None:
    async with serving(OK) as server:
        assert (await getting(server.port)).verdict is Verdict.SUCCESS
        assert server.asked[0].startswith(b"GET / HTTP/1.1\r\n")
    port = await free_port()
    outcome = await getting(port)
    assert outcome.verdict is Verdict.FAILURE
    assert outcome.output == (
        f'Get "http://127.0.0.1:{port}/": dial tcp 127.0.0.1:{port}: connect: connection refused'
    )


@pytest.mark.parametrize("status", [200, 204, 299])
async def test_success(status: int) -> None:
    async with serving(f"HTTP/1.1 {status} x\r\n".encode() + EMPTY) as server:
        assert await getting(server.port) == Outcome(Verdict.SUCCESS)


@pytest.mark.parametrize("status", [400, 404, 500, 503, 199])
async def test_a_status_that_is_a_failure(status: int) -> None:
    reply = f"HTTP/1.1 {status} x\r\n".encode() + EMPTY
    async with serving(reply + (b"" if status >= 200 else b"HTTP/1.1 500 x\r\n" + EMPTY)) as server:
        outcome = await getting(server.port)
    told = status if status >= 200 else 500
    assert outcome.output == f"HTTP probe failed with statuscode: {told}"
    assert outcome.verdict is Verdict.FAILURE


@pytest.mark.parametrize("absolute", [False, True])
@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "307 Temporary", "308 Permanent"])
async def test_B38_headers_go_along_on_each_hop_to_the_same_host(
    status: str, absolute: bool
) -> None:
    headers = [{"name": "Host", "value": "x.example"}, {"name": "Authorization", "value": "me"}]
    async with serving(b"", OK) as server:
        prefix = f"http://127.0.0.1:{server.port}" if absolute else ""
        server.replies[0] = redirect(f"{prefix}/there?a=b", status)
        outcome = await getting(server.port, path="/here", httpHeaders=headers)
    assert outcome.verdict is Verdict.SUCCESS
    assert [asked.split(b" ")[1] for asked in server.asked] == [b"/here", b"/there?a=b"]
    for asked in server.asked:
        assert b"\r\nHost: x.example\r\n" in asked
        assert b"\r\nAuthorization: me\r\n" in asked


async def test_a_redirect_elsewhere_is_a_warning() -> None:
    reply = (
        b"HTTP/1.1 302 Found\r\nLocation: http://other.example/\r\nContent-Length: 4\r\n\r\nbody"
    )
    async with serving(reply) as server:
        outcome = await getting(server.port)
    assert outcome == Outcome(Verdict.WARNING, "Probe terminated redirects, Response body: body")


@pytest.mark.parametrize("reply", [b"HTTP/1.1 304 Same\r\n\r\n", b"HTTP/1.1 302 Found\r\n" + EMPTY])
async def test_a_redirect_to_nowhere_is_a_warning(reply: bytes) -> None:
    async with serving(reply) as server:
        assert (await getting(server.port)).verdict is Verdict.WARNING


async def test_too_many_redirects() -> None:
    async with serving(*[redirect("/")] * 12) as server:
        outcome = await getting(server.port)
    assert outcome.verdict is Verdict.FAILURE
    assert outcome.output.endswith("stopped after 10 redirects")
    assert len(server.asked) == 10


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        (b"", "EOF"),
        (
            b"hello\r\n",
            'net/http: HTTP/1.x transport connection broken: malformed HTTP response "hello"',
        ),
        (STAY, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
    ],
)
async def test_no_answer_is_a_failure(reply: bytes, text: str) -> None:
    async with serving(reply) as server:
        outcome = await getting(server.port)
    assert outcome.verdict is Verdict.FAILURE
    assert outcome.output == f'Get "http://127.0.0.1:{server.port}/": {text}'


@pytest.mark.parametrize("tail", [b"ab", b"ab" + STAY])
async def test_a_body_that_breaks_off_says_nothing(tail: bytes) -> None:
    async with serving(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n" + tail) as server:
        with pytest.raises(ProbeError) as caught:
            await getting(server.port)
    assert caught.value.state == "failure"


async def test_a_connection_that_is_reset_is_a_failure() -> None:
    with socket.socket() as listener:
        listener.bind((IP, 0))
        listener.listen()
        port = listener.getsockname()[1]

        def reset() -> None:
            accepted, _ = listener.accept()
            accepted.recv(1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            accepted.close()

        async with anyio.create_task_group() as group:
            group.start_soon(anyio.to_thread.run_sync, reset)
            outcome = await getting(port)
    assert outcome.output == (
        f'Get "http://127.0.0.1:{port}/": read tcp 127.0.0.1:{port}: connection reset by peer'
    )


async def test_a_named_port_and_what_is_none() -> None:
    with pytest.raises(ProbeError, match="couldn't find port: nope in container c"):
        await probing(httpGet={"port": "nope"})
    with pytest.raises(ProbeError, match="the pod has no IP"):
        await probing("", httpGet={"port": "web"})


async def test_the_environment_s_proxy_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{await free_port()}")
    async with serving(OK) as server:
        assert (await getting(server.port)).verdict is Verdict.SUCCESS


# HTTPS


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> ssl.SSLContext:
    """A certificate that nobody trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "nobody")])
    start = datetime(2020, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name)
    builder = builder.public_key(key.public_key()).serial_number(1)
    builder = builder.not_valid_before(start).not_valid_after(start.replace(year=2021))
    path: Path = tmp_path_factory.mktemp("tls") / "cert.pem"
    path.write_bytes(
        builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    return context


async def test_https_takes_any_certificate(tls: ssl.SSLContext) -> None:
    async with serving(OK, tls=tls) as server:
        outcome = await getting(server.port, scheme="HTTPS")
    assert outcome == Outcome(Verdict.SUCCESS)


async def test_a_long_answer_over_https(tls: ssl.SSLContext) -> None:
    body = b"HTTP/1.1 503 Sick\r\n\r\n" + b"x" * 100_000
    async with serving(body, tls=tls) as server:
        outcome = await getting(server.port, scheme="HTTPS")
    assert outcome.output == "HTTP probe failed with statuscode: 503"


async def test_plain_http_is_no_https() -> None:
    async with serving(b"HTTP/1.1 400 Bad Request\r\n" + EMPTY) as server:
        outcome = await getting(server.port, scheme="HTTPS")
    text = "http: server gave HTTP response to HTTPS client"
    assert outcome.output == f'Get "https://127.0.0.1:{server.port}/": {text}'


async def test_an_end_in_the_handshake_is_a_failure() -> None:
    async with serving(b"") as server:
        outcome = await getting(server.port, scheme="HTTPS")
    assert outcome == Outcome(Verdict.FAILURE, f'Get "https://127.0.0.1:{server.port}/": EOF')


# tcpSocket


async def test_an_open_port_gets_a_connection_and_no_byte() -> None:
    async with serving() as server:
        assert await probing(tcpSocket={"port": server.port}) == Outcome(Verdict.SUCCESS)
        with anyio.fail_after(5):
            await server.was_asked.wait()
    assert server.asked == [b""]


async def test_a_closed_port() -> None:
    port = await free_port()
    outcome = await probing(tcpSocket={"port": port})
    text = f"dial tcp 127.0.0.1:{port}: connect: connection refused"
    assert outcome == Outcome(Verdict.FAILURE, text)


async def test_a_port_that_does_not_answer() -> None:
    with socket.socket() as listener:
        listener.bind((IP, 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        with socket.create_connection((IP, port)):  # the queue of one is full
            outcome = await probing(tcpSocket={"port": port})
    text = f"dial tcp 127.0.0.1:{port}: i/o timeout"
    assert outcome == Outcome(Verdict.FAILURE, text)


async def test_a_name_instead_of_an_address() -> None:
    async with serving() as server:
        action = {"port": server.port, "host": "localhost"}
        assert (await probing(tcpSocket=action)).verdict is Verdict.SUCCESS
    outcome = await probing(tcpSocket={"port": 1, "host": "nobody.invalid"})
    assert outcome.output.startswith("dial tcp: lookup nobody.invalid: ")


async def test_no_socket_is_left_behind() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    async with serving(*[OK] * 20) as server:
        for _ in range(10):
            await getting(server.port)
            await probing(tcpSocket={"port": server.port})
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


# grpc


@contextmanager
def a_grpc_server(servicer: Any = None) -> Iterator[int]:
    with ThreadPoolExecutor(2) as pool:
        server = grpc.server(pool)
        if servicer is not None:
            health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        try:
            yield port
        finally:
            server.stop(0).wait()


@pytest.mark.parametrize(
    ("status", "output"),
    [
        ("SERVING", ""),
        ("NOT_SERVING", 'service unhealthy (responded with "NOT_SERVING")'),
        ("UNKNOWN", 'service unhealthy (responded with "UNKNOWN")'),
    ],
)
@pytest.mark.parametrize("service", ["", "mine", "x" * 300])
async def test_the_health_service_decides(service: str, status: str, output: str) -> None:
    servicer = health.HealthServicer()
    servicer.set(service, health_pb2.HealthCheckResponse.ServingStatus.Value(status))
    with a_grpc_server(servicer) as port:
        outcome = await probing(grpc={"port": port, "service": service})
    assert outcome.output == output
    assert (outcome.verdict is Verdict.SUCCESS) is (output == "")


async def test_a_service_that_is_not_known() -> None:
    with a_grpc_server(health.HealthServicer()) as port:
        outcome = await probing(grpc={"port": port, "service": "nope"})
    assert outcome.output.startswith(
        "error: health rpc probe failed: rpc error: code = NotFound desc = "
    )


async def test_a_server_without_health_service() -> None:
    with a_grpc_server() as port:
        outcome = await probing(grpc={"port": port})
    assert outcome.output == (
        "error: this server does not implement the grpc health protocol"
        " (grpc.health.v1.Health): Method not found!"
    )


async def test_nobody_speaks_grpc_there() -> None:
    port = await free_port()
    outcome = await probing(grpc={"port": port})
    assert outcome.output == (
        f'timeout: failed to connect service "127.0.0.1:{port}" within 1s:'
        " context deadline exceeded"
    )


class Slow(health_pb2_grpc.HealthServicer):  # type: ignore[misc]  # it has no types
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.go = threading.Event()

    def Check(self, request: Any, context: Any) -> Any:
        self.go.wait(5)
        return health_pb2.HealthCheckResponse()


async def test_an_answer_that_does_not_come() -> None:
    slow = Slow()
    with a_grpc_server(slow) as port:
        outcome = await probing(grpc={"port": port})
        slow.go.set()
    assert outcome.output == "timeout: health rpc did not complete within 1s"


async def test_a_probe_without_a_handler() -> None:
    with pytest.raises(ProbeError, match=r"missing probe handler for pod_default\(uid-1\):c"):
        await probing()


# all of them together


class Seen:
    """An event sink that remembers, and what a result changed."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.results = anyio.Event()

    def emit(self, ref: PodRef, type_: str, reason: str, message: str) -> None:
        self.events.append(message)

    def settled(self, uid: str) -> None:
        self.results.set()


async def test_the_manager_watches_the_time_of_an_exchange() -> None:
    seen = Seen()
    prober = NodeProber(ExecProber(Execs(FakeRuntime()), lambda _pod, _id: ()))
    manager = ProbeManager(prober, seen, SystemClock(), lambda: 0.0, seen.settled)
    async with serving(STAY, OK) as server, anyio.create_task_group() as group:
        await group.start(manager.run)
        readiness = {"httpGet": {"port": server.port}, "periodSeconds": 1, "failureThreshold": 1}
        pod = a_pod(a_container("main", readinessProbe=readiness | {"timeoutSeconds": 1}))
        results = manager.add(pod, PodStatus())
        now = rfc3339(SystemClock().wall_ns())
        running = ContainerState(running=ContainerStateRunning(started_at=now))
        main = ContainerStatus(name="main", container_id="x://a", started=True, state=running)
        manager.observe("uid-1", PodStatus(pod_ip=IP, container_statuses=(main,)), ())
        for expected in (Result.FAILURE, Result.SUCCESS):
            with anyio.fail_after(3):
                await seen.results.wait()
            seen.results = anyio.Event()
            assert results.readiness == {"a": expected}
        group.cancel_scope.cancel()
    text = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    get = f'Get "http://127.0.0.1:{server.port}/"'
    assert seen.events == [f"Readiness probe failed: {get}: {text}"]
