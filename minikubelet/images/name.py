"""Image references: is it one, and which tag is meant when none is given. Pure.

Short names stay short: which registry `busybox` comes from is the runtime's decision.
Source: github.com/distribution/reference, kubelet images/image_manager.go applyDefaultImageTag.
"""

import re

_HOST_PART = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_DOMAIN = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_COMPONENT = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_PATH = rf"{_COMPONENT}(?:/{_COMPONENT})*"
_TAG = r"\w[\w.-]{0,127}"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
_REFERENCE = re.compile(
    rf"(?:(?P<domain>{_DOMAIN})/)?(?P<path>{_PATH})(?::(?P<tag>{_TAG}))?(?:@(?P<digest>{_DIGEST}))?",
    re.ASCII,
)
_IDENTIFIER = re.compile(r"[a-f0-9]{64}")
_MAX_NAME = 255
_DIGEST_LENGTHS = {"sha256": 64, "sha384": 96, "sha512": 128}


def with_default_tag(image: str) -> str:
    """Return the reference with `:latest` added when it has neither tag nor digest.

    Raises ValueError with the reason when it is no reference.
    """
    try:
        match = _parsed(image)
    except ValueError as problem:
        raise ValueError(f'couldn\'t parse image reference "{image}": {problem}') from None
    return image if match["tag"] or match["digest"] else f"{image}:latest"


def _parsed(image: str) -> re.Match[str]:
    if _IDENTIFIER.fullmatch(image):
        raise ValueError(
            f"invalid repository name ({image}), cannot specify 64-byte hexadecimal strings"
        )
    domain, remainder = _split_domain(image)
    repository = remainder.partition("@")[0].rpartition("/")
    name = repository[0] + repository[1] + repository[2].partition(":")[0]
    if name != name.lower():
        raise ValueError(f"invalid reference format: repository name ({name}) must be lowercase")
    match = _REFERENCE.fullmatch(f"{domain}/{remainder}")
    if match is None:
        raise ValueError("invalid reference format")
    if len(match["path"]) > _MAX_NAME:
        raise ValueError(f"repository name must not be more than {_MAX_NAME} characters")
    if match["digest"]:
        _check_digest(match["digest"])
    return match


def _split_domain(image: str) -> tuple[str, str]:
    first, slash, rest = image.partition("/")
    is_domain = "." in first or ":" in first or first == "localhost" or first != first.lower()
    if slash and is_domain:
        return first, rest
    # Which registry a short name means is the runtime's business: here it only has to match.
    return "short.name", image if slash else f"library/{image}"


def _check_digest(digest: str) -> None:
    algorithm, _, encoded = digest.partition(":")
    length = _DIGEST_LENGTHS.get(algorithm)
    if length is None:
        raise ValueError("unsupported digest algorithm")
    if len(encoded) != length or encoded != encoded.lower():
        raise ValueError("invalid checksum digest length")
