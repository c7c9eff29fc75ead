"""Structured logs, and log levels by subsystem with the names of YuniKorn's."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from muster_si import log_lines
from muster_si.log_lines import LogFormat

_NAMES: Final = logging.getLevelNamesMapping()


class LogLevel(StrEnum):
    """debug: reasons; info: changes that users can see; warning: someone must act."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


#: Subsystem by prefix of the logger's name.
_SUBSYSTEMS: Final = {
    "muster.admission": "admission.webhook",
    "muster.core": "shim.rmcallback",
    "muster.config": "shim.config",
    "muster.credentials": "kubernetes",
    "muster.comparison": "kubernetes",
    "muster.kopf": "kubernetes",
    "muster.kube": "shim.client",
    "muster.loop": "shim.context",
    "muster.session": "shim.scheduler",
}

#: Subsystem of all other loggers of the operator.
_ALL: Final = "shim"

#: Subsystem of libraries that use the standard library's logging, such as kopf.
_KUBERNETES: Final = "kubernetes"


class _Logger(structlog.WriteLogger):
    """A logger with the name of its subsystem."""

    def __init__(self, file: TextIO, name: str) -> None:
        super().__init__(file)
        self.name = name
        self.subsystem = subsystem(name)


class _Threshold:
    """Drops events below the level of the subsystem, of the nearest higher subsystem, or of the process."""

    def __init__(self) -> None:
        self._own = logging.INFO
        self._followed: dict[str, int] = {}

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
        if _NAMES.get(method.upper(), logging.ERROR) < self.level(getattr(logger, "subsystem", _ALL)):
            raise structlog.DropEvent
        return event

    def level(self, name: str) -> int:
        while name and name not in self._followed:
            name = name.rpartition(".")[0]
        return self._followed.get(name, self._own)

    def use(self, own: int | None, followed: Mapping[str, int] | None) -> None:
        """Sets the level of the process and the levels of the settings; None = unchanged."""
        self._own = self._own if own is None else own
        self._followed = self._followed if followed is None else dict(followed)
        number = self.level(_KUBERNETES)
        logging.getLogger().setLevel(number)
        # kopf logs as an error what it repeats, and `handlers` reports why it ended. Only failed handlers are logged.
        logging.getLogger("kopf").setLevel(logging.CRITICAL)
        logging.getLogger("kopf.objects").setLevel(max(number, logging.WARNING))


_THRESHOLD: Final = _Threshold()


def configure(level: str, form: LogFormat) -> None:
    """Configures structlog and the standard library's logging, which kopf uses. Once per process."""
    log_lines.configure(form, [_THRESHOLD], _named)
    set_level(level)


def set_level(level: str) -> None:
    """Sets the level of the process for subsystems without a setting; a level name of the standard library."""
    _THRESHOLD.use(_NAMES[level.upper()], None)


def follow(levels: Mapping[str, str]) -> None:
    """Sets the levels of the settings by subsystem, "" = all. Others have the level of the process."""
    _THRESHOLD.use(None, {name: _NAMES[level] for name, level in levels.items()})


def subsystem(logger: str) -> str:
    """The subsystem of a logger."""
    while logger and logger not in _SUBSYSTEMS:
        logger = logger.rpartition(".")[0]
    return _SUBSYSTEMS.get(logger, _ALL)


def _named(*names: str) -> _Logger:
    return _Logger(sys.stderr, names[0] if names else "")
