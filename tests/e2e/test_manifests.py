"""Manifest files and URLs become pods, and what people do to them while the pods run.

The runtime's version can't matter here: containerd 2 alone runs the pods.
"""

import http.server
import json
import os
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

from minikubelet.cri import messages as m
from tests.e2e.agent import FOREVER, Agent, a_manifest, a_shell, read_log

pytestmark = pytest.mark.anyio

FAST = {"fileCheckFrequency": "1s", "httpCheckFrequency": "100ms"}


def a_pod(name: str, version: str = "1", **spec: Any) -> dict[str, Any]:
    """Return a pod that says its version and runs on."""
    return a_manifest(name, a_shell("main", f"echo {version}; {FOREVER}"), **spec)


async def says(agent: Agent, pod: str, version: str) -> bool:
    """Tell whether a pod's one running container is of this version."""
    running = await agent.containers(pod)
    alive = [each for each in running if each.state == m.CONTAINER_RUNNING]
    if len(alive) != 1:
        return False
    status = await agent.client.runtime.container_status(alive[0].id)
    return read_log(Path(status.log_path)) == f"{version}\n"


async def wait_says(agent: Agent, pod: str, version: str) -> None:
    # By an event: the relist comes too late for this.
    text = f"{pod} runs as version {version}"
    await agent.wait_until(text, lambda: says(agent, pod, version), 15)


async def instances(agent: Agent, pod: str) -> list[str]:
    """Return the ids of a pod's containers: they stay the same while nobody touches the pod."""
    return [each.id for each in await agent.containers(pod)]


async def stays(agent: Agent, pod: str, before: list[str]) -> None:
    """See that nothing happens to a pod for as long as its end would take."""
    with anyio.move_on_after(0.5):
        while True:
            assert await instances(agent, pod) == before
            assert await agent.running(pod) == ["main"]
            await anyio.sleep(0.05)
    assert pod in await agent.pods()


async def told(agent: Agent, text: str) -> bool:
    """Tell whether a text stands in /manifests."""
    return text in json.dumps(await agent.manifest_reports())


async def wait_told(agent: Agent, text: str) -> None:
    await agent.wait_until(f"/manifests says {text!r}", lambda: told(agent, text))


async def test_B01_backups_are_left_out_and_a_name_has_one_owner(agent: Agent) -> None:
    agent.settings |= FAST  # the note about a left-out file comes with the next relist
    agent.write("web.yaml", a_pod("web", "original"))
    await agent.start()
    await wait_says(agent, "web", "original")
    before = await instances(agent, "web")
    for name in ("web.yaml.bak", "web.yaml~", "#web.yaml#", ".web.yaml.swp"):
        agent.write(name, a_pod("web", "backup"))
        await wait_told(agent, f"{name} is left out")
    agent.write("a-copy.yaml", a_pod("web", "copy"))
    for restarted in (False, True):
        if restarted:
            agent.kill()
            await agent.start()
        await agent.wait_until("both are named", lambda: conflict(agent, "a-copy.yaml", "web.yaml"))
        assert "/web.yaml has the same name and keeps it" in (await conflicts(agent))[0]
        await agent.wait_until("the original is known", lambda: agent.is_ready("web"))
        await wait_says(agent, "web", "original")
        assert await instances(agent, "web") == before
    agent.remove("web.yaml")
    await wait_says(agent, "web", "copy")


async def conflicts(agent: Agent) -> list[str]:
    return list((await agent.manifest_reports())["conflicts"])


async def conflict(agent: Agent, *names: str) -> bool:
    found = await conflicts(agent)
    return any(all(f"/{name}" in text for name in names) for text in found)


async def test_B03_editors_and_half_written_files(agent: Agent) -> None:
    await agent.start()
    agent.write("web.yaml", a_pod("web", "1"))
    await wait_says(agent, "web", "1")
    before = await instances(agent, "web")
    path = agent.manifests / "web.yaml"
    with path.open("w") as file:
        file.write(json.dumps(a_pod("web", "2")))  # could be all of it, but more comes
        file.flush()
        agent.write("other.yaml", a_pod("other"))  # has the agent look at the folder
        await wait_says(agent, "other", "1")
        assert await instances(agent, "web") == before
        assert await agent.running("web") == ["main"]
        file.write(f"\n---\n{json.dumps(a_pod('more'))}")
    await wait_says(agent, "web", "2")
    await wait_says(agent, "more", "1")
    # As vim: a swap file, the new text beside the old one, a backup, and a rename over it.
    swap = agent.manifests / ".web.yaml.swp"
    swap.write_text(json.dumps(a_pod("web", "swap")))
    path.rename(agent.manifests / "web.yaml~")
    path.write_text(json.dumps(a_pod("web", "3")))
    (agent.manifests / "web.yaml~").unlink()
    swap.unlink()
    await wait_says(agent, "web", "3")


