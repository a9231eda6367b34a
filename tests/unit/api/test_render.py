from minikubelet.api.render import status_document
from minikubelet.api.status import (
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    PodCondition,
    PodStatus,
)


def test_fields_without_omitempty_are_always_shown() -> None:
    ended = ContainerState(terminated=ContainerStateTerminated(reason="Completed"))
    status = PodStatus(
        phase="Running",
        conditions=(PodCondition(type="Ready", status="False"),),
        container_statuses=(ContainerStatus(name="a", state=ended),),
    )
    assert status_document(status) == {
        "phase": "Running",
        "conditions": [
            {"type": "Ready", "status": "False", "lastProbeTime": None, "lastTransitionTime": None}
        ],
        "containerStatuses": [
            {
                "name": "a",
                "state": {
                    "terminated": {
                        "exitCode": 0,
                        "reason": "Completed",
                        "startedAt": None,
                        "finishedAt": None,
                    }
                },
                "lastState": {},
                "ready": False,
                "restartCount": 0,
                "image": "",
                "imageID": "",
            }
        ],
    }
