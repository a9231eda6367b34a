"""Structured logs: coloured lines on a terminal, JSON otherwise; constant events, variable keys.

Pod, uid and container are bound once per task through contextvars.
"""

import logging
import sys

import structlog


def set_up(*, verbosity: int = 0, json_format: bool | None = None) -> None:
    """Configure logging for the process; `verbosity` is the kubelet's --v (4 and more: debug)."""
    as_json = not sys.stderr.isatty() if json_format is None else json_format
    level = logging.DEBUG if verbosity >= 4 else logging.INFO  # noqa: PLR2004  klog's debug level
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer() if as_json else structlog.dev.ConsoleRenderer()
    )
    processors: list[structlog.types.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    if as_json:
        processors.append(structlog.processors.format_exc_info)
    structlog.configure(
        processors=[*processors, renderer],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
