"""What a person sees of pods that a node really runs (on the fake runtime)."""

from pathlib import Path

import anyio
import pytest
import trio.testing

from minikubelet.agent.views import pod_list
from minikubelet.cli.tables import pods_table
from minikubelet.cri.fake import Exec, FakeRuntime, Program
from tests.builders import a_container, a_pod
from tests.unit.cli.documents import manifests
from tests.unit.pods.harness import Node, a_node, eventually

pytestmark = pytest.mark.anyio
TEXT = "two: waiting for the postStart hook of container one (40s)"
HOOK = {"postStart": {"exec": {"command": ["wait-for-the-other"]}}}


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    """Simulated time, jumping only when real threads (state files) had time to finish."""
    return ("trio", {"clock": trio.testing.MockClock(autojump_threshold=0.005)})


def a_fake(**programs: Program) -> FakeRuntime:
    fake = FakeRuntime()
    fake.images.add("busybox:1")
    fake.on_start = lambda config: programs.get(config.metadata.name)
    return fake


def rows(node: Node) -> list[dict[str, str]]:
    now = node.kit.clock.wall_ns() / 1e9
    pods = pod_list(node.registry)["items"]
    table = pods_table(pods, manifests(), now, wide=False, narrowed=False)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


async def test_B17_a_static_pod_that_runs_is_shown_running(tmp_path: Path) -> None:
    async with a_node(tmp_path, a_fake()) as node:
        node.add(a_pod(a_container("app"), name="web-node1"))
        await eventually(lambda: node.status().phase == "Running")
        (row,) = rows(node)
        assert (row["NAME"], row["READY"], row["STATUS"]) == ("web-node1", "1/1", "Running")
        assert row["IP"] != "<none>"
        assert pod_list(node.registry)["items"][0]["status"]["phase"] == "Running"


async def test_B29_who_waits_for_which_hook_and_how_long(tmp_path: Path) -> None:
    fake = a_fake()
    fake.on_exec = lambda _config, _command: Exec(takes=100)
    async with a_node(tmp_path, fake) as node:
        node.add(a_pod(a_container("one", lifecycle=HOOK), a_container("two")))
        await eventually(lambda: fake.running() == ["one"])
        await anyio.sleep(40)
        (row,) = rows(node)
        assert row["MESSAGE"] == TEXT


async def test_B30_completed_and_crashed_containers_are_told_apart(tmp_path: Path) -> None:
    for code, text in ((0, "it completed with exit code 0"), (3, "exit code 3")):
        async with a_node(
            tmp_path / str(code), a_fake(app=Program(exit_code=code, runs_for=0.5))
        ) as node:
            node.add(a_pod(a_container("app")))
            await eventually(lambda node=node: rows(node)[0]["STATUS"] == "CrashLoopBackOff")
            (row,) = rows(node)
            assert row["MESSAGE"].startswith("app: back-off 10s restarting failed container=app")
            assert f"({text}, next try at " in row["MESSAGE"]
            assert row["RESTARTS"].startswith("1 (")
