"""The level of the process's own log, which may change while it runs."""

from __future__ import annotations

import logging
from enum import StrEnum
from typing import Final, Protocol

import structlog
from structlog.typing import EventDict, WrappedLogger

_NUMBERS: Final = logging.getLevelNamesMapping()


class LogLevel(StrEnum):
    """What is logged: debug = reasons, info = what users can see, warning = someone must act."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LevelControl(Protocol):
    """Reads and sets the level: of this process's log, or of the log of a process that embeds the core."""

    @property
    def level(self) -> LogLevel:
        """The one in force."""

    def set(self, level: LogLevel) -> None:
        """Use another from now on."""


class Threshold:
    """A structlog processor that drops what is below the level, and steers the standard library's log too."""

    def __init__(self, level: LogLevel) -> None:
        self._level = level
        self._number = _NUMBERS[level.value.upper()]

    @property
    def level(self) -> LogLevel:
        """The one in force."""
        return self._level

    def set(self, level: LogLevel) -> None:
        """Use another from now on."""
        self._level = level
        self._number = _NUMBERS[level.value.upper()]
        logging.getLogger().setLevel(self._number)

    def __call__(self, _: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Raises DropEvent for what is below the level."""
        if _NUMBERS.get(method.upper(), logging.ERROR) < self._number:
            raise structlog.DropEvent
        return event
