"""Create-validation of a pod as the apiserver does it: every problem, in its own wording.

Pure; called on the defaulted pod. Split by subject: `validation_*`. Source:
pkg/apis/core/validation/validation.go ValidatePodCreate.
"""

from minikubelet.api.pod import Pod
from minikubelet.api.problems import Problem, required


def validate_pod(pod: Pod) -> list[Problem]:
    """Return everything an apiserver would refuse about the pod; empty when it would be created."""
    problems: list[Problem] = []
    if not pod.spec.containers:
        problems.append(required("spec.containers"))
    return problems
