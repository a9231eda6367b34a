"""A pod beside its raw document: what sources hand over and everything after them carries."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikubelet.api.pod import Pod


@dataclass(frozen=True, slots=True)
class PodRecord:
    """The typed pod and the JSON document it was decoded from.

    `pod` is the effective pod (defaults applied); `raw` is the same document with its unknown
    fields, from which everything leaving the agent starts. `origin` says where it came from, for
    people: `/etc/kubernetes/manifests/web.yaml#2`, a URL, or empty for the apiserver.
    `manifest_uid` is the uid that the manifest alone would give, where the pod has another one
    because a kubelet started it.
    """

    pod: Pod
    raw: Mapping[str, Any]
    origin: str = ""
    manifest_uid: str = ""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.metadata.uid
