"""Exceptions of the core."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar

# Maximum length of a value, and of a path, in a message.
_LONGEST_SHOWN: Final = 80
_LONGEST_PATH: Final = 300
T = TypeVar("T")


class CoreError(Exception):
    """Base class of the core's exceptions."""


class IllegalTransition(CoreError):
    """The event `trigger` is not allowed in `state`."""

    def __init__(self, state: str, trigger: str) -> None:
        super().__init__(f"no transition from {state!s} by {trigger!s}")


class BrokenDecision(CoreError):
    """A decision is no longer valid at commit. Nothing has been written yet."""

    def __init__(self, decision: str, why: str) -> None:
        super().__init__(f"{decision} is void: {why}")


class FeatureNotInstalled(CoreError):
    """An optional feature is used but not installed. Such a use is rejected when it arrives."""


class CommitFailed(CoreError):
    """A commit raised an exception, which is the cause of this one: some of its writes may have been made."""

    def __init__(self, decision: str) -> None:
        super().__init__(f"{decision} could not be committed")


class InconsistentState(CoreError):
    """The state violates the invariants in `broken` and must be rebuilt."""

    def __init__(self, broken: list[str]) -> None:
        super().__init__(f"{len(broken)} invariants do not hold: {broken[0]}")
        self.broken = broken


def caught(act: Callable[[], T]) -> T | Exception:
    """Returns the result or the exception of `act`. Raises InconsistentState."""
    try:
        return act()
    except InconsistentState:
        raise
    except Exception as error:  # noqa: BLE001 - isolates the failure of one application or partition
        return error


class UnknownSubject(CoreError):
    """The object does not exist in the state."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {name!r}")


class DuplicateSubject(CoreError):
    """The object exists in the state already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} is there already")


class ConfigurationError(CoreError):
    """`value` at `path` of a configuration violates `rule`; `fix` is the remedy. None: the rule is about the path.

    `file`: name of the file and line; empty = a setting, and `path` is its key.
    """

    def __init__(self, path: str, value: str | None, rule: str, fix: str, file: str = "") -> None:
        where = shown(f"{file}: {path}" if file else path, _LONGEST_PATH)
        subject = where if value is None else f"{where}: '{shown(value, _LONGEST_SHOWN)}'"
        super().__init__(f"{subject} {shown(rule, _LONGEST_PATH)}; {fix}")
        self.path = path
        self.value = value
        self.rule = rule
        self.fix = fix
        self.file = file

    def within(self, file: str, line: int) -> ConfigurationError:
        """Returns the same error with file and line; 0 = no line."""
        return ConfigurationError(self.path, self.value, self.rule, self.fix, f"{file}:{line}" if line else file)


def shown(text: str, most: int) -> str:
    """Returns user text for a message: at most `most` characters, with control characters escaped."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    return cut if cut.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)
