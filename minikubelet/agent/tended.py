"""Parts of the agent that an answer nobody foresaw must not end.

What an apiserver sends may be anything. A part that crashes over it is told in the log and starts
anew after a moment; pods, which need none of these parts to run, never notice.
"""

from collections.abc import Awaitable, Callable

import anyio
import structlog

CRASH_DELAY = 5.0

_log = structlog.get_logger("agent")


async def tended(name: str, run: Callable[[], Awaitable[object]]) -> None:
    """Run a part to its end, as often as it crashes."""
    while True:
        try:
            await run()
        except Exception:  # noqa: BLE001  whatever it is, the other parts go on
            _log.exception("a part of the agent crashed, it starts anew", part=name)
            await anyio.sleep(CRASH_DELAY)
        else:
            return
