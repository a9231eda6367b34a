"""When the sync loop counts as stuck."""

from dataclasses import dataclass

from minikubelet.agent.health import TOO_LONG, HealthChecks

STUCK = "sync Loop took longer than expected"


@dataclass
class Hands:
    now: float = 1000.0

    def monotonic(self) -> float:
        return self.now

    def wall_ns(self) -> int:
        return 0


def test_a_runtime_that_is_away_for_too_long_is_told_until_it_is_back() -> None:
    clock = Hands()
    checks = HealthChecks(clock)
    clock.now += 10 * TOO_LONG
    assert checks.results() == {"ping": "", "log": "", "syncloop": ""}  # before the first answer
    checks.runtime_changed("")
    checks.runtime_changed("down")
    clock.now += TOO_LONG
    assert checks.results()["syncloop"] == ""
    checks.runtime_changed("down for another reason")
    clock.now += 1
    assert checks.results() == {"ping": "", "log": "", "syncloop": STUCK}
    checks.runtime_changed("")
    assert checks.results()["syncloop"] == ""
