"""The journal: repeats counted, the newest kept, each told once."""

import time
from itertools import count

from structlog.testing import capture_logs

from minikubelet.observe.events import NORMAL, WARNING, Journal, PodRef

WEB = PodRef("default", "web", "uid-1", "spec.containers{app}")
OTHER = PodRef("default", "other", "uid-2")


def a_journal(size: int = 1000) -> Journal:
    return Journal(count(1).__next__, size)


def test_a_repeat_counts_and_is_told_once() -> None:
    journal = a_journal()
    with capture_logs() as logs:
        for _ in range(3):
            journal.emit(WEB, WARNING, "BackOff", "Back-off restarting")
    (event,) = journal.all()
    assert (event.count, event.first_seen_ns, event.last_seen_ns) == (3, 1, 3)
    assert logs == [
        {
            "event": "event",
            "log_level": "warning",
            "pod": "default/web",
            "uid": "uid-1",
            "reason": "BackOff",
            "message": "Back-off restarting",
            "field": "spec.containers{app}",
        }
    ]


def test_events_that_differ_in_anything_are_several() -> None:
    journal = a_journal()
    journal.emit(WEB, NORMAL, "Pulled", "a")
    journal.emit(WEB, NORMAL, "Pulled", "b")
    journal.emit(WEB, WARNING, "Pulled", "a")
    journal.emit(WEB, NORMAL, "Created", "a")
    journal.emit(OTHER, NORMAL, "Pulled", "a")
    assert [event.count for event in journal.all()] == [1] * 5


def test_a_repeat_is_news_and_the_oldest_goes_first() -> None:
    journal = a_journal(size=2)
    journal.emit(WEB, NORMAL, "One", "")
    journal.emit(WEB, NORMAL, "Two", "")
    journal.emit(WEB, NORMAL, "One", "")
    journal.emit(WEB, NORMAL, "Three", "")
    assert [(event.reason, event.count) for event in journal.all()] == [("One", 2), ("Three", 1)]


def test_events_of_one_pod() -> None:
    journal = a_journal()
    journal.emit(WEB, NORMAL, "One", "")
    journal.emit(OTHER, NORMAL, "Two", "")
    journal.emit(WEB, NORMAL, "Three", "")
    assert [event.reason for event in journal.of("uid-1")] == ["One", "Three"]


def test_repeats_stay_cheap_in_a_full_journal() -> None:
    journal = a_journal(size=20_000)
    with capture_logs():
        for number in range(20_000):
            journal.emit(WEB, NORMAL, "Pulled", str(number))
    began = time.process_time()
    for number in range(20_000):
        journal.emit(WEB, NORMAL, "Pulled", str(number))
    # A search through the journal for each would take minutes.
    assert time.process_time() - began < 2
