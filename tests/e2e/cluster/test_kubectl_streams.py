"""What people do with kubectl in a pod: streams through the apiserver and the node's own port."""

import hashlib
import os
import pty
import random
import re
import signal
import socket
import struct
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.to_thread
import pytest

from tests.containerds import BUSYBOX
from tests.e2e.agent import FOREVER, a_manifest, a_shell
from tests.e2e.workers import Worker

pytestmark = pytest.mark.anyio

SPDY = {"KUBECTL_REMOTE_COMMAND_WEBSOCKETS": "false", "KUBECTL_PORT_FORWARD_WEBSOCKETS": "false"}
WAYS = pytest.mark.parametrize(
    "variables", [pytest.param({}, id="websocket"), pytest.param(SPDY, id="spdy")]
)
MEBIBYTE = 1 << 20


async def run(
    worker: Worker, variables: dict[str, str], *arguments: str, stdin: bytes = b""
) -> "subprocess.CompletedProcess[bytes]":
    """Run kubectl with more environment variables."""
    return await anyio.to_thread.run_sync(
        lambda: subprocess.run(
            worker.kubectl_argv(*arguments),
            input=stdin,
            capture_output=True,
            check=False,
            timeout=60,
            env={**os.environ, **variables},
        )
    )


async def on_terminal(worker: Worker, *arguments: str, typed: bytes) -> tuple[str, int]:
    """Run kubectl on a terminal, type as soon as it shows a prompt; return what it showed."""
    return await anyio.to_thread.run_sync(_on_terminal, worker.kubectl_argv(*arguments), typed)


def _on_terminal(argv: list[str], typed: bytes) -> tuple[str, int]:
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvp(argv[0], argv)  # noqa: S606  kubectl itself, on the terminal
    shown, until = b"", time.monotonic() + 40
    os.set_blocking(terminal, False)
    while time.monotonic() < until:
        try:
            data = os.read(terminal, 4096)
        except BlockingIOError:
            time.sleep(0.02)
            continue
        except OSError:  # the other side is closed: it has ended
            break
        shown += data
        if typed and b"# " in shown:
            os.write(terminal, typed)
            typed = b""
    else:
        os.kill(pid, signal.SIGKILL)
    os.close(terminal)
    _, status = os.waitpid(pid, 0)
    return shown.decode(errors="replace"), os.waitstatus_to_exitcode(status)


# exec and attach


@WAYS
async def test_exec(worker: Worker, variables: dict[str, str]) -> None:
    """Input to its end, both outputs, exit codes; a megabyte passes unharmed."""
    await worker.run_pod(a_manifest("tool", a_shell("main", FOREVER)))
    command = ("exec", "-i", "tool", "--", "sh", "-c")
    data = random.Random(1).randbytes(MEBIBYTE)  # noqa: S311  any bytes will do
    done = await run(worker, variables, *command, "cat; echo oops >&2; exit 7", stdin=data)
    assert done.stdout == data
    assert done.returncode == 7
    assert b"oops\n" in done.stderr
    assert b"command terminated with exit code 7" in done.stderr
    # Without -i nothing is read, and the command ends by itself.
    done = await run(worker, variables, "exec", "tool", "--", "echo", "x y")
    assert (done.stdout, done.returncode) == (b"x y\n", 0)
    done = await run(worker, variables, "exec", "tool", "--", "no-such-command")
    assert done.returncode not in (0, 7)
    assert b"no-such-command" in done.stderr
    done = await run(worker, variables, "exec", "tool", "-c", "nope", "--", "true")
    assert b"nope" in done.stderr
    assert done.returncode == 1


async def test_exec_on_a_terminal(worker: Worker) -> None:
    await worker.run_pod(a_manifest("tool", a_shell("main", FOREVER)))
    typed = b"test -t 0 && test -t 1 && echo a $((40+2)) terminal; exit 5\n"
    shown, code = await on_terminal(worker, "exec", "-it", "tool", "--", "sh", typed=typed)
    assert "a 42 terminal" in shown
    assert code == 5, shown


