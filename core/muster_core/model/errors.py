"""Exceptions of the core."""

from __future__ import annotations

from typing import Final

# Of a value, and of a path, in a message for people.
_LONGEST_SHOWN: Final = 80
_LONGEST_PATH: Final = 300


class CoreError(Exception):
    """Root of the core's errors."""


class IllegalTransition(CoreError):
    """`trigger` may not happen in `state`."""

    def __init__(self, state: str, trigger: str) -> None:
        super().__init__(f"no transition from {state!s} by {trigger!s}")
        self.state = state
        self.trigger = trigger


class BrokenDecision(CoreError):
    """A decision was refused at commit, before its first write."""

    def __init__(self, decision: str, why: str) -> None:
        super().__init__(f"{decision} is void: {why}")
        self.decision = decision
        self.why = why


class CommitFailed(CoreError):
    """A commit raised an exception, which is the cause of this one: some of its writes may have been made."""

    def __init__(self, decision: str) -> None:
        super().__init__(f"{decision} could not be committed")
        self.decision = decision


class InconsistentState(CoreError):
    """`broken`: the violated invariants, for messages. The scheduler state has to be rebuilt."""

    def __init__(self, broken: list[str]) -> None:
        super().__init__(f"{len(broken)} invariants do not hold: {broken[0]}")
        self.broken = broken


class UnknownSubject(CoreError):
    """A ledger has no such thing."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"no {kind} {name!r}")
        self.kind = kind
        self.name = name


class DuplicateSubject(CoreError):
    """A ledger has such a thing already."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f"{kind} {name!r} is there already")
        self.kind = kind
        self.name = name


class ConfigurationError(CoreError):
    """`value` at `path` of a configuration breaks `rule`; `fix` says what to write instead. `file` holds it, with the
    line after a colon where there is one; empty = it is one of the settings, and `path` its key.
    """

    def __init__(self, path: str, value: str, rule: str, fix: str, file: str = "") -> None:
        where = shown(f"{file}: {path}" if file else path, _LONGEST_PATH)
        super().__init__(f"{where}: '{shown(value, _LONGEST_SHOWN)}' {shown(rule, _LONGEST_PATH)}; {fix}")
        self.path = path
        self.value = value
        self.rule = rule
        self.fix = fix
        self.file = file

    def within(self, file: str, line: int) -> ConfigurationError:
        """The same, found in that line of the file; 0 = in no line of its own."""
        return ConfigurationError(self.path, self.value, self.rule, self.fix, f"{file}:{line}" if line else file)


def shown(text: str, most: int) -> str:
    """What people wrote, for one line of a message: cut to `most` characters, control characters spelled out."""
    cut = text if len(text) <= most else f"{text[:most]}…"
    return cut if cut.isprintable() else "".join(char if char.isprintable() else repr(char)[1:-1] for char in cut)
