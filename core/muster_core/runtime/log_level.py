"""Log levels per subsystem that can change while the process runs.

The subsystem names are those of the setting `log.<subsystem>.level` (docs/reference/settings.md). The entry point
installs the structlog processor `Threshold`.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from enum import StrEnum
from typing import Final, Protocol, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from muster_core.config.settings import DEFAULT_SETTINGS, CoreSettings, Severity

_NUMBERS: Final = logging.getLevelNamesMapping()

#: Subsystem of modules without an entry in `_SUBSYSTEMS`.
_ALL: Final = "core"

_SUBSYSTEMS: Final = {
    "muster_core.main": "core.entrypoint",
    "muster_core.si.events": "core.events",
    "muster_core.runtime.user_groups": "core.security",
    "muster_core.runtime.loop": "core.scheduler",
    "muster_core.metrics": "core.metrics",
    "muster_core.runtime.diagnostics": "core.diagnostics",
    "muster_core.runtime.sessions": "core.scheduler",
    "muster_core.rest": "core.rest",
    "muster_core.runtime.service": "core.rmproxy",
    "muster_si.transport": "core.rpc",
}


class LogLevel(StrEnum):
    """Level of a log line. debug = reasons, info = changes that users can see, warning = action needed."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


_LEVELS: Final = {
    Severity.DEBUG: LogLevel.DEBUG,
    Severity.INFO: LogLevel.INFO,
    Severity.WARNING: LogLevel.WARNING,
    Severity.ERROR: LogLevel.ERROR,
    Severity.CRITICAL: LogLevel.ERROR,  # the core does not use a higher level
}


class LevelControl(Protocol):
    """Reads and sets the log level of this process, or of a process that embeds the core."""

    @property
    def level(self) -> LogLevel:
        """The current level."""

    def set(self, level: LogLevel) -> None:
        """Sets the level."""


class SubsystemLogger(structlog.WriteLogger):
    """Writes log lines of one subsystem."""

    def __init__(self, file: TextIO, module: str) -> None:
        super().__init__(file)
        self.name = module
        self.subsystem = subsystem(module)


class Threshold:
    """Structlog processor that drops lines below the level. It also sets the level of the standard library's log."""

    def __init__(self, level: LogLevel) -> None:
        self._start = level
        self._level = level
        self._number = _NUMBERS[level.value.upper()]
        self._followed = DEFAULT_SETTINGS.severities
        self._numbers: dict[str, int] = {}

    @property
    def level(self) -> LogLevel:
        """The current level of all subsystems without a level of their own."""
        return self._level

    def set(self, level: LogLevel) -> None:
        """Sets the level."""
        self._level = level
        self._number = _NUMBERS[level.value.upper()]
        logging.getLogger().setLevel(self._number)

    def follow(self, settings: CoreSettings) -> None:
        """Applies changed levels of the settings. Without a level in the settings, the level of the start applies."""
        if settings.severities == self._followed:
            return
        self._followed = settings.severities
        everywhere = settings.severity("")
        self.set(self._start if everywhere is None else _LEVELS[everywhere])
        named = replace(settings, severities={name: found for name, found in settings.severities.items() if name})
        levels = {name: named.severity(name) for name in {_ALL, *_SUBSYSTEMS.values()}}
        self._numbers = {name: _NUMBERS[level.value.upper()] for name, level in levels.items() if level is not None}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        """Returns the event. Raises DropEvent if it is below the level."""
        least = self._numbers.get(getattr(logger, "subsystem", _ALL), self._number)
        if _NUMBERS.get(method.upper(), logging.ERROR) < least:
            raise structlog.DropEvent
        return event


def subsystem(module: str) -> str:
    """Returns the subsystem of a module of the core: that of the nearest package with a name."""
    while module and module not in _SUBSYSTEMS:
        module = module.rpartition(".")[0]
    return _SUBSYSTEMS.get(module, _ALL)