@WAYS
async def test_attach(worker: Worker, variables: dict[str, str]) -> None:
    script = "while read word; do echo got $word; done; echo end; exec sleep 1000"
    await worker.run_pod(a_manifest("listens", a_shell("main", script, stdin=True, stdinOnce=True)))
    argv = worker.kubectl_argv("attach", "-i", "listens")
    environment = {**os.environ, **variables}

    def attached() -> bytes:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        assert process.stdin is not None
        assert process.stdout is not None
        with process:
            # What is written before both sides are attached may be lost: ask until it answers.
            os.set_blocking(process.stdout.fileno(), False)
            shown = b""
            until = time.monotonic() + 30
            while b"got hello\n" not in shown and time.monotonic() < until:
                process.stdin.write(b"hello\n")
                process.stdin.flush()
                time.sleep(0.2)
                shown += process.stdout.read() or b""
            process.stdin.close()
            while b"end\n" not in shown and time.monotonic() < until:
                time.sleep(0.05)
                shown += process.stdout.read() or b""
            process.kill()
        return shown

    shown = await anyio.to_thread.run_sync(attached)
    assert b"got hello\n" in shown
    assert shown.endswith(b"end\n")


async def test_copies_of_200_megabytes(worker: Worker) -> None:
    """There and back again: the same checksum."""
    await worker.run_pod(a_manifest("store", a_shell("main", FOREVER)))
    source, back = worker.folder / "source.bin", worker.folder / "back.bin"
    block = random.Random(2).randbytes(8 * MEBIBYTE)  # noqa: S311  any bytes will do
    digest = hashlib.sha256()
    with source.open("wb") as file:
        for number in range(25):
            piece = number.to_bytes(8, "big") + block[8:]
            file.write(piece)
            digest.update(piece)
    await worker.kubectl_done("cp", str(source), "store:/root/there.bin", seconds=100)
    told = await worker.kubectl("exec", "store", "--", "sha256sum", "/root/there.bin")
    assert told.split()[0] == digest.hexdigest()
    await worker.kubectl_done("cp", "store:/root/there.bin", str(back), seconds=100)
    with back.open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest.hexdigest()
    source.unlink()
    back.unlink()


# port-forward


@asynccontextmanager
async def forwarded(
    worker: Worker, pod: str, *ports: int, **variables: str
) -> AsyncIterator[list[int]]:
    """Run `kubectl port-forward`; yield the local ports."""
    argv = worker.kubectl_argv("port-forward", f"pod/{pod}", *(f":{port}" for port in ports))
    log = worker.folder / f"forward-{pod}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220  quick, and outlives this call
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **variables},
        )
    try:

        def found() -> dict[str, str]:
            lines = re.findall(r"127\.0\.0\.1:(\d+) -> (\d+)", log.read_text())
            return {remote: local for local, remote in lines}

        await worker.wait_until("it listens", lambda: len(found()) == len(ports))
        yield [int(found()[str(port)]) for port in ports]
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()


@WAYS
async def test_fifty_forwarded_connections_at_once(
    worker: Worker, variables: dict[str, str]
) -> None:
    """All open before the first asks; each gets a megabyte."""
    serve = "mkdir /www; dd if=/dev/urandom of=/www/m bs=1M count=1; httpd -f -p 8080 -h /www"
    await worker.run_pod(a_manifest("web", a_shell("main", serve)))
    digest = (await worker.kubectl("exec", "web", "--", "sha256sum", "/www/m")).split()[0]
    got: list[str] = []
    async with forwarded(worker, "web", 8080, **variables) as (port,):
        ready = anyio.Semaphore(0)
        go = anyio.Event()

        async def ask() -> None:
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(b"GET /m HTTP/1.0\r\n")
                ready.release()
                await go.wait()
                await stream.send(b"\r\n")
                answer = b""
                with_end = True
                while with_end:
                    try:
                        answer += await stream.receive()
                    except anyio.EndOfStream:
                        with_end = False
            head, _, body = answer.partition(b"\r\n\r\n")
            assert b" 200 " in head, head
            got.append(hashlib.sha256(body).hexdigest())

        async with anyio.create_task_group() as group:
            for _ in range(50):
                group.start_soon(ask)
                # Only nine may wait for busybox's httpd to accept them; under load the kernel
                # forgets the others.
                await anyio.sleep(0.03)
            for _ in range(50):
                await ready.acquire()
            go.set()
    assert got == [digest] * 50


