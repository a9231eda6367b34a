from typing import Any

import pytest

from minikubelet.lifecycle.conditions import OWNED
from minikubelet.status.patch import continued, patch_body, status_patch
from tests.apiserver import merged

READY = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
WAITING = {"name": "c", "state": {"waiting": {"reason": "ContainerCreating"}}}
RUNNING = {"name": "c", "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}}
FOREIGN = {"type": "example.com/gate", "status": "True"}


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        pytest.param({}, {"phase": "Pending", "qosClass": "BestEffort"}, id="new"),
        pytest.param({"phase": "Pending"}, {"phase": "Running"}, id="phase"),
        pytest.param({"reason": "x", "message": "y"}, {}, id="gone-scalars"),
        pytest.param(
            {"containerStatuses": [WAITING]}, {"containerStatuses": [RUNNING]}, id="containers"
        ),
        pytest.param(
            {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
            {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}, {"ip": "fd00::2"}]},
            id="addresses",
        ),
        pytest.param(
            {"conditions": [READY | {"reason": "old", "status": "False"}]},
            {"conditions": [READY]},
            id="a-condition-loses-its-reason",
        ),
        pytest.param(
            {"conditions": [{"type": "AllContainersRestarting", "status": "True"}]},
            {"conditions": [READY]},
            id="an-owned-condition-goes",
        ),
    ],
)
def test_the_patch_makes_the_live_status_the_wanted_one(
    live: dict[str, Any], wanted: dict[str, Any]
) -> None:
    patch = status_patch(live, wanted, OWNED)
    assert patch is not None
    assert merged(live, patch) == wanted


def test_conditions_of_others_are_neither_sent_nor_deleted() -> None:
    live = {"conditions": [FOREIGN, {"type": "other", "status": "True"}]}
    patch = status_patch(live, {"conditions": [FOREIGN | {"status": "False"}, READY]}, OWNED)
    assert patch == {"conditions": [READY]}


@pytest.mark.parametrize(
    ("live", "wanted"),
    [
        pytest.param({"phase": "Running", "future": 1}, {"phase": "Running"}, id="unknown-field"),
        pytest.param(
            {"conditions": [READY | {"lastProbeTime": None}]}, {"conditions": [READY]}, id="null"
        ),
        pytest.param(
            {"containerStatuses": [RUNNING | {"lastState": {}, "restartCount": 0}]},
            {"containerStatuses": [RUNNING]},
            id="defaults",
        ),
    ],
)
def test_nothing_is_sent_when_nothing_differs(live: dict[str, Any], wanted: dict[str, Any]) -> None:
    assert status_patch(live, wanted, OWNED) is None


def test_only_what_changed_is_sent() -> None:
    live = {"phase": "Pending", "qosClass": "BestEffort", "conditions": [READY, FOREIGN]}
    patch = status_patch(live, live | {"phase": "Running"}, OWNED)
    assert patch == {"phase": "Running"}
    assert patch_body("u", patch) == {"metadata": {"uid": "u"}, "status": {"phase": "Running"}}


def test_times_of_a_pod_that_was_taken_over_go_on() -> None:
    since, later = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"
    live = {
        "startTime": since,
        "conditions": [
            {"type": "Ready", "status": "True", "lastTransitionTime": since},
            {"type": "Initialized", "status": "False", "lastTransitionTime": since},
        ],
    }
    ours = [
        {"type": "Ready", "status": "True", "lastTransitionTime": later},
        {"type": "Initialized", "status": "True", "lastTransitionTime": later},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": later},
    ]
    shown = continued(live, {"phase": "Running", "startTime": later, "conditions": ours})
    assert shown["startTime"] == since
    assert [entry["lastTransitionTime"] for entry in shown["conditions"]] == [since, later, later]
    assert continued({}, {"startTime": later, "conditions": ours})["startTime"] == later
