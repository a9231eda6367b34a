"""READY, STATUS and RESTARTS as kubectl's printPod has them."""

from typing import Any

import pytest

from minikubelet.cli.pod_summary import summarize
from tests.unit.cli.documents import BEFORE, NOW, a_pod, a_status, ended, running, waiting

DELETED = {"deletionTimestamp": BEFORE}
READY = [{"type": "Ready", "status": "True"}]
INITIALIZED = [{"type": "Initialized", "status": "True"}]
CRASHED = {"terminated": {"exitCode": 1, "finishedAt": BEFORE}}


@pytest.mark.parametrize(
    ("pod", "ready", "status"),
    [
        pytest.param(a_pod(), "0/0", "Pending", id="nothing is known"),
        pytest.param(a_pod(running()), "1/1", "Pending", id="phase, when all is fine"),
        pytest.param(a_pod(running(), phase="Running"), "1/1", "Running", id="running"),
        pytest.param(
            a_pod(running(), running("b", ready=False), phase="Running"),
            "1/2",
            "Running",
            id="half",
        ),
        pytest.param(
            a_pod(waiting(reason="ContainerCreating")), "0/1", "ContainerCreating", id="creating"
        ),
        pytest.param(
            a_pod(running(), waiting("b", "CrashLoopBackOff"), phase="Running"),
            "1/2",
            "CrashLoopBackOff",
            id="one is in a crash loop",
        ),
        pytest.param(
            a_pod(waiting("a", "ErrImagePull"), waiting("b", "CrashLoopBackOff")),
            "0/2",
            "ErrImagePull",
            id="the first of two reasons",
        ),
        pytest.param(a_pod(ended(code=2), phase="Failed"), "0/1", "Error", id="failed"),
        pytest.param(a_pod(ended(), phase="Succeeded"), "0/1", "Completed", id="completed"),
        pytest.param(
            a_pod(ended(code=2, reason=""), phase="Failed"), "0/1", "ExitCode:2", id="no reason"
        ),
        pytest.param(
            a_pod(ended(code=137, reason="", signal=9)), "0/1", "Signal:9", id="only a signal"
        ),
        pytest.param(
            a_pod(running("a"), ended("b"), phase="Running", conditions=READY),
            "1/2",
            "Running",
            id="one completed, the other runs",
        ),
        pytest.param(
            a_pod(running("a"), ended("b"), phase="Running"), "1/2", "NotReady", id="not ready"
        ),
        pytest.param(
            a_pod(phase="Failed", reason="Evicted"), "0/0", "Evicted", id="reason of the pod"
        ),
        pytest.param(
            a_pod(running(), metadata=DELETED, phase="Running"), "1/1", "Terminating", id="ends"
        ),
        pytest.param(
            a_pod(ended(), metadata=DELETED, phase="Succeeded"), "0/1", "Completed", id="has ended"
        ),
        pytest.param(
            a_pod(waiting(), init=(running("i", ready=False), waiting("j"))),
            "0/1",
            "Init:0/2",
            id="first init container",
        ),
        pytest.param(
            a_pod(waiting(), init=(ended("i"), running("j"))), "0/1", "Init:1/2", id="the second"
        ),
        pytest.param(
            a_pod(waiting(), init=(waiting("i", "PodInitializing"),)), "0/1", "Init:0/1", id="plain"
        ),
        pytest.param(
            a_pod(waiting(), init=(waiting("i", "CrashLoopBackOff"),)),
            "0/1",
            "Init:CrashLoopBackOff",
            id="init crash loop",
        ),
        pytest.param(
            a_pod(waiting(), init=(ended("i", 1),)), "0/1", "Init:Error", id="init failed"
        ),
        pytest.param(
            a_pod(waiting(), init=(ended("i", 3, reason=""),)), "0/1", "Init:ExitCode:3", id="code"
        ),
        pytest.param(
            a_pod(waiting(), init=(ended("i", 3, reason="", signal=9),)),
            "0/1",
            "Init:Signal:9",
            id="init signal",
        ),
        pytest.param(
            a_pod(waiting(reason="PodInitializing"), init=(ended("i"),)),
            "0/1",
            "PodInitializing",
            id="init is done",
        ),
        pytest.param(
            a_pod(running(), init=(running("s"),), sidecars=("s",), phase="Running"),
            "2/2",
            "Running",
            id="a sidecar counts",
        ),
        pytest.param(
            a_pod(waiting(), init=(running("s", started=False),), sidecars=("s",)),
            "0/2",
            "Init:0/1",
            id="a sidecar that hasn't started holds the rest",
        ),
        pytest.param(
            a_pod(
                running(),
                init=(waiting("s", "CrashLoopBackOff"),),
                sidecars=("s",),
                conditions=INITIALIZED,
                phase="Running",
            ),
            "1/2",
            "Init:CrashLoopBackOff",
            id="a sidecar crashes beside running containers",
        ),
    ],
)
def test_ready_and_status(pod: dict[str, Any], ready: str, status: str) -> None:
    summary = summarize(pod)
    assert (summary.ready_text, summary.status) == (ready, status)


@pytest.mark.parametrize(
    ("pod", "text"),
    [
        pytest.param(a_pod(running()), "0", id="none"),
        pytest.param(a_pod(running(restartCount=2, lastState=CRASHED)), "2 (5s ago)", id="some"),
        pytest.param(a_pod(running(restartCount=2)), "2", id="the last end is forgotten"),
        pytest.param(
            a_pod(running("a", restartCount=2), running("b", restartCount=1, lastState=CRASHED)),
            "3 (5s ago)",
            id="together",
        ),
        pytest.param(
            a_pod(a_status(), init=(waiting("i", "Error", restartCount=4),)), "4", id="init"
        ),
        pytest.param(
            a_pod(running(), init=(ended("i") | {"restartCount": 4},)), "0", id="init is over"
        ),
        pytest.param(
            a_pod(running(), init=(running("s", restartCount=4),), sidecars=("s",)),
            "4",
            id="a sidecar's stay",
        ),
    ],
)
def test_restarts(pod: dict[str, Any], text: str) -> None:
    assert summarize(pod).restarts_text(NOW) == text
