from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.api.codec import decode_pod
from minikubelet.api.record import PodRecord
from minikubelet.sources.merge import MergeState, NameConflict, merge, sources_ready
from minikubelet.sources.updates import API, FILE, HTTP, Op, PodUpdate, SourceSet

SEEN = "2026-01-01T00:00:00.000000000Z"
LATER = "2026-01-01T00:00:01.000000000Z"


def record(
    name: str = "web", uid: str = "u1", origin: str = "/m/web.yaml", image: str = "b:1", **meta: Any
) -> PodRecord:
    raw = {
        "metadata": {"name": name, "namespace": "default", "uid": uid, **meta},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return PodRecord(decode_pod(raw), raw, origin)


def with_status(old: PodRecord, phase: str) -> PodRecord:
    status = msgspec.structs.replace(old.pod.status, phase=phase)
    return PodRecord(msgspec.structs.replace(old.pod, status=status), old.raw, old.origin)


def state_of(*sets: SourceSet) -> MergeState:
    state = MergeState()
    for delivered in sets:
        state, _, _ = merge(state, delivered, SEEN)
    return state


def told(updates: Sequence[PodUpdate]) -> list[tuple[str, str, list[str]]]:
    return [(u.op.value, u.source, [r.uid for r in u.pods]) for u in updates]


def test_a_new_pod_is_added_with_its_annotations_in_both_forms() -> None:
    _, (update,), conflicts = merge(MergeState(), SourceSet(FILE, (record(),)), SEEN)
    assert (update.op, update.source, conflicts) == (Op.ADD, FILE, ())
    expected = {"kubernetes.io/config.source": "file", "kubernetes.io/config.seen": SEEN}
    assert update.pods[0].pod.metadata.annotations == expected
    assert update.pods[0].raw["metadata"]["annotations"] == expected


def test_pods_are_added_in_the_order_of_their_creation() -> None:
    pods = (
        record("a", "u1", creationTimestamp="2026-01-01T00:00:02Z"),
        record("b", "u2", creationTimestamp="2026-01-01T00:00:01Z"),
        record("c", "u3", creationTimestamp="2026-01-01T00:00:01Z"),
    )
    _, updates, _ = merge(MergeState(), SourceSet(API, pods), SEEN)
    assert told(updates) == [("ADD", "api", ["u2", "u3", "u1"])]


def test_nothing_new_gives_nothing() -> None:
    delivered = SourceSet(FILE, (record(),))
    state, updates, _ = merge(state_of(delivered), delivered, LATER)
    assert updates == ()
    assert state.pods[FILE]["u1"].pod.metadata.annotations["kubernetes.io/config.seen"] == SEEN


def test_the_very_same_record_is_not_even_compared() -> None:
    delivered = SourceSet(API, (record(), record("other", "u2")))
    before = state_of(delivered)
    changed = record("other", "u2", image="b:2")
    after, updates, _ = merge(before, SourceSet(API, (delivered.pods[0], changed)), LATER)
    assert told(updates) == [("UPDATE", "api", ["u2"])]
    assert after.pods[API]["u1"] is before.pods[API]["u1"]


def test_a_record_that_had_lost_its_uid_is_news_when_the_owner_goes() -> None:
    owner, other = record(origin="/m/a.yaml"), record("copy", origin="/m/b.yaml", image="b:2")
    state = state_of(SourceSet(FILE, (owner, other)))
    state, updates, _ = merge(state, SourceSet(FILE, (other,)), LATER)
    assert told(updates) == [("UPDATE", "file", ["u1"])]
    assert state.pods[FILE]["u1"].pod.metadata.name == "copy"


def test_the_first_empty_set_tells_that_the_source_is_there() -> None:
    state, updates, _ = merge(MergeState(), SourceSet(FILE, ()), SEEN)
    assert told(updates) == [("ADD", "file", [])]
    assert state.seen == {FILE}
    assert merge(state, SourceSet(FILE, ()), SEEN)[1] == ()


@pytest.mark.parametrize(
    ("change", "op"),
    [
        ({"image": "b:2"}, Op.UPDATE),
        ({"labels": {"a": "b"}}, Op.UPDATE),
        ({"annotations": {"a": "b"}}, Op.UPDATE),
        ({"deletionTimestamp": SEEN}, Op.DELETE),
        ({"resourceVersion": "2"}, None),
        ({"annotations": {"kubernetes.io/config.source": "api"}}, None),
        ({"annotations": {"kubernetes.io/config.seen": "x"}}, None),
        ({"annotations": {"kubernetes.io/config.mirror": "x"}}, None),
    ],
)
def test_the_same_uid_is_compared(change: dict[str, Any], op: Op | None) -> None:
    state = state_of(SourceSet(API, (record(),)))
    _, updates, _ = merge(state, SourceSet(API, (record(**change),)), LATER)
    assert [update.op for update in updates] == ([op] if op else [])
    for update in updates:
        annotations = update.pods[0].pod.metadata.annotations
        assert annotations["kubernetes.io/config.seen"] == SEEN
        assert annotations["kubernetes.io/config.source"] == "api"


def test_another_status_alone_is_reconciled() -> None:
    state = state_of(SourceSet(API, (record(),)))
    state, updates, _ = merge(state, SourceSet(API, (with_status(record(), "Running"),)), SEEN)
    assert told(updates) == [("RECONCILE", "api", ["u1"])]
    assert merge(state, SourceSet(API, (with_status(record(), "Running"),)), SEEN)[1] == ()


def test_B34_B12_an_edit_is_the_end_of_the_old_and_then_the_start_of_the_new() -> None:
    state = state_of(SourceSet(FILE, (record(uid="old"),)))
    _, updates, _ = merge(state, SourceSet(FILE, (record(uid="new", image="b:2"),)), SEEN)
    assert told(updates) == [("REMOVE", "file", ["old"]), ("ADD", "file", ["new"])]
    assert {r.pod.full_name for update in updates for r in update.pods} == {"web_default"}


def test_B10_a_manifest_that_comes_back_is_added_again() -> None:
    delivered = SourceSet(FILE, (record(),))
    state, updates, _ = merge(state_of(delivered), SourceSet(FILE, ()), SEEN)
    assert told(updates) == [("REMOVE", "file", ["u1"])]
    _, updates, _ = merge(state, delivered, LATER)
    assert told(updates) == [("ADD", "file", ["u1"])]
    assert updates[0].pods[0].pod.metadata.annotations["kubernetes.io/config.seen"] == LATER


def test_every_operation_has_its_place() -> None:
    a, b, c, d = (record(n, n, f"/m/{n}") for n in "abcd")
    state = state_of(SourceSet(API, (a, b, c, d)))
    delivered = SourceSet(
        API,
        (
            record("b", "b", image="b:2"),
            record("c", "c", deletionTimestamp=SEEN),
            with_status(d, "Running"),
            record("e", "e"),
        ),
    )
    _, updates, _ = merge(state, delivered, SEEN)
    assert [update.op for update in updates] == [
        Op.REMOVE,
        Op.ADD,
        Op.UPDATE,
        Op.DELETE,
        Op.RECONCILE,
    ]


class TestB01SameName:
    def test_B01_the_first_by_source_and_origin_wins_and_both_are_named(self) -> None:
        original = record(uid="u1", origin="/m/web.yaml")
        backup = record(uid="u2", origin="/m/web.yaml.bak2", image="b:2")
        _, updates, conflicts = merge(MergeState(), SourceSet(FILE, (backup, original)), SEEN)
        assert told(updates) == [("ADD", "file", ["u1"])]
        assert conflicts == (NameConflict("web_default", "/m/web.yaml", "/m/web.yaml.bak2"),)
        assert "/m/web.yaml.bak2" in str(conflicts[0])
        assert "/m/web.yaml has the same name" in str(conflicts[0])

    def test_B01_the_one_that_runs_keeps_the_name(self) -> None:
        running = record(uid="u1", origin="/m/z.yaml")
        state = state_of(SourceSet(FILE, (running,)))
        first = record(uid="u2", origin="/m/a.yaml")
        _, updates, (conflict,) = merge(state, SourceSet(FILE, (first, running)), SEEN)
        assert updates == ()
        assert (conflict.winner, conflict.loser) == ("/m/z.yaml", "/m/a.yaml")

    def test_B01_the_one_that_ran_before_a_restart_keeps_the_name(self) -> None:
        running = record(uid="u1", origin="/m/z.yaml")
        state = MergeState(ran={running.pod.full_name: (FILE, running)})
        first = record(uid="u2", origin="/m/a.yaml")
        _, updates, _ = merge(state, SourceSet(FILE, (first, running)), SEEN)
        assert told(updates) == [("ADD", "file", ["u1"])]
        _, updates, _ = merge(state, SourceSet(FILE, (first,)), SEEN)
        assert told(updates) == [("ADD", "file", ["u2"])]

    def test_the_running_file_keeps_the_name_when_it_is_edited(self) -> None:
        state = state_of(SourceSet(FILE, (record(uid="u1", origin="/m/z.yaml"),)))
        edited = record(uid="u3", origin="/m/z.yaml#1")
        other = record(uid="u2", origin="/m/a.yaml")
        _, updates, _ = merge(state, SourceSet(FILE, (other, edited)), SEEN)
        assert told(updates) == [("REMOVE", "file", ["u1"]), ("ADD", "file", ["u3"])]

    def test_the_loser_is_added_when_the_owner_goes(self) -> None:
        owner, loser = record(uid="u1", origin="/m/a"), record(uid="u2", origin="/m/b")
        state = state_of(SourceSet(FILE, (owner, loser)))
        _, updates, conflicts = merge(state, SourceSet(FILE, (loser,)), SEEN)
        assert told(updates) == [("REMOVE", "file", ["u1"]), ("ADD", "file", ["u2"])]
        assert conflicts == ()

    def test_file_and_http_share_the_names(self) -> None:
        from_file, from_url = record(uid="u1"), record(uid="u2", origin="http://x")
        state = state_of(SourceSet(FILE, (from_file,)))
        state, updates, (conflict,) = merge(state, SourceSet(HTTP, (from_url,)), SEEN)
        assert told(updates) == [("ADD", "http", [])]
        assert (conflict.winner, conflict.loser) == ("/m/web.yaml", "http://x")
        _, updates, _ = merge(state, SourceSet(FILE, ()), SEEN)
        assert told(updates) == [("REMOVE", "file", ["u1"]), ("ADD", "http", ["u2"])]

    def test_pods_of_the_apiserver_own_no_static_name(self) -> None:
        state = state_of(SourceSet(API, (record(uid="mirror"),)))
        _, updates, conflicts = merge(state, SourceSet(FILE, (record(uid="u1"),)), SEEN)
        assert told(updates) == [("ADD", "file", ["u1"])]
        assert conflicts == ()

    def test_two_names_cannot_share_a_given_uid(self) -> None:
        one, two = record("a", "u", "/m/a"), record("b", "u", "/m/b")
        _, updates, (conflict,) = merge(MergeState(), SourceSet(FILE, (two, one)), SEEN)
        assert told(updates) == [("ADD", "file", ["u"])]
        assert conflict.loser == "/m/b"


@pytest.mark.parametrize(
    ("configured", "seen", "ready"),
    [
        ([FILE], [], False),
        ([FILE], [FILE], True),
        ([FILE, HTTP], [FILE], False),
        ([FILE], [FILE, API], True),
        ([], [], True),
    ],
)
def test_B04_only_configured_sources_count(
    configured: list[str], seen: list[str], ready: bool
) -> None:
    assert sources_ready(configured, seen) is ready


def test_B04_a_removed_manifest_ends_its_pod_without_any_other_source() -> None:
    state, updates, _ = merge(state_of(SourceSet(FILE, (record(),))), SourceSet(FILE, ()), SEEN)
    assert told(updates) == [("REMOVE", "file", ["u1"])]
    assert sources_ready([FILE], state.seen)


records = st.builds(
    lambda name, path, image: record(
        name, f"{name}{path}{image}", f"/m/{path}", image=f"b:{image}"
    ),
    st.sampled_from("abc"),
    st.sampled_from("xyz"),
    st.integers(1, 2),
)
pods = st.lists(records, max_size=5, unique_by=lambda r: (r.pod.full_name, r.origin)).map(tuple)


def own_uids(source: str, given_pods: tuple[PodRecord, ...]) -> SourceSet:
    """A uid depends on the source as well (sources.static)."""
    return SourceSet(
        source,
        tuple(
            record(
                r.pod.metadata.name,
                source + r.uid,
                f"{source}:{r.origin}",
                r.pod.spec.containers[0].image,
            )
            for r in given_pods
        ),
    )


sets = st.builds(own_uids, st.sampled_from([FILE, HTTP]), pods)
histories = st.lists(sets, max_size=4)


def running(state: MergeState) -> dict[str, str]:
    """Full name to uid of what was given out."""
    return {r.pod.full_name: r.uid for given_out in state.pods.values() for r in given_out.values()}


@given(histories, sets)
def test_merging_twice_is_merging_once(history: list[SourceSet], delivered: SourceSet) -> None:
    state, _, conflicts = merge(state_of(*history), delivered, SEEN)
    again, updates, same = merge(state, delivered, LATER)
    assert updates == ()
    assert same == conflicts
    assert again == state


@given(histories, sets, st.randoms())
def test_the_order_within_a_set_does_not_matter(
    history: list[SourceSet], delivered: SourceSet, random: Any
) -> None:
    before = state_of(*history)
    shuffled = list(delivered.pods)
    random.shuffle(shuffled)
    one, updates, conflicts = merge(before, delivered, SEEN)
    other = merge(before, SourceSet(delivered.source, tuple(shuffled)), SEEN)
    assert other[1:] == (updates, conflicts)
    assert other[0].pods == one.pods


@given(st.lists(records, max_size=6, unique_by=lambda r: r.pod.full_name), pods, pods)
def test_the_order_of_sources_does_not_matter_once_names_have_owners(
    owners: list[PodRecord], file_pods: tuple[PodRecord, ...], url_pods: tuple[PodRecord, ...]
) -> None:
    before = state_of(SourceSet(FILE, tuple(owners)), SourceSet(HTTP, ()))
    owned = {r.pod.full_name for r in owners}
    kept = tuple(r for r in file_pods if r.pod.full_name not in owned) + tuple(owners)
    from_file = SourceSet(FILE, kept)
    from_url = SourceSet(HTTP, tuple(r for r in url_pods if r.pod.full_name in owned))
    one = merge(merge(before, from_file, SEEN)[0], from_url, SEEN)
    other = merge(merge(before, from_url, SEEN)[0], from_file, SEEN)
    assert one[0].pods == other[0].pods
    assert one[2] == other[2]


@given(histories)
def test_updates_tell_the_whole_story(history: list[SourceSet]) -> None:
    """Whoever follows the updates has exactly what the state holds, and one pod a name."""
    state, known = MergeState(), dict[str, str]()
    for delivered in history:
        state, updates, _ = merge(state, delivered, SEEN)
        for update in updates:
            for pod in update.pods:
                if update.op is Op.REMOVE:
                    assert known.pop(pod.uid) == pod.pod.full_name
                elif update.op is Op.ADD:
                    assert pod.pod.full_name not in known.values()
                    known[pod.uid] = pod.pod.full_name
        assert {name: uid for uid, name in known.items()} == running(state)


@given(histories, sets)
def test_a_running_pod_loses_its_name_only_when_its_document_goes(
    history: list[SourceSet], delivered: SourceSet
) -> None:
    before = state_of(*history)
    after, _, _ = merge(before, delivered, SEEN)
    for name, uid in running(before).items():
        documents = [r.uid for s in after.sets.values() for r in s.pods]
        if uid in documents:
            assert running(after)[name] == uid
