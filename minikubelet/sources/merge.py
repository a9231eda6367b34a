"""Per-source sets to pod updates: what changed, and who owns a name. Pure.

Every source delivers its whole set; the difference to what was known is ADD, UPDATE, REMOVE, DELETE
and RECONCILE, in the kubelet's order (REMOVE first, so that an edited static pod, which has a new
uid, ends before its successor begins; workers sequence by full name). A name that two documents
claim belongs to the one that runs; the loser is kept aside, named in a conflict, and added when the
owner goes. Source: kubelet config/config.go.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from minikubelet.api.meta import CONFIG_SEEN, CONFIG_SOURCE, LOCAL_ANNOTATIONS
from minikubelet.api.pod import Pod
from minikubelet.api.record import PodRecord
from minikubelet.sources.updates import API, FILE, HTTP, Op, PodUpdate, SourceSet

_ORDER = (FILE, HTTP)
Pods = Mapping[str, PodRecord]


@dataclass(frozen=True, slots=True)
class MergeState:
    """What was delivered last by each source, and which pods (by uid) were given out for it.

    `made_of` are the delivered records that these were made of: one that is delivered again, the
    very same, has no news, and a set of hundreds costs as much as what changed in it. `ran` is who
    had a name (full name ▶ source and pod) before the agent's restart.
    """

    sets: Mapping[str, SourceSet] = field(default_factory=dict)
    pods: Mapping[str, Pods] = field(default_factory=dict)
    made_of: Mapping[str, Pods] = field(default_factory=dict)
    ran: Mapping[str, tuple[str, PodRecord]] = field(default_factory=dict)

    @property
    def seen(self) -> frozenset[str]:
        """Sources that delivered at least once."""
        return frozenset(self.sets)


@dataclass(frozen=True, slots=True)
class NameConflict:
    """Two documents claim one pod; `winner` and `loser` are origins."""

    full_name: str
    winner: str
    loser: str

    def __str__(self) -> str:
        return (
            f"cannot run pod {self.full_name} of {self.loser}: {self.winner} has the same name and "
            "keeps it; rename or remove one of them"
        )


def merge(
    state: MergeState, delivered: SourceSet, now_seen: str
) -> tuple[MergeState, tuple[PodUpdate, ...], tuple[NameConflict, ...]]:
    """Return the new state, the updates in order of emission, and every conflict that exists now.

    `now_seen` is the wall time for the annotation config.seen (RFC 3339, nine digits).
    """
    first = delivered.source not in state.sets
    sets = {**state.sets, delivered.source: delivered}
    wanted, conflicts = _settle(state, sets)
    # What was adopted for a source that is silent stays as it is.
    pods: dict[str, Pods] = {s: given for s, given in state.pods.items() if s not in sets}
    made_of: dict[str, Pods] = {}
    changes: dict[Op, list[PodUpdate]] = {op: [] for op in Op}
    for source in _sources(sets):
        made_of[source] = {record.uid: record for record in wanted.get(source, ())}
        pods[source], by_op = _difference(state, made_of[source], source, now_seen)
        for op, records in by_op.items():
            if records:
                changes[op].append(PodUpdate(op, source, tuple(records)))
    if first and not any(
        update.source == delivered.source
        for op in (Op.ADD, Op.UPDATE, Op.DELETE)
        for update in changes[op]
    ):
        changes[Op.DELETE].append(
            PodUpdate(Op.ADD, delivered.source, ())
        )  # tells that the source is there
    order = (Op.REMOVE, Op.ADD, Op.UPDATE, Op.DELETE, Op.RECONCILE)
    updates = tuple(update for op in order for update in changes[op])
    return MergeState(sets, pods, made_of, state.ran), updates, conflicts


def adopted(state: MergeState, source: str, records: Iterable[PodRecord]) -> MergeState:
    """Return the state with pods given out for a source that hasn't delivered yet."""
    given = {record.uid: record for record in records}
    return replace(state, pods={**state.pods, source: given})


def sources_ready(configured: Iterable[str], seen: Iterable[str]) -> bool:
    """Return True when every source that is configured has delivered; others never count."""
    return set(configured) <= set(seen)


def _sources(sets: Mapping[str, SourceSet]) -> list[str]:
    return sorted(sets, key=lambda source: (source not in _ORDER, source))


