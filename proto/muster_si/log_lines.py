"""One format for all log lines of a process: of structlog, of libraries that use `logging`, and of Python itself.

Operator and core call `configure` once at their start and choose the levels. A line has `event`, `level`, `logger`,
`timestamp` (ISO 8601, UTC), further fields of the event, and the `exception` as text if there was one.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Sequence
from enum import StrEnum
from types import TracebackType
from typing import Protocol, TextIO

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor, WrappedLogger


class LogFormat(StrEnum):
    """JSON for log collectors, console for people."""

    JSON = "json"
    CONSOLE = "console"


class NamedLogger(Protocol):
    """The logger that structlog writes lines to. It has a name."""

    name: str


class _LineHandler(logging.StreamHandler[TextIO]):
    """Writes the records of the standard library's logging."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__(sys.stderr)
        self.setFormatter(formatter)

    def emit(self, record: logging.LogRecord) -> None:
        """Writes to the present standard error, which tests replace."""
        self.stream = sys.stderr
        super().emit(record)


def configure(
    form: LogFormat,
    first: Sequence[Processor],
    factory: Callable[..., NamedLogger],
) -> None:
    """Configures structlog and `logging` to write lines of the same format to standard error.

    Args:
        form: JSON or console.
        first: structlog processors that run first and drop events below their level.
        factory: creates a logger by name.
    """
    renderer, errors = _rendering(form)
    facts: list[Processor] = [structlog.processors.add_log_level, _add_logger]
    stamp = structlog.processors.TimeStamper(fmt="iso", utc=True)
    structlog.configure(
        processors=[*first, *facts, stamp, *errors, renderer],
        logger_factory=factory,
        cache_logger_on_first_use=True,
    )
    formatter = ProcessorFormatter(
        foreign_pre_chain=[*facts, stamp, *errors],
        processors=[ProcessorFormatter.remove_processors_meta, renderer],
    )
    root = logging.getLogger()
    for handler in root.handlers[:]:
        if isinstance(handler, _LineHandler):
            root.removeHandler(handler)
    root.addHandler(_LineHandler(formatter))
    logging.captureWarnings(capture=True)


def log_uncaught_exceptions() -> None:
    """Logs unhandled errors of the process, of threads and of finalizers. For whole processes."""
    log = logging.getLogger("python")

    def ended(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, Exception):
            sys.__excepthook__(kind, error, trace)
            return
        log.critical("the process ends because of an unhandled error", exc_info=(kind, error, trace))

    def thread_ended(failure: threading.ExceptHookArgs) -> None:
        if failure.exc_value is not None and failure.exc_type is not SystemExit:
            log.error(
                "a thread ended because of an unhandled error",
                exc_info=(failure.exc_type, failure.exc_value, failure.exc_traceback),
            )

    def ignored(failure: sys.UnraisableHookArgs) -> None:
        if failure.exc_value is not None:
            log.error(
                "%s: %r",
                failure.err_msg or "an error was ignored",
                failure.object,
                exc_info=(failure.exc_type, failure.exc_value, failure.exc_traceback),
            )

    sys.excepthook, threading.excepthook, sys.unraisablehook = ended, thread_ended, ignored


def _rendering(form: LogFormat) -> tuple[Processor, list[Processor]]:
    if form is LogFormat.JSON:
        return structlog.processors.JSONRenderer(default=str), [structlog.processors.format_exc_info]
    # Without values of local variables, which can be secrets or very large.
    plain = structlog.dev.plain_traceback
    colors = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return structlog.dev.ConsoleRenderer(exception_formatter=plain, colors=colors), []


def _add_logger(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    record = event.get("_record")
    event["logger"] = logger.name if record is None else record.name
    return event
