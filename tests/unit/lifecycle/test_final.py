from typing import Any

import msgspec
import pytest

from minikubelet.api.status import PodStatus
from minikubelet.lifecycle.final import final_status
from tests.builders import a_container, a_pod

WAITING = {"waiting": {"reason": "ContainerCreating"}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}
DONE = {"terminated": {"exitCode": 0, "reason": "Completed"}}
FAILED = {"terminated": {"exitCode": 3, "reason": "Error"}}
INIT = (a_container("i1"), a_container("i2"))


def ended(init: tuple[Any, ...], regular: tuple[Any, ...], phase: str = "Running") -> PodStatus:
    """Return the last status of a pod with these container states."""
    document = {
        "phase": phase,
        "initContainerStatuses": [{"name": f"i{n + 1}", "state": s} for n, s in enumerate(init)],
        "containerStatuses": [{"name": f"c{n + 1}", "state": s} for n, s in enumerate(regular)],
    }
    names = [a_container(f"c{n + 1}") for n in range(len(regular))]
    pod = a_pod(*names, init=INIT if init else ())
    return final_status(pod, msgspec.convert(document, PodStatus), static=False)


def codes(status: PodStatus) -> list[int | None]:
    both = (*status.init_container_statuses, *status.container_statuses)
    return [s.state.terminated.exit_code if s.state.terminated else None for s in both]


@pytest.mark.parametrize(
    ("init", "regular", "expected"),
    [
        pytest.param((), (DONE, FAILED), [0, 3], id="what-ended-stays"),
        pytest.param((), (RUNNING, WAITING), [137, 137], id="what-is-lost-is-told"),
        pytest.param((WAITING, WAITING), (WAITING,), [137, None, None], id="never-begun"),
        pytest.param((DONE, RUNNING), (WAITING,), [0, 137, None], id="not-initialized"),
        pytest.param((DONE, DONE), (WAITING,), [0, 0, 137], id="initialized"),
    ],
)
def test_no_container_looks_as_if_it_still_ran(
    init: tuple[Any, ...], regular: tuple[Any, ...], expected: list[int | None]
) -> None:
    status = ended(init, regular)
    assert codes(status) == expected
    lost = [s for s in status.container_statuses if s.state.terminated and not s.ready]
    assert all(s.state.running is None for s in lost)


@pytest.mark.parametrize(
    ("before", "static", "after"),
    [
        ("Running", False, "Failed"),
        ("Pending", False, "Failed"),
        ("Succeeded", False, "Succeeded"),
        ("Running", True, "Running"),
    ],
)
def test_a_pod_of_the_apiserver_has_a_final_phase(before: str, static: bool, after: str) -> None:
    status = PodStatus(phase=before)
    assert final_status(a_pod(), status, static=static).phase == after
