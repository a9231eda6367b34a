"""Structured logs: coloured lines on a terminal, JSON otherwise; constant events, variable keys.

Pod and uid are bound once per worker, a container while it is worked on, through contextvars: every
line below carries them. What libraries log through the standard library takes the same way out, so
that a reader of JSON meets nothing else.
"""

import logging
import sys

import structlog
from structlog.typing import Processor

_DEBUG_VERBOSITY = 4
"""From this --v on debug lines are shown: klog's level of debugging (k8s: community logging.md)."""


def set_up(*, verbosity: int = 0, json_format: bool | None = None) -> None:
    """Configure logging for the process; `verbosity` is the kubelet's --v."""
    as_json = not sys.stderr.isatty() if json_format is None else json_format
    level = logging.DEBUG if verbosity >= _DEBUG_VERBOSITY else logging.INFO
    shared = _shared(as_json=as_json)
    renderer: Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    )
    structlog.configure(
        processors=[*shared, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    _route_libraries(shared, renderer)


def _shared(*, as_json: bool) -> list[Processor]:
    processors: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        processors.append(structlog.processors.format_exc_info)
    return processors


def _route_libraries(shared: list[Processor], renderer: Processor) -> None:
    """Send warnings and errors of the standard library's loggers (asyncio, aiohttp) our way."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
