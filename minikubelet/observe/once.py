"""What doesn't work is logged once, not at each try; the same again after it worked is news."""

import structlog

_log = structlog.get_logger("pods")


class Troubles:
    """The troubles of one pod, by what was tried."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, event: str, error: str, *, level: str = "warning", **bound: str) -> None:
        """Log an error unless it is the one that was told last; no error: it works."""
        if not error:
            self._told.pop(event, None)
        elif self._told.get(event) != error:
            self._told[event] = error
            getattr(_log, level)(event, error=error, **bound)
