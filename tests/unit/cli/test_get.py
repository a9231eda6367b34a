"""`minikubelet get` against a server on a real socket."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.cli.asking import ask, run
from tests.unit.cli.documents import a_pod, a_report, manifests, running, waiting
from tests.unit.server.serving import callables, serving

pytestmark = pytest.mark.anyio

PODS = {
    "apiVersion": "v1",
    "kind": "PodList",
    "metadata": {},
    "items": [
        a_pod(running(), phase="Running", podIP="10.0.0.7"),
        a_pod(waiting(message="soon"), metadata={"name": "db-node1", "namespace": "data"}),
    ],
}
BAD = a_report(errors=("/m/web.yaml:3: spec: bad",))


def served(pods: Any = None, of: Any = None) -> Any:
    return callables(pods=lambda: pods or PODS, manifests=lambda: of or manifests())


async def test_all_pods_as_aligned_text(tmp_path: Path) -> None:
    document = manifests(BAD, runtime="container runtime is down")
    async with serving(tmp_path, served(of=document)) as agent:
        said = await ask(agent, "get", "pods")
    assert said.err == "runtime: container runtime is down\n"
    head, *rows = said.lines
    assert " ".join(head.split()) == ("NAMESPACE NAME READY STATUS RESTARTS AGE IP SOURCE MESSAGE")
    assert [row.split()[:2] for row in rows] == [
        ["default", "web-node1"],
        ["data", "db-node1"],
        ["-", "-"],
    ]
    assert rows[1].endswith("app: soon")
    assert rows[2].endswith("/m/web.yaml:3: spec: bad")


@pytest.mark.parametrize(
    ("arguments", "names"),
    [
        (("-n", "data"), ["db-node1"]),
        (("web",), ["web-node1"]),
        (("-n", "default", "web-node1"), ["web-node1"]),
    ],
)
async def test_narrowed(tmp_path: Path, arguments: tuple[str, ...], names: list[str]) -> None:
    async with serving(tmp_path, served(of=manifests(BAD))) as agent:
        said = await ask(agent, "get", "pods", *arguments)
        as_json = await ask(agent, "get", "pods", "-o", "json", *arguments)
    assert [line.split()[1] for line in said.lines[1:]] == names
    assert said.err == "invalid manifests: 1 (see `minikubelet get manifests`)\n"
    found = json.loads(as_json.out)
    assert [item["metadata"]["name"] for item in found["items"]] == names
    assert found["kind"] == "PodList"


async def test_documents_are_the_agents_own(tmp_path: Path) -> None:
    document = manifests(BAD)
    async with serving(tmp_path, served(of=document)) as agent:
        assert json.loads((await ask(agent, "get", "pods", "-o", "json")).out) == PODS
        assert yaml.safe_load((await ask(agent, "get", "pods", "-o", "yaml")).out) == PODS
        assert json.loads((await ask(agent, "get", "manifests", "-o", "json")).out) == document


async def test_wide_has_more_columns(tmp_path: Path) -> None:
    async with serving(tmp_path, served()) as agent:
        head = (await ask(agent, "get", "pods", "-o", "wide")).lines[0].split()
    assert head[8:] == ["UID", "NODE", "CONTAINERS", "IMAGES", "ORIGIN", "MESSAGE"]


async def test_manifests(tmp_path: Path) -> None:
    async with serving(tmp_path, served(of=manifests(BAD))) as agent:
        head, row = (await ask(agent, "get", "manifests")).lines
    assert head.split() == ["SOURCE", "LOCATION", "DOCUMENT", "STATE", "PODS", "MESSAGE"]
    assert row.split(maxsplit=5) == [
        "file",
        "/m/web.yaml",
        "1",
        "Invalid",
        "-",
        "/m/web.yaml:3: spec: bad",
    ]


async def test_nothing_is_said_to_people_only(tmp_path: Path) -> None:
    nothing = {**PODS, "items": []}
    async with serving(tmp_path, served(pods=nothing)) as agent:
        pods = await ask(agent, "get", "pods", "-n", "x")
        found = await ask(agent, "get", "manifests")
    assert (pods.code, pods.out) == (0, "")
    assert pods.err == "No pods in namespace x.\n"
    assert (found.code, found.out, found.err) == (0, "", "No manifests.\n")


@pytest.mark.parametrize("output", ["wide", "json"])
async def test_a_name_that_nobody_has(tmp_path: Path, output: str) -> None:
    async with serving(tmp_path, served()) as agent:
        said = await ask(agent, "get", "pods", "nobody", "-o", output)
    assert said.code == 1
    assert said.err == 'Error: pod "nobody" not found; `minikubelet get pods` lists all\n'


def test_no_agent_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    said = run("get", "pods", "--root-dir", str(tmp_path))
    assert said.code == 1
    assert said.err.startswith(f"Error: cannot reach the agent: there is no {tmp_path}/minikubelet")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("pods", "-w"), "--watch needs a terminal"),
        (("pods", "-w", "-o", "json"), "--watch shows a table, not json"),
        (("manifests", "-w"), "--watch needs a terminal"),
    ],
)
def test_watch_is_for_people(tmp_path: Path, arguments: tuple[str, ...], text: str) -> None:
    said = run("get", *arguments, "--root-dir", str(tmp_path))
    assert said.code == 2
    assert text in said.err


def test_a_person_does_not_wait_for_what_isnt_needed() -> None:
    program = (
        "import sys; from minikubelet.cli.main import main\n"
        "try: main(['get', 'pods', '--socket', '/nowhere'])\n"
        "except SystemExit: print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    heavy = {"aiohttp", "anyio", "asyncio", "grpc", "msgspec", "rich", "structlog", "yaml"}
    assert heavy & set(found.stdout.split()) == set()
