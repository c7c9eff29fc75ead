"""Exceptions of the operator."""

from __future__ import annotations


class OperatorError(Exception):
    """Root of this package's errors."""


class ImpossibleTransitionError(OperatorError):
    """A state table has no row for this pair."""

    def __init__(self, state: str, event: str, subject: str = "") -> None:
        super().__init__(f"no transition from {state} on {event}" + (f" ({subject})" if subject else ""))
        self.state = state
        self.event = event
        self.subject = subject


class BadInputError(OperatorError):
    """A field of an annotation or object cannot be used.

    Raised inside ``translate`` and caught at its border: the agent sees a value with the text.
    """

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix


class LinkError(Exception):
    """Root of the operator's errors."""


class NoCredentials(LinkError):
    """There is neither a service account nor a usable kubeconfig."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no credentials for a Kubernetes API server ({reason}): set KUBECONFIG or run in a pod")
        self.reason = reason


class Unreachable(LinkError):
    """The API server did not answer; whether it acted is unknown."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.reason = reason


class NotLeading(Unreachable):
    """A write that the fence stopped; before it was sent, or while its answer was awaited."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "this operator does not hold the lease")


class ApiRefused(LinkError):
    """The API server answered with an error status."""

    def __init__(self, what: str, status: int, reason: str) -> None:
        super().__init__(f"{what}: {status} {reason}")
        self.status = status
        self.reason = reason


class AnswerTooLarge(LinkError):
    """The answer of the API server has more bytes than are read."""

    def __init__(self, what: str, most_bytes: int) -> None:
        super().__init__(f"{what}: the answer has more than {most_bytes} bytes")


class Uncertain(LinkError):
    """The API server answered, but not what was asked: whether another scheduler runs is unknown."""


class PartEnded(LinkError):
    """A part of the operator ended by itself; the process has to start again."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part} ended: {reason}")
        self.part = part


class LeadershipLost(PartEnded):
    """The lease has, or had, another holder: what we know and plan is not in force any more."""

    def __init__(self, lease: str, holder: str) -> None:
        super().__init__("leadership", f"{holder or 'another operator'} took the lease {lease}")
        self.holder = holder


class StartupRefused(LinkError):
    """The operator cannot serve as asked; the message says why and what to do."""


class ConfigurationRejected(StartupRefused):
    """What is in the ConfigMaps cannot be put in force; `key` is the entry at fault."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class BadSetting(ConfigurationRejected):
    """A setting has a value that means nothing."""

    def __init__(self, key: str, value: str, fix: str) -> None:
        super().__init__(key, f"setting {key} = {value!r} is wrong: {fix}")
        self.value = value
        self.fix = fix
