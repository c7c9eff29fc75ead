"""One answer of one check."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad it is. unknown: it could not be looked at."""

    FINE = "fine"
    WARNING = "warning"
    PROBLEM = "problem"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Finding:
    """`check`: what was looked at; `cure`: what to do about it, empty where nothing is to be done."""

    check: str
    level: Level
    said: str
    cure: str = ""


def fine(check: str, said: str) -> Finding:
    """As it should be."""
    return Finding(check, Level.FINE, said)


def warning(check: str, said: str, cure: str) -> Finding:
    """Works, and may not for long."""
    return Finding(check, Level.WARNING, said, cure)


def problem(check: str, said: str, cure: str) -> Finding:
    """The user has to act."""
    return Finding(check, Level.PROBLEM, said, cure)


def unknown(check: str, why: object) -> Finding:
    """Could not be looked at."""
    return Finding(check, Level.UNKNOWN, str(why), "look with an account that may read it")
