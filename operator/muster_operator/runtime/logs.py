"""Structured logs and their levels."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, TextIO

import structlog
from structlog.typing import EventDict, WrappedLogger

from muster_si import log_lines
from muster_si.log_lines import LogFormat, Retold

_NAMES: Final = logging.getLevelNamesMapping()


class LogLevel(StrEnum):
    """debug = reasons, info = what users can see, warning = someone must act."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


#: By the beginning of a logger's name, the longest first.
_SUBSYSTEMS: Final = {
    "muster.admission": "admission.webhook",
    "muster.core": "shim.rmcallback",
    "muster.fast_path": "kubernetes",
    "muster.config": "shim.config",
    "muster.credentials": "kubernetes",
    "muster.comparison": "kubernetes",
    "muster.kube": "shim.client",
    "muster.loop": "shim.context",
    "muster.session": "shim.scheduler",
}

#: Everything of the operator that has no name of its own.
_ALL: Final = "shim"

#: The library that watches and serves for us logs through the standard library.
_KUBERNETES: Final = "kubernetes"


class _Logger(structlog.WriteLogger):
    """Writes lines, and knows which of the contract's subsystems they are from."""

    def __init__(self, file: TextIO, name: str) -> None:
        super().__init__(file)
        self.name = name
        self.subsystem = subsystem(name)


class _Threshold:
    """Drops what is below the level in force: of the subsystem, of the nearest one above it, of all."""

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
        """Another level of the process, other levels of the settings; None = as it was."""
        self._own = self._own if own is None else own
        self._followed = self._followed if followed is None else dict(followed)
        number = self.level(_KUBERNETES)
        logging.getLogger().setLevel(number)
        # kopf says at INFO what it starts and stops, once per resource: of use to those who debug kopf.
        logging.getLogger("kopf").setLevel(max(number, logging.WARNING) if number > logging.DEBUG else number)


_THRESHOLD: Final = _Threshold()

#: What kopf says of a request that it will send once more. Nobody must act on it: an API server comes back.
_AGAIN: Final = re.compile(
    r"Request attempt (?P<attempt>\S+) failed; (?P<then>(?:\w+ closed; )?will [\w-]+): "
    r"(?P<method>[A-Z]+) (?P<url>\S+)(?: -> (?P<error>.*))?",
    re.DOTALL,
)

#: In the words of aiohttp; the URL says the same.
_CONNECTION: Final = re.compile(r"ConnectionKey\([^()]*\),? ?")

#: Of an answer's text; what comes behind is the API server's Status once more, as a dict.
_ERROR_CHARACTERS: Final = 200


def configure(level: str, form: LogFormat) -> None:
    """Set up both structlog and the standard library's logging, which kopf uses. Once per process."""
    log_lines.configure(form, [_THRESHOLD], _named, convert)
    set_level(level)


def convert(record: logging.LogRecord) -> Retold | None:
    """A failed request that kopf repeats, as a warning in parts; None for every other record."""
    if record.levelno != logging.ERROR:
        return None
    found = _AGAIN.match(record.getMessage())
    if found is None:
        return None
    parts = {name: found[name] for name in ("method", "url", "attempt")}
    if found["error"]:
        parts["error"] = _CONNECTION.sub("", found["error"])[:_ERROR_CHARACTERS]
    return Retold(logging.WARNING, f"a request failed; {found['then']}", parts)


def set_level(level: str) -> None:
    """Use another level from now on where the settings have none; a name of the standard library, in any case."""
    _THRESHOLD.use(_NAMES[level.upper()], None)


def follow(levels: Mapping[str, str]) -> None:
    """Use the levels of the settings: by subsystem, "" = all. What they do not name is as the command line has it."""
    _THRESHOLD.use(None, {name: _NAMES[level] for name, level in levels.items()})


def subsystem(logger: str) -> str:
    """The contract's name for what a logger is of."""
    while logger and logger not in _SUBSYSTEMS:
        logger = logger.rpartition(".")[0]
    return _SUBSYSTEMS.get(logger, _ALL)


def _named(*names: str) -> _Logger:
    return _Logger(sys.stderr, names[0] if names else "")
