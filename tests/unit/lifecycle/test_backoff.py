import pytest

from minikubelet.lifecycle.backoff import Backoff


def test_doubles_up_to_the_maximum() -> None:
    backoff = Backoff()
    assert backoff.get("k") == 0
    delays = []
    for now in range(0, 700, 100):
        backoff = backoff.next("k", now)
        delays.append(backoff.get("k"))
    assert delays == [10, 20, 40, 80, 160, 300, 300]


def test_a_maximum_below_the_first_delay_wins() -> None:
    assert Backoff(maximum=1).next("k", 0).get("k") == 1


def test_keys_do_not_share_delays() -> None:
    backoff = Backoff().next("a", 0).next("a", 1).next("b", 2)
    assert (backoff.get("a"), backoff.get("b")) == (20, 10)
    assert backoff.forget("a").get("a") == 0


@pytest.mark.parametrize(("event_time", "delay"), [(600, 20), (600.1, 10)])
def test_a_late_event_starts_from_the_beginning(event_time: float, delay: float) -> None:
    backoff = Backoff().next("k", 0)
    assert backoff.next("k", 5000, event_time).get("k") == delay
    assert backoff.get("k", event_time) == (10 if delay == 20 else 0)


def test_until_counts_from_the_last_failure() -> None:
    backoff = Backoff().next("k", 100)
    assert backoff.until("k") == 110
    assert backoff.until("none") is None


def test_gc_drops_what_has_expired() -> None:
    backoff = Backoff().next("old", 0).next("new", 500)
    assert set(backoff.gc(601).entries) == {"new"}
    assert backoff.gc(600) is backoff


def test_it_is_a_value() -> None:
    before = Backoff()
    before.next("k", 0)
    assert before == Backoff()