async def test_B04_a_removed_manifest_ends_its_pod_without_an_apiserver(agent: Agent) -> None:
    agent.write("web.yaml", a_pod("web"))
    await agent.start()
    await wait_says(agent, "web", "1")
    agent.remove("web.yaml")
    await agent.wait_gone("web", 5)


async def test_B05_a_missing_folder_is_told_and_picked_up(agent: Agent) -> None:
    agent.manifests.rmdir()
    await agent.start()
    await wait_told(agent, f"{agent.manifests} does not exist")
    agent.manifests.mkdir()
    agent.write("web.yaml", a_pod("web"))
    await wait_says(agent, "web", "1")
    assert not await told(agent, "does not exist")
    assert agent.log_file.read_text().count("does not exist") == 1


async def test_B08_several_documents_and_lists_in_one_file(agent: Agent) -> None:
    await agent.start()
    two = f"{json.dumps(a_pod('one'))}\n---\n{json.dumps(a_pod('two'))}\n"
    items = {"apiVersion": "v1", "kind": "PodList", "items": [a_pod("three"), a_pod("four")]}
    agent.write("two.yaml", two)
    agent.write("list.json", items)
    for name in ("one", "two", "three", "four"):
        await wait_says(agent, name, "1")
    agent.write("two.yaml", a_pod("one"))
    await agent.wait_gone("two")
    await wait_says(agent, "one", "1")


async def test_an_invalid_edit_keeps_the_last_good_version(agent: Agent) -> None:
    """Also over a kill of the agent, and over the end of the container."""
    await agent.start()
    agent.write("web.yaml", a_pod("web", "good"))
    await wait_says(agent, "web", "good")
    before = await instances(agent, "web")
    bad = a_pod("web", "bad")
    del bad["spec"]["containers"][0]["name"]
    agent.write("web.yaml", bad)
    await wait_told(agent, "spec.containers[0].name")
    await stays(agent, "web", before)
    agent.kill()
    await agent.start()
    await wait_told(agent, "spec.containers[0].name")
    await agent.wait_until("the good one is known", lambda: agent.is_ready("web"))
    await stays(agent, "web", before)
    agent.write("web.yaml", "{ no yaml")
    await wait_told(agent, "cannot read YAML")
    await stays(agent, "web", before)
    agent.write("web.yaml", a_pod("web", "better"))
    await wait_says(agent, "web", "better")
    assert not await told(agent, "cannot read YAML")


async def test_B10_a_manifest_removed_and_put_back_runs_again(agent: Agent) -> None:
    await agent.start()
    agent.write("web.yaml", a_pod("web"))
    await wait_says(agent, "web", "1")
    before = await instances(agent, "web")
    away = (agent.manifests / "web.yaml").rename(agent.folder / "away")
    await anyio.sleep(0.05)  # the old instance is ending
    away.rename(agent.manifests / "web.yaml")

    async def is_new() -> bool:
        return await says(agent, "web", "1") and await instances(agent, "web") != before

    await agent.wait_until("a new instance runs", is_new, 10)
    assert len(await agent.sandboxes("web")) == 1


def a_slow_server(version: str) -> dict[str, Any]:
    """Return a pod that holds the node's port and takes a second to clean up."""
    script = (
        f"trap 'sleep 1; echo end {version} >> /log/log; exit 0' TERM; "
        f"echo start {version} >> /log/log; "
        "nc -ll -p 7321 -e cat & wait $!; echo port busy >> /log/log"
    )
    mounts = {"volumeMounts": [{"name": "log", "mountPath": "/log"}]}
    return a_manifest("web", a_shell("main", script, **mounts), hostNetwork=True)


async def test_B12_B34_an_edit_waits_for_the_end_of_the_old_instance(agent: Agent) -> None:
    """The old one has its grace, so that port and volume are free; only the last edit starts."""
    log = agent.folder / "shared-log"
    log.mkdir()
    volumes = [{"name": "log", "hostPath": {"path": str(log)}}]

    def write(version: str) -> None:
        pod = a_slow_server(version)
        pod["spec"]["volumes"] = volumes
        agent.write("web.yaml", pod)

    def lines() -> list[str]:
        path = log / "log"
        return path.read_text().splitlines() if path.exists() else []

    await agent.start()
    write("1")
    await agent.wait_until("version 1 has started", lambda: lines() == ["start 1"])
    await agent.wait_until("version 1 is known", lambda: agent.is_ready("web"))
    for version in ("2", "3", "4"):
        write(version)
        await anyio.sleep(0.1)  # each is seen by itself
    await agent.wait_until("version 4 has started", lambda: "start 4" in lines())
    await agent.wait_until("it runs", lambda: agent.is_ready("web"))
    assert lines() == ["start 1", "end 1", "start 4"]
    assert len(await agent.sandboxes("web")) == 1


