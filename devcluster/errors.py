"""What can go wrong around a development cluster.

DevclusterError
├── BuildFailed          a Go program could not be built, or Go itself is missing
├── ProcessFailed        a child died or never got ready; carries the tail of its log
├── ConditionNotMet      a deadline passed; carries what was seen last
├── FlavourUnavailable   MUSTER_CLUSTER names something that does not answer here
└── ApiError             the API server refused a request
"""

from __future__ import annotations


class DevclusterError(Exception):
    """Base of everything this tool raises on purpose."""


class BuildFailed(DevclusterError):
    """A program could not be built; ``output`` holds the end of the compiler's words."""

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
    """The wanted kind of cluster cannot be had on this machine."""


class ApiError(DevclusterError):
    """The API server answered with a failure."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
