"""A disk that takes nothing: pods run, and the log says so once."""

from pathlib import Path

import anyio
import pytest
from structlog.testing import capture_logs

from minikubelet.cri.fake import Exec
from tests.builders import a_container, a_pod
from tests.unit.pods.harness import a_node, eventually
from tests.unit.pods.test_worker import a_fake

pytestmark = pytest.mark.anyio
HOOK = {"postStart": {"exec": {"command": ["hook"]}}}


async def test_a_pod_with_a_hook_runs_without_a_state_directory(tmp_path: Path) -> None:
    fake = a_fake()
    fake.on_exec = lambda _config, _command: Exec()
    (tmp_path / "minikubelet").write_text("no folder")
    with capture_logs() as logs:
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a", lifecycle=HOOK), a_container("b")))
            await eventually(lambda: fake.running() == ["a", "b"])
            await anyio.sleep(300)
            assert node.worker().crashes == 0
    assert fake.script.count("ExecSync") == 1
    texts = [line["event"] for line in logs if line["log_level"] == "warning"]
    assert texts.count("cannot keep the pod's state, tried again") == 1


async def test_what_cannot_be_cleaned_up_is_logged_once(tmp_path: Path) -> None:
    fake = a_fake()
    with capture_logs() as logs:
        async with a_node(tmp_path, fake) as node:
            node.add(a_pod(a_container("a")))
            await eventually(lambda: fake.running() == ["a"])
            node.volumes.stuck = "cannot remove the volumes: busy"
            node.registry.remove("uid-1")
            await anyio.sleep(60)
            assert node.registry.worker("uid-1") is not None
            node.volumes.stuck = ""
            await eventually(lambda: node.registry.worker("uid-1") is None)
    assert [line["event"] for line in logs].count("cannot clean up yet") == 1
