"""Decisions about images, with the kubelet's reasons and words. Pure.

Source: kubelet images/{image_manager,helpers,types}.go.
"""

from dataclasses import dataclass, replace

from minikubelet.cri.errors import CRIError

ALWAYS, IF_NOT_PRESENT, NEVER = "Always", "IfNotPresent", "Never"

ERR_IMAGE_PULL = "ErrImagePull"
IMAGE_PULL_BACK_OFF = "ImagePullBackOff"
IMAGE_INSPECT_ERROR = "ImageInspectError"
ERR_IMAGE_NEVER_PULL = "ErrImageNeverPull"
INVALID_IMAGE_NAME = "InvalidImageName"
QPS_EXCEEDED = "pull QPS exceeded"

_SPECIFIC = {
    "RegistryUnavailable": "the registry is unavailable",
    "SignatureValidationFailed": "the signature validation failed",
}


class ImageProblem(Exception):
    """The image can't be had now: `reason` and `message` of the container's waiting state."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message


@dataclass(frozen=True, slots=True)
class ImageSettings:
    """How images are pulled; times in seconds. A qps of 0 means without limit."""

    serialize: bool = True
    max_parallel: int | None = None
    qps: float = 5.0
    burst: int = 10
    backoff_initial: float = 10.0
    backoff_max: float = 300.0


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """Permits that fill up with time: `burst` at most, `qps` a second."""

    qps: float
    burst: int
    tokens: float
    updated: float

    def take(self, now: float) -> tuple[bool, "TokenBucket"]:
        """Tell whether a permit was there, and what is left. Never waits."""
        if self.qps <= 0:
            return True, self
        tokens = min(float(self.burst), self.tokens + (now - self.updated) * self.qps)
        granted = tokens >= 1
        return granted, replace(self, tokens=tokens - granted, updated=now)


def pull_error_text(error: CRIError) -> str:
    """Return the runtime's words; a code of Unknown adds nothing (cri-client remote_image.go)."""
    return error.message if error.code == "Unknown" else str(error)


def pull_problem(image: str, text: str) -> ImageProblem:
    """Return the reason and message for a failed pull."""
    for reason, because in _SPECIFIC.items():
        if text.startswith(reason):
            rest = text.removeprefix(reason)
            return ImageProblem(reason, f"image pull failed for {image} because {because}{rest}")
    return ImageProblem(ERR_IMAGE_PULL, text)
