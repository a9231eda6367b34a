import pytest

from minikubelet.kube.backoff import Backoff


@pytest.mark.parametrize(
    ("random", "pauses"),
    [
        (0.0, [0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 15, 15]),
        (1.0, [0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 30, 30]),
    ],
)
def test_pauses_double_to_half_a_minute_and_are_spread(random: float, pauses: list[float]) -> None:
    backoff = Backoff(lambda: random)
    assert [backoff.failed() for _ in pauses] == pytest.approx(pauses)


def test_a_success_starts_anew() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.failed(), backoff.failed()] == [0.8, 1.6]
    backoff.succeeded()
    assert backoff.failed() == 0.8


def test_what_the_server_asks_for_is_the_least() -> None:
    assert Backoff(lambda: 0.0).failed(asked=7) == pytest.approx(7.4)


def test_an_outage_of_weeks_overflows_nothing() -> None:
    backoff = Backoff(lambda: 1.0)
    assert [backoff.failed() for _ in range(5000)][-1] == 30
