import pytest
from hypothesis import given
from hypothesis import strategies as st

from minikubelet.lifecycle.status import Verdict
from minikubelet.pods.ending import MAX_GRACE, Ending, Kill, merged

KILLS = st.builds(
    Kill,
    removed=st.booleans(),
    deleted=st.booleans(),
    grace=st.none() | st.floats(0, 1000, allow_nan=False),
)


@pytest.mark.parametrize(
    ("earlier", "kill", "expected"),
    [
        pytest.param(None, Kill(removed=False), Ending(130.0, 30.0), id="the-pod-s-own-grace"),
        pytest.param(
            None, Kill(removed=True, grace=0), Ending(101.0, 1.0, removed=True), id="least"
        ),
        pytest.param(
            None,
            Kill(removed=False, deleted=True, grace=2**63 - 1),
            Ending(100.0 + MAX_GRACE, MAX_GRACE, deleted=True),
            id="as-much-as-a-runtime-can-count",
        ),
        pytest.param(
            Ending(110.0, 30.0),
            Kill(removed=False, deleted=True, grace=5),
            Ending(105.0, 5.0, deleted=True),
            id="shorter",
        ),
        pytest.param(
            Ending(110.0, 30.0, deleted=True),
            Kill(removed=True, grace=60),
            Ending(110.0, 30.0, removed=True, deleted=True),
            id="longer-changes-only-what-sticks",
        ),
    ],
)
def test_wishes_merge(earlier: Ending | None, kill: Kill, expected: Ending) -> None:
    assert merged(earlier, kill, own_grace=30.0, now=100.0) == expected


@given(st.lists(KILLS, min_size=1, max_size=5))
def test_the_deadline_never_moves_away_and_nothing_is_taken_back(kills: list[Kill]) -> None:
    ending: Ending | None = None
    for now, kill in enumerate(kills):
        after = merged(ending, kill, own_grace=30.0, now=float(now))
        if ending is not None:
            assert after.deadline <= ending.deadline
            assert after.removed >= ending.removed
            assert after.deleted >= ending.deleted
        ending = after
    assert ending is not None
    assert ending.unwanted == any(kill.removed or kill.deleted for kill in kills)


def test_it_is_written_down_in_wall_time() -> None:
    verdict = Verdict("Failed", "Evicted", "no room", "told")
    noted = Ending(105.0, 30.0, deleted=True).note(verdict, now=100.0, wall_ns=10**18)
    assert noted.deadline_ns == 10**18 + 5 * 10**9
    assert (noted.removed, noted.deleted, noted.disruption) == (False, True, "told")