def _settle(
    state: MergeState, sets: Mapping[str, SourceSet]
) -> tuple[dict[str, list[PodRecord]], tuple[NameConflict, ...]]:
    """Return what each source may run: one document a name and a uid among file and http."""
    wanted: dict[str, list[PodRecord]] = {
        source: list(given.pods) for source, given in sets.items() if source == API
    }
    claims = [(s, r) for s in _sources(sets) if s != API for r in sets[s].pods]
    owners = dict(state.ran) | {
        record.pod.full_name: (source, record)
        for source, pods in state.pods.items()
        if source != API
        for record in pods.values()
    }
    claims.sort(key=lambda claim: _rank(claim[0], claim[1], owners.get(claim[1].pod.full_name)))
    names: dict[str, PodRecord] = {}
    uids: dict[str, PodRecord] = {}
    conflicts = []
    for source, record in claims:
        name = record.pod.full_name
        winner = names.get(name) or uids.get(record.uid)
        if winner is not None:
            conflicts.append(NameConflict(name, winner.origin, record.origin))
            continue
        names[name] = uids[record.uid] = record
        wanted.setdefault(source, []).append(record)
    return wanted, tuple(sorted(conflicts, key=lambda c: (c.full_name, c.loser)))


def _rank(source: str, record: PodRecord, owner: tuple[str, PodRecord] | None) -> tuple[Any, ...]:
    """Order of claims: what runs, then its file (its number may move), then source and origin."""
    nearness = 3
    if owner is not None and owner[0] == source:
        running = owner[1]
        if running.uid == record.uid:
            nearness = 0
        elif running.origin == record.origin:
            nearness = 1
        elif _location(running.origin) == _location(record.origin):
            nearness = 2
    order = _ORDER.index(source) if source in _ORDER else len(_ORDER)
    return nearness, order, record.origin, record.uid


def _location(origin: str) -> str:
    return origin.rpartition("#")[0] or origin


def _difference(
    state: MergeState, wanted: Pods, source: str, now_seen: str
) -> tuple[Pods, dict[Op, list[PodRecord]]]:
    known, made_of = state.pods.get(source, {}), state.made_of.get(source, {})
    pods: dict[str, PodRecord] = {}
    changes: dict[Op, list[PodRecord]] = {op: [] for op in Op}
    for record in sorted(wanted.values(), key=_age):
        old = known.get(record.uid)
        if old is not None and made_of.get(record.uid) is record:
            new = old
        elif old is None:
            new = _annotated(record, {CONFIG_SOURCE: source, CONFIG_SEEN: now_seen})
            changes[Op.ADD].append(new)
        else:
            new = _annotated(record, _local(old.pod))
            if op := _change(old.pod, new.pod):
                changes[op].append(new)
        pods[record.uid] = new
    changes[Op.REMOVE] = [record for uid, record in known.items() if uid not in pods]
    return pods, changes


def _age(record: PodRecord) -> tuple[str, str, str]:
    """Order of admission: whoever was there first (kubelet HandlePodAdditions)."""
    return record.pod.metadata.creation_timestamp or "", record.pod.full_name, record.uid


def _change(old: Pod, new: Pod) -> Op | None:
    if _meaning(old) != _meaning(new):
        return Op.DELETE if new.metadata.deletion_timestamp else Op.UPDATE
    return Op.RECONCILE if old.status != new.status else None


def _meaning(pod: Pod) -> tuple[Any, ...]:
    meta = pod.metadata
    annotations = {k: v for k, v in meta.annotations.items() if k not in LOCAL_ANNOTATIONS}
    return (
        pod.spec,
        meta.labels,
        meta.deletion_timestamp,
        meta.deletion_grace_period_seconds,
        annotations,
    )


def _local(pod: Pod) -> dict[str, str]:
    annotations = pod.metadata.annotations
    return {key: annotations[key] for key in LOCAL_ANNOTATIONS if key in annotations}


def _annotated(record: PodRecord, local: Mapping[str, str]) -> PodRecord:
    """Set the local annotations in the typed pod and in its document."""
    pod, raw = record.pod, record.raw
    annotations = {**pod.metadata.annotations, **local}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    raw_metadata = {**raw.get("metadata", {}), "annotations": annotations}
    return replace(
        record,
        pod=msgspec.structs.replace(pod, metadata=metadata),
        raw={**raw, "metadata": raw_metadata},
    )
