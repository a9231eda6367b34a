"""Create-validation of a pod as the apiserver does it: every problem, in its own wording.

Called on the defaulted pod. One module a subject; each yields `Problem`s and knows nothing of
files. What only the scheduler or an apiserver reads (affinity, spread, claims) is not looked into.
Source: pkg/apis/core/validation/validation.go ValidatePodCreate.
"""

from minikubelet.api.pod import Pod
from minikubelet.api.problems import Problem
from minikubelet.api.validation.meta import check_metadata
from minikubelet.api.validation.spec import check_spec


def validate_pod(pod: Pod) -> list[Problem]:
    """Return everything an apiserver would refuse about the pod; empty when it would be created."""
    return [*check_metadata(pod.metadata), *check_spec(pod.spec)]
