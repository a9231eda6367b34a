"""The container hash: tells whether a running container still is what the spec asks for.

Exactly the kubelet's (kuberuntime helpers, container/helpers.go HashContainer), so that a take-over
in either direction restarts nothing. Only the name and the image count: a new version of this agent
with other defaults never changes it.
"""

import json

from minikubelet.api.fnv import fnv1a_32
from minikubelet.api.pod import Container

_GO_HTML_ESCAPES = {
    "<": "\\u003c",
    ">": "\\u003e",
    "&": "\\u0026",
    "\u2028": "\\u2028",
    "\u2029": "\\u2029",
}


def go_json(document: object) -> str:
    """Return compact JSON with sorted keys, escaped as Go's encoding/json does."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    for character, escape in _GO_HTML_ESCAPES.items():
        text = text.replace(character, escape)
    return text


def container_hash(container: Container) -> str:
    """Return the hash as the annotation carries it: lowercase hex without padding."""
    identity = go_json({"image": container.image, "name": container.name}).encode()
    dumped = f"([]uint8)[{' '.join(str(byte) for byte in identity)}]"
    return f"{fnv1a_32(dumped.encode()):x}"
