"""Which container or sandbox a request for streams reaches, and what it hears otherwise."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from minikubelet.agent.streams import StreamFinder, refused, running_pod_list
from minikubelet.agent.views import find_pod
from minikubelet.cri import messages as m
from minikubelet.cri.errors import CRIError
from minikubelet.cri.execs import Execs
from minikubelet.cri.fake import Exec, FakeRuntime, Program
from minikubelet.cri.fake_script import Ticket
from minikubelet.cri.services import Streams
from minikubelet.server.callables import Refused, Target
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import Node, a_node, eventually

pytestmark = pytest.mark.anyio

OUT = Streams(stdout=True)
APP = Target("default", "pod", "app")


@asynccontextmanager
async def running(folder: Path, **programs: Program) -> AsyncIterator[tuple[Node, StreamFinder]]:
    fake = FakeRuntime()
    fake.images.add("busybox:1")
    fake.on_start = lambda config: programs.get(config.metadata.name)
    async with a_node(folder, fake) as node:
        node.add(a_pod(a_container("app"), a_container("terminal", tty=True)))
        await eventually(lambda: "terminal" in node.fake.running())
        finder = StreamFinder(
            node.fake,
            node.kit.execs,
            lambda namespace, name: find_pod(node.registry, namespace, name),
            lambda uid: "uid-1" if uid == "mirror-uid" else uid,
        )
        yield node, finder


def ticket(node: Node, url: str) -> Ticket:
    found = node.fake.take_ticket(url.removeprefix(node.fake.streaming_url))
    assert found is not None
    return found


@pytest.mark.parametrize("uid", ["", "uid-1", "mirror-uid"])
async def test_exec_reaches_the_running_container(tmp_path: Path, uid: str) -> None:
    async with running(tmp_path) as (node, finder):
        target = Target("default", "pod", "app", uid)
        found = ticket(node, await finder.exec(target, ["sh", "-c", "true"], OUT))
        container = node.fake.named("app")[-1]
        assert (found.kind, found.subject) == ("exec", container.id)
        assert (found.command, found.streams) == (("sh", "-c", "true"), OUT)


async def test_exec_reaches_the_newest_life_of_a_container(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, finder):
        node.fake.exit(node.fake.named("app")[-1].id, 1)
        await eventually(
            lambda: node.fake.running().count("app") == 1 and len(node.fake.named("app")) == 2
        )
        found = ticket(node, await finder.exec(APP, ["true"], OUT))
        assert found.subject == node.fake.named("app")[-1].id


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        (Target("default", "nope", "app"), 404, "pod does not exist"),
        (Target("other", "pod", "app"), 404, "pod does not exist"),
        (Target("default", "pod", "nope"), 500, 'container not found ("nope")'),
        (Target("default", "pod", "app", "old-uid"), 500, 'container not found ("app")'),
    ],
)
async def test_exec_refused(tmp_path: Path, target: Target, status: int, text: str) -> None:
    async with running(tmp_path) as (_, finder):
        with pytest.raises(Refused) as refusal:
            await finder.exec(target, ["true"], OUT)
        assert (refusal.value.status, str(refusal.value)) == (status, text)
        with pytest.raises(Refused) as refusal:
            await finder.run(target, ["true"])
        assert (refusal.value.status, str(refusal.value)) == (status, text)


async def test_a_dead_container_has_no_streams(tmp_path: Path) -> None:
    async with running(tmp_path, app=Program(exit_code=1, runs_for=0.5)) as (node, finder):
        await eventually(lambda: "BackOff" in node.reasons())
        with pytest.raises(Refused, match=r'container not found \("app"\)'):
            await finder.exec(APP, ["true"], OUT)


@pytest.mark.parametrize(("name", "tty"), [("app", False), ("terminal", True)])
async def test_attach_has_a_terminal_where_the_container_has(
    tmp_path: Path, name: str, tty: bool
) -> None:
    async with running(tmp_path) as (node, finder):
        wanted = Streams(stdin=True, stdout=True, tty=not tty)
        url = await finder.attach(Target("default", "pod", name), wanted)
        assert ticket(node, url).streams == Streams(stdin=True, stdout=True, tty=tty)


@pytest.mark.parametrize(
    ("target", "status", "text"),
    [
        (Target("default", "nope", "app"), 404, "pod does not exist"),
        (Target("default", "pod", "nope"), 500, "container nope not found in pod pod_default"),
    ],
)
async def test_attach_refused(tmp_path: Path, target: Target, status: int, text: str) -> None:
    async with running(tmp_path) as (_, finder):
        with pytest.raises(Refused) as refusal:
            await finder.attach(target, OUT)
        assert (refusal.value.status, str(refusal.value)) == (status, text)


async def test_port_forward_reaches_the_newest_sandbox(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, finder):
        old = next(iter(node.fake.sandboxes))
        await node.fake.stop_pod_sandbox(old)
        await eventually(lambda: len(node.fake.running()) == 2)
        found = ticket(node, await finder.port_forward(Target("default", "pod"), [80]))
        assert found.kind == "portforward"
        assert found.subject != old
        assert found.ports == (80,)


async def test_port_forward_refused(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, finder):
        for target, status, text in (
            (Target("default", "nope"), 404, "pod does not exist"),
            (Target("default", "pod", uid="old-uid"), 404, "pod not found"),
        ):
            with pytest.raises(Refused) as refusal:
                await finder.port_forward(target, [])
            assert (refusal.value.status, str(refusal.value)) == (status, text)


async def test_port_forward_to_a_pod_without_a_sandbox(tmp_path: Path) -> None:
    fake = FakeRuntime()
    finder = StreamFinder(fake, Execs(fake), lambda _namespace, _name: a_pod())
    with pytest.raises(Refused, match=r'pod not found \("pod_default"\)'):
        await finder.port_forward(Target("default", "pod"), [])


async def test_run_gives_stdout_and_then_stderr(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, finder):
        node.fake.on_exec = lambda _config, _command: Exec(0, b"out", b"err")
        assert await finder.run(APP, ["echo"]) == b"outerr"


async def test_run_tells_an_exit_code(tmp_path: Path) -> None:
    async with running(tmp_path) as (node, finder):
        node.fake.on_exec = lambda _config, _command: Exec(3, b"out", b"no such thing")
        with pytest.raises(Refused) as refusal:
            await finder.run(APP, ["ls", "/nope"])
        assert str(refusal.value) == "command 'ls /nope' exited with 3: no such thing"


@pytest.mark.parametrize(
    ("code", "status", "retry_after"),
    [("NotFound", 404, None), ("ResourceExhausted", 429, 60), ("Unknown", 500, None)],
)
async def test_errors_of_the_runtime(code: str, status: int, retry_after: int | None) -> None:
    refusal = refused(CRIError("Exec", code, "why"))
    assert (refusal.status, refusal.retry_after) == (status, retry_after)
    assert str(refusal) == f"rpc error: code = {code} desc = why"


async def test_what_runs_as_a_pod_list(tmp_path: Path) -> None:
    async with running(tmp_path) as (_, finder):
        found = await finder.running_pods()
        (pod,) = found["items"]
        assert (found["kind"], pod["metadata"]["name"], pod["metadata"]["uid"]) == (
            "PodList",
            "pod",
            "uid-1",
        )
        assert {each["name"] for each in pod["spec"]["containers"]} == {"app", "terminal"}


async def test_objects_that_no_kubelet_made_are_not_listed() -> None:
    assert running_pod_list([m.PodSandbox(id="x")], [m.Container(id="y")])["items"] == []