async def test_B58_a_reset_ends_its_own_connection_only(worker: Worker) -> None:
    echo = a_shell("echo", "nc -ll -p 8080 -e cat")
    await worker.run_pod(a_manifest("echo", echo))
    async with forwarded(worker, "echo", 8080) as (port,):
        async with await anyio.connect_tcp("127.0.0.1", port) as kept:
            await kept.send(b"one")
            assert await kept.receive() == b"one"
            with socket.create_connection(("127.0.0.1", port)) as rude:
                rude.sendall(b"x")
                assert await anyio.to_thread.run_sync(rude.recv, 1) == b"x"
                # Closed with a reset instead of an end.
                rude.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            await kept.send(b"two")
            assert await kept.receive() == b"two"
        async with await anyio.connect_tcp("127.0.0.1", port) as another:
            await another.send(b"three")
            assert await another.receive() == b"three"


async def test_a_closed_port_says_so(worker: Worker) -> None:
    await worker.run_pod(a_manifest("mute", a_shell("main", FOREVER)))
    async with await anyio.open_process(
        worker.kubectl_argv("port-forward", "pod/mute", ":9999"), stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        line = (await process.stdout.receive()).decode()
        port = int(line.partition("127.0.0.1:")[2].partition(" ")[0])
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        error = (await process.stderr.receive()).decode()
        process.kill()
    assert "9999" in error
    assert "connection refused" in error.lower()


# debug and run


async def test_debug_beside_a_running_container(worker: Worker) -> None:
    """An ephemeral container sees the processes of its target, on a terminal, and is told of."""
    await worker.run_pod(a_manifest("web", a_shell("main", "exec sleep 4321")))
    arguments = ("debug", "web", f"--image={BUSYBOX}", "--target=main", "-c", "helper", "-it")
    typed = b"ps | grep '[s]leep 4321' && echo seen $((40+2)); exit 3\n"
    shown, _ = await on_terminal(worker, *arguments, "--", "sh", typed=typed)
    assert "seen 42" in shown, shown

    async def ended() -> bool:
        found = (await worker.told("web")).get("ephemeralContainerStatuses", [])
        return bool(found and found[0]["state"].get("terminated", {}).get("exitCode") == 3)

    await worker.wait_until("its end is told", ended)
    (status,) = (await worker.told("web"))["ephemeralContainerStatuses"]
    assert (status["name"], status["restartCount"]) == ("helper", 0)
    assert (await worker.told("web"))["containerStatuses"][0]["restartCount"] == 0

    async def named() -> bool:
        fields = {event["involvedObject"].get("fieldPath") for event in await worker.events("web")}
        return "spec.ephemeralContainers{helper}" in fields

    await worker.wait_until("events name the field", named)
    await worker.wait_until("the pod is ready", lambda: worker.pod_is_ready("web"))


async def test_B27_an_ephemeral_container_is_never_made_again(worker: Worker) -> None:
    """Removed by hand in the runtime it stays away, and its last word stays."""
    await worker.run_pod(a_manifest("web", a_shell("main", FOREVER)))
    arguments = ("debug", "web", f"--image={BUSYBOX}", "-c", "helper")
    await worker.kubectl(*arguments, "--", "sh", "-c", FOREVER)

    async def state() -> dict[str, Any]:
        found = (await worker.told("web")).get("ephemeralContainerStatuses", [])
        return dict(found[0]["state"]) if found else {}

    async def runs() -> bool:
        return "running" in await state()

    await worker.wait_until("the helper runs", runs)
    (container,) = await worker.containers("web", "helper")
    await worker.client.runtime.stop_container(container.id, 0)
    await worker.client.runtime.remove_container(container.id)

    async def ended() -> bool:
        return "terminated" in await state()

    await worker.wait_until("its end is told", ended)
    first = await state()
    # A change of the pod makes the agent think about all of it again, so does its restart.
    await worker.kubectl("label", "pod", "web", "look=again")
    worker.kill()
    await worker.start()
    await worker.kubectl("exec", "web", "-c", "main", "--", "kill", "1", check=False)

    async def restarted() -> bool:
        return await worker.told_restarts("web") == 1

    await worker.wait_until("main was restarted", restarted)
    assert await worker.containers("web", "helper") == []
    assert await state() == first


async def test_run_and_remove_on_a_terminal(worker: Worker) -> None:
    arguments = ("run", "once", f"--image={BUSYBOX}", "--restart=Never", "--rm", "-it")
    typed = b"echo a $((40+2)) terminal; exit\n"
    shown, code = await on_terminal(
        worker, *arguments, "--image-pull-policy=IfNotPresent", "--", "sh", typed=typed
    )
    assert "a 42 terminal" in shown
    assert 'pod "once" deleted' in shown
    assert code == 0
    await worker.pod_gone("once")
