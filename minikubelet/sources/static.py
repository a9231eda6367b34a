"""One document of a file or URL to the pod of this node, step by step as the kubelet does.

Pure. The uid is a hash of the document as written (canonical JSON, so that key order, comments and
the place in the file don't matter), the node and the path: an unchanged manifest keeps its uid over
restarts and upgrades of the agent, a changed one is another pod. Source: kubelet config/common.go
applyDefaults.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from minikubelet.api.codec import (
    DecodeError,
    canonical_json,
    content_hash,
    decode_pod,
    without_nulls,
)
from minikubelet.api.defaults import with_defaults
from minikubelet.api.meta import CONFIG_HASH
from minikubelet.api.pod import Pod
from minikubelet.api.problems import Problem, invalid, required
from minikubelet.api.record import PodRecord
from minikubelet.api.shape import compare
from minikubelet.api.validation import validate_pod
from minikubelet.sources.refusals import api_references, unsupported
from minikubelet.sources.updates import FILE

_MAX_UID = 64
_UID = re.compile(rf"[A-Za-z0-9][A-Za-z0-9._-]{{0,{_MAX_UID - 1}}}")
_NO_EXECUTE = {"operator": "Exists", "effect": "NoExecute"}
"""Static pods of files stay on a node whatever its taints; the kubelet gives it to files only."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a document stands: source `file` or `http`, path or URL, and the node that reads it.

    `name` is the location as people may see it: a URL without its password.
    """

    source: str
    location: str
    node_name: str
    shown: str = ""

    @property
    def name(self) -> str:
        """The location for messages."""
        return self.shown or self.location


@dataclass(frozen=True, slots=True)
class Outcome:
    """A record, or errors that say why there is none; warnings in both cases."""

    record: PodRecord | None
    errors: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()


def static_pod(raw: Mapping[str, Any], place: Place, origin: str = "") -> Outcome:
    """Return the pod of a document whose kind is Pod."""
    document = without_nulls(raw)
    shape = compare(document, Pod)
    warnings = tuple(shape.unknown)
    errors = list(shape.wrong_types)
    if not _name_of(document):
        errors.insert(0, required("metadata.name"))
    if not errors:
        errors += _uid_faults(document)
    if errors:
        return Outcome(None, tuple(errors), warnings)
    document = with_defaults(_placed(document, place))
    try:
        pod = decode_pod(document)
    except DecodeError as error:
        return Outcome(None, error.problems, warnings)
    errors = [*validate_pod(pod), *api_references(pod), *unsupported(pod)]
    if errors:
        return Outcome(None, tuple(dict.fromkeys(errors)), warnings)
    return Outcome(PodRecord(pod, document, origin or place.name), (), warnings)


def _name_of(document: Mapping[str, Any]) -> str:
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    return name if isinstance(name, str) else ""


def _uid_faults(document: Mapping[str, Any]) -> list[Problem]:
    """Refuse a uid that could name another folder than the pod's own: it is a folder's name."""
    uid = document["metadata"].get("uid", "")
    if not uid or _UID.fullmatch(uid):
        return []
    detail = (
        f"must be a name for files of at most {_MAX_UID} letters, digits, '-', '_' and '.', "
        "and begin with a letter or digit; leave it out to have one made"
    )
    return [invalid("metadata.uid", uid, detail)]


def _placed(document: Mapping[str, Any], place: Place) -> dict[str, Any]:
    metadata = dict(document["metadata"])
    spec = dict(document.get("spec", {}))
    uid = metadata.get("uid") or _uid(document, place)
    metadata |= {
        "uid": uid,
        "name": f"{metadata['name']}-{place.node_name.lower()}",
        "namespace": metadata.get("namespace") or "default",
        "annotations": {**metadata.get("annotations", {}), CONFIG_HASH: uid},
    }
    spec["nodeName"] = place.node_name
    if place.source == FILE:
        spec["tolerations"] = _with_no_execute(spec.get("tolerations", []))
    status = {**document.get("status", {}), "phase": "Pending"}
    return {**document, "metadata": metadata, "spec": spec, "status": status}


def _uid(document: Mapping[str, Any], place: Place) -> str:
    return content_hash(
        canonical_json(document),
        f"host:{place.node_name}".encode(),
        f"{place.source}:{place.location}".encode(),
    )


def _with_no_execute(tolerations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add the toleration unless it is there (kubelet: helper.AddOrUpdateTolerationInPod)."""
    result, replaced = [], False
    for toleration in tolerations:
        same = all(
            toleration.get(field, "") == _NO_EXECUTE.get(field, "")
            for field in ("key", "value", "effect", "operator")
        )
        if same and replaced:
            continue
        result.append(_NO_EXECUTE if same else toleration)
        replaced = replaced or same
    return result if replaced else [*result, _NO_EXECUTE]
