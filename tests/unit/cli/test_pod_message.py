"""The one reason beside a pod."""

from typing import Any

import pytest

from minikubelet.cli.pod_message import pod_message
from tests.unit.cli.documents import NOW, a_pod, ended, running, waiting

HOOK = {"name": "app", "lifecycle": {"postStart": {"exec": {"command": ["true"]}}}}
STARTING = running(started=False, ready=False)
BACK_OFF = "back-off 10s restarting failed container=app pod=web-node1_default(uid-1)"


@pytest.mark.parametrize(
    ("pod", "errors", "text"),
    [
        pytest.param(a_pod(running(), phase="Running"), (), "", id="it is fine"),
        pytest.param(
            a_pod(running(), message="waiting for the previous instance of this pod to end"),
            (),
            "waiting for the previous instance of this pod to end",
            id="the pod waits",
        ),
        pytest.param(
            a_pod(waiting(message="no"), message="Pod was rejected: no room"),
            (),
            "Pod was rejected: no room",
            id="the pod's reason before a container's",
        ),
        pytest.param(
            a_pod(waiting(message="b"), init=(waiting("i", message="a"),)), (), "i: a", id="init"
        ),
        pytest.param(
            a_pod(
                waiting("a", message="first by name"),
                waiting("z", message="first in the spec"),
                spec={"containers": [{"name": "z"}, {"name": "a"}]},
            ),
            (),
            "z: first in the spec",
            id="the order of start",
        ),
        pytest.param(a_pod(ended(code=3), phase="Failed"), (), "app: exit code 3", id="failed"),
        pytest.param(
            a_pod(ended(code=3, message="no such file\n")),
            (),
            "app: exit code 3: no such file",
            id="its last words",
        ),
        pytest.param(a_pod(ended(), phase="Succeeded"), (), "", id="completed is no fault"),
        pytest.param(
            a_pod(running()),
            ("/m/web.yaml:3: spec: bad",),
            "the last good version runs: /m/web.yaml:3: spec: bad",
            id="an edit that can't be used",
        ),
        pytest.param(
            a_pod(STARTING, spec={"containers": [{**HOOK, "startupProbe": {}}]}),
            (),
            "app: its postStart hook runs (5s)",
            id="an empty probe is none",
        ),
        pytest.param(
            a_pod(STARTING, spec={"containers": [{**HOOK, "startupProbe": {"exec": {}}}]}),
            (),
            "",
            id="a startup probe may be what it waits for",
        ),
    ],
)
def test_message(pod: dict[str, Any], errors: tuple[str, ...], text: str) -> None:
    assert pod_message(pod, errors, NOW) == text


def test_B29_a_post_start_hook_that_holds_the_next_container_is_told() -> None:
    spec = {"containers": [HOOK, {"name": "next"}]}
    held = waiting(
        "next", "ContainerCreating", "waiting for the postStart hook of container app (40s)"
    )
    assert pod_message(a_pod(STARTING, held, spec=spec), (), NOW) == (
        "next: waiting for the postStart hook of container app (40s)"
    )
    alone = a_pod(STARTING, spec={"containers": [HOOK]})
    assert pod_message(alone, (), NOW + 35) == "app: its postStart hook runs (40s)"


def test_B30_a_completed_container_in_back_off_is_told_from_a_crashed_one() -> None:
    for how in ("it completed with exit code 0", "exit code 1"):
        text = f"{BACK_OFF} ({how}, next try at 2026-01-02T03:04:15Z)"
        pod = a_pod(waiting(reason="CrashLoopBackOff", message=text))
        assert pod_message(pod, (), NOW) == f"app: {text}"
