"""Pauses between tries: from 0.8 s doubling to 30 s, spread so that nodes don't come as a herd.

Source of the two ends: client-go tools/cache/reflector.go.
"""

from collections.abc import Callable

FIRST_SECONDS = 0.8
LONGEST_SECONDS = 30.0


class Backoff:
    """The pauses of one task; `random` returns a number from [0, 1)."""

    def __init__(self, random: Callable[[], float]) -> None:
        self._random = random
        self.failures = 0
        """Tries in a row that failed."""

    def failed(self, asked: float | None = None) -> float:
        """Return the seconds to wait after one more failure.

        Between half of and the whole pause; never less than the `asked` of Retry-After, which is
        spread by up to a pause, too.
        """
        longest = min(FIRST_SECONDS * 2.0 ** min(self.failures, 10), LONGEST_SECONDS)
        self.failures += 1
        pause = longest * (0.5 + self._random() / 2)
        return pause if asked is None else asked + pause

    def succeeded(self) -> None:
        """Start anew with short pauses."""
        self.failures = 0