async def test_a_data_link_that_is_swapped(agent: Agent) -> None:
    """As a mounted ConfigMap is updated."""

    def swap(version: str) -> None:
        (agent.manifests / f"..{version}").mkdir()
        (agent.manifests / f"..{version}" / "web.yaml").write_text(
            json.dumps(a_pod("web", version))
        )
        (agent.manifests / "..data_tmp").symlink_to(f"..{version}")
        (agent.manifests / "..data_tmp").rename(agent.manifests / "..data")

    swap("1")
    (agent.manifests / "web.yaml").symlink_to("..data/web.yaml")
    await agent.start()
    await wait_says(agent, "web", "1")
    swap("2")
    await wait_says(agent, "web", "2")


class Web:
    """A web server on loopback: `answer` is what it says next, `seen` the requests' headers."""

    def __init__(self) -> None:
        self.status = 200
        self.body = b""
        self.headers: dict[str, str] = {}
        self.seen: list[Mapping[str, str]] = []
        web = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                web.seen.append(dict(self.headers.items()))
                etag = web.headers.get("ETag")
                same = bool(etag) and self.headers.get("If-None-Match") == etag
                body = b"" if same else web.body
                self.send_response(304 if same else web.status)
                for name, value in web.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/pods"

    def serve(self, *pods: Mapping[str, Any]) -> None:
        document = {"apiVersion": "v1", "kind": "PodList", "items": list(pods)}
        self.status, self.body = 200, json.dumps(document).encode()

    async def asked(self, agent: Agent, times: int = 2) -> None:
        """Wait until it was asked some more times."""
        goal = len(self.seen) + times
        await agent.wait_until("the agent asks again", lambda: len(self.seen) >= goal)


@pytest.fixture
def web() -> Iterator[Web]:
    web = Web()
    thread = threading.Thread(target=web.server.serve_forever, args=(0.05,))
    thread.start()
    yield web
    web.server.shutdown()
    thread.join()
    web.server.server_close()


async def test_B09_bad_answers_of_a_url_remove_nothing(agent: Agent, web: Web) -> None:
    agent.settings |= FAST
    agent.flags.append(f"--manifest-url={web.url}")
    web.serve(a_pod("web"))
    await agent.start()
    await wait_says(agent, "web", "1")
    before = await instances(agent, "web")
    good = web.body
    answers = {
        "the body is empty": (200, b""),
        "status 500": (500, good),
        "cannot read": (200, b"{ no json"),
        "holds no pod": (200, b"# nothing but a comment\n"),
    }
    for text, answer in answers.items():
        web.status, web.body = answer
        await wait_told(agent, text)
        await web.asked(agent)
        assert await told(agent, text)
        await stays(agent, "web", before)
    agent.kill()
    await agent.start()
    await agent.wait_until("the last good pod is known", lambda: agent.is_ready("web"))
    assert await instances(agent, "web") == before
    web.serve(a_pod("web"))
    await agent.wait_until("the error is over", lambda: untold(agent, "holds no pod"))
    assert await instances(agent, "web") == before
    web.serve()
    await agent.wait_gone("web")


async def untold(agent: Agent, text: str) -> bool:
    return not await told(agent, text)


async def test_a_url_s_headers_changes_and_bad_items(agent: Agent, web: Web) -> None:
    agent.settings |= FAST
    agent.flags += [f"--manifest-url={web.url}", "--manifest-url-header=X-One:a,X-Two:b"]
    web.serve(a_pod("web", "1"))
    web.headers = {"ETag": '"1"'}
    await agent.start()
    await wait_says(agent, "web", "1")
    await web.asked(agent)
    assert (web.seen[0]["X-One"], web.seen[0]["X-Two"]) == ("a", "b")
    assert web.seen[-1]["If-None-Match"] == '"1"'
    before = await instances(agent, "web")
    bad = a_pod("bad")
    del bad["spec"]["containers"]
    web.serve(bad, a_pod("web", "1"), a_pod("more", "1"))
    web.headers = {"ETag": '"2"'}
    await wait_says(agent, "more", "1")
    assert await told(agent, "items[0].spec.containers")
    assert await instances(agent, "web") == before
    web.serve(a_pod("web", "2"), a_pod("more", "1"))
    web.headers = {}
    await wait_says(agent, "web", "2")
    pods = await agent.pods()
    assert pods["web"]["metadata"]["annotations"]["kubernetes.io/config.source"] == "http"


async def test_the_socket_and_the_state_are_root_s_alone(agent: Agent) -> None:
    agent.write("web.yaml", a_pod("web"))
    await agent.start()
    await agent.wait_until("it runs", lambda: agent.is_ready("web"))
    modes = {
        path.name: oct(path.stat().st_mode & 0o7777)
        for path in (agent.root / "minikubelet.sock", agent.root / "minikubelet")
    }
    assert modes == {"minikubelet.sock": "0o600", "minikubelet": "0o700"}
    assert (agent.root / "minikubelet").stat().st_uid == os.geteuid()
