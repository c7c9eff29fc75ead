"""Log levels that can change while the process runs."""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import StrEnum
from typing import Final, Protocol, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from muster_core.config.settings import DEFAULT_SETTINGS, CoreSettings, Severity

_NUMBERS: Final = logging.getLevelNamesMapping()

#: Everything that has no name of its own.
_ALL: Final = "core"

_SUBSYSTEMS: Final = {
    "muster_core.main": "core.entrypoint",
    "muster_core.si.events": "core.events",
    "muster_core.runtime.user_groups": "core.security",
    "muster_core.runtime.loop": "core.scheduler",
    "muster_core.metrics": "core.metrics",
    "muster_core.runtime.diagnostics": "core.diagnostics",
    "muster_core.runtime.dispatch": "core.scheduler",
    "muster_core.rest": "core.rest",
    "muster_core.runtime.service": "core.rmproxy",
    "muster_si.transport": "core.rpc",
}


class LogLevel(StrEnum):
    """What is logged: debug = reasons, info = what users can see, warning = someone must act."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_LEVELS: Final = {
    Severity.DEBUG: LogLevel.DEBUG,
    Severity.INFO: LogLevel.INFO,
    Severity.WARNING: LogLevel.WARNING,
    Severity.ERROR: LogLevel.ERROR,
    Severity.CRITICAL: LogLevel.ERROR,  # the core writes nothing above it
}


class LevelControl(Protocol):
    """Reads and sets the level: of this process's log, or of the log of a process that embeds the core."""

    @property
    def level(self) -> LogLevel:
        """The one in force."""

    def set(self, level: LogLevel) -> None:
        """Use another from now on."""


class SubsystemLogger(structlog.WriteLogger):
    """Writes lines, and knows which of the contract's subsystems they are from."""

    def __init__(self, file: TextIO, module: str) -> None:
        super().__init__(file)
        self.name = module
        self.subsystem = subsystem(module)


class Threshold:
    """A structlog processor that drops what is below the level, and steers the standard library's log too."""

    def __init__(self, level: LogLevel) -> None:
        self._start = level
        self._level = level
        self._number = _NUMBERS[level.value.upper()]
        self._followed = DEFAULT_SETTINGS.severities
        self._numbers: dict[str, int] = {}

    @property
    def level(self) -> LogLevel:
        """The one in force, for all subsystems that have none of their own."""
        return self._level

    def set(self, level: LogLevel) -> None:
        """Use another from now on."""
        self._level = level
        self._number = _NUMBERS[level.value.upper()]
        logging.getLogger().setLevel(self._number)

    def follow(self, settings: CoreSettings) -> None:
        """Use the levels of the settings where they have changed; where they name none, the one of the start."""
        if settings.severities == self._followed:
            return
        self._followed = settings.severities
        everywhere = settings.severity("")
        self.set(self._start if everywhere is None else _LEVELS[everywhere])
        named = replace(settings, severities={name: found for name, found in settings.severities.items() if name})
        levels = {name: named.severity(name) for name in {_ALL, *_SUBSYSTEMS.values()}}
        self._numbers = {name: _NUMBERS[level.value.upper()] for name, level in levels.items() if level is not None}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Raises DropEvent for what is below the level."""
        least = self._numbers.get(getattr(logger, "subsystem", _ALL), self._number)
        if _NUMBERS.get(method.upper(), logging.ERROR) < least:
            raise structlog.DropEvent
        return event


def subsystem(module: str) -> str:
    """The name of contract 3.1 for a module of the core: that of the nearest package that has one."""
    while module and module not in _SUBSYSTEMS:
        module = module.rpartition(".")[0]
    return _SUBSYSTEMS.get(module, _ALL)
