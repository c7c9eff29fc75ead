"""Errors of devcluster.

DevclusterError
├── BuildFailed          a Go program could not be built, or Go itself is missing
├── ProcessFailed        a child process ended or never became ready; has the tail of its log
├── ConditionNotMet      a deadline passed; has the last result
├── FlavourUnavailable   the requested kind of cluster is not available on this machine
└── ApiError             the API server rejected a request
"""

from __future__ import annotations


class DevclusterError(Exception):
    """Base class of all errors that devcluster raises."""


class BuildFailed(DevclusterError):
    """A program could not be built. ``output`` is the end of the compiler's output."""

    def __init__(self, program: str, output: str) -> None:
        super().__init__(f"could not build {program}:\n{output}")
        self.program = program
        self.output = output


class ProcessFailed(DevclusterError):
    """A child process ended or never became ready."""

    def __init__(self, name: str, why: str, tail: str) -> None:
        super().__init__(f"{name}: {why}\n--- end of its log ---\n{tail}")
        self.name = name
        self.why = why
        self.tail = tail


class ConditionNotMet(DevclusterError):
    """A condition did not hold before its deadline."""

    def __init__(self, what: str, deadline_s: float, seen: str) -> None:
        super().__init__(f"not within {deadline_s:g} s: {what}\n{seen}")
        self.what = what
        self.seen = seen


class FlavourUnavailable(DevclusterError):
    """The requested kind of cluster is not available on this machine."""


class ApiError(DevclusterError):
    """The API server answered with an error status."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
