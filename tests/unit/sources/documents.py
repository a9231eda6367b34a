"""Manifest documents for tests of the sources."""

from typing import Any

import yaml

from minikubelet.sources.static import Place

NODE = "node1"
PLACE = Place("file", "/m/web.yaml", NODE)


def pod_document(name: str = "web", image: str = "b:1", **spec: Any) -> dict[str, Any]:
    """A valid pod document; keyword arguments are fields of the spec."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": image}], **spec},
    }


def text_of(*documents: Any) -> str:
    """The documents as YAML."""
    return yaml.safe_dump_all(documents)


def content_of(*documents: Any) -> bytes:
    """The documents as the bytes of a file."""
    return text_of(*documents).encode()
