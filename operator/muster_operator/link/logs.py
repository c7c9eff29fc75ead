"""Structured logs to standard error; the level may change while the operator runs (`log.level`)."""

from __future__ import annotations

import logging
import sys
from enum import StrEnum
from typing import Final

import structlog
from structlog.typing import EventDict, Processor, WrappedLogger

_NAMES: Final = logging.getLevelNamesMapping()


class LogFormat(StrEnum):
    """json for collectors, console for people."""

    JSON = "json"
    CONSOLE = "console"


class LogLevel(StrEnum):
    """debug = reasons, info = what users can see, warning = someone must act."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class _Threshold:
    """Drops what is below the level in force."""

    def __init__(self) -> None:
        self.level = logging.INFO

    def __call__(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if _NAMES.get(method.upper(), logging.ERROR) < self.level:
            raise structlog.DropEvent
        return event


_THRESHOLD: Final = _Threshold()


def configure(level: str, form: LogFormat) -> None:
    """Set up both structlog and the standard library's logging, which kopf uses. Once per process."""
    renderer: Processor = (
        structlog.processors.JSONRenderer(default=str)
        if form is LogFormat.JSON
        # Never with the values of local variables: they may hold a user's secrets, or a whole world.
        else structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)
    )
    errors: list[Processor] = [structlog.processors.format_exc_info] if form is LogFormat.JSON else []
    structlog.configure(
        processors=[
            _THRESHOLD,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            *errors,
            renderer,
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s %(message)s")
    set_level(level)


def set_level(level: str) -> None:
    """Use another level from now on; a name of the standard library, in any case."""
    number = _NAMES[level.upper()]
    _THRESHOLD.level = number
    logging.getLogger().setLevel(number)
    # kopf says at INFO what it starts and stops, once per resource: of use to those who debug kopf.
    logging.getLogger("kopf").setLevel(max(number, logging.WARNING) if number > logging.DEBUG else number)
