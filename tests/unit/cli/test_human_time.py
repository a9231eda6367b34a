import pytest

from minikubelet.cli.human_time import human_duration, since
from tests.unit.cli.documents import NOW

HOUR, DAY, YEAR = 3600, 86_400, 365 * 86_400


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-2, "<invalid>"),
        (-1.5, "0s"),
        (0.9, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (10 * 60, "10m"),
        (3 * HOUR - 1, "179m"),
        (3 * HOUR, "3h"),
        (3 * HOUR + 60, "3h1m"),
        (8 * HOUR + 60, "8h"),
        (2 * DAY - 1, "47h"),
        (2 * DAY, "2d"),
        (2 * DAY + HOUR, "2d1h"),
        (8 * DAY + HOUR, "8d"),
        (2 * YEAR - 1, "729d"),
        (2 * YEAR + DAY, "2y1d"),
        (8 * YEAR + DAY, "8y"),
    ],
)
def test_durations_as_kubectl_shows_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        ("2026-01-02T03:04:00Z", "5s"),
        ("2026-01-02T04:04:00+01:00", "5s"),
        ("2026-01-02T03:04:00.123456789Z", "4s"),
        ("", "<unknown>"),
        ("yesterday", "<unknown>"),
    ],
)
def test_how_long_ago(moment: str, text: str) -> None:
    assert since(moment, NOW) == text
