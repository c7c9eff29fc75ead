"""The result of one check of `muster doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity. unknown: the check was skipped."""

    FINE = "fine"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check`: name of the check; `remedy`: what to do, empty if nothing."""

    check: str
    level: Level
    message: str
    remedy: str = ""


def fine(check: str, message: str) -> Finding:
    """The check passed."""
    return Finding(check, Level.FINE, message)


def warning(check: str, message: str, remedy: str) -> Finding:
    """Muster works, but may stop working."""
    return Finding(check, Level.WARNING, message, remedy)


def problem(check: str, message: str, remedy: str) -> Finding:
    """The user has to act."""
    return Finding(check, Level.PROBLEM, message, remedy)


def unknown(check: str, why: object) -> Finding:
    """The check was skipped."""
    return Finding(check, Level.UNKNOWN, str(why), "use an account with read permission")
