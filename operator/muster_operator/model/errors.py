"""Exceptions of the operator."""

from __future__ import annotations


class OperatorError(Exception):
    """Base class of the errors of `model` and `translate`."""


class ImpossibleTransitionError(OperatorError):
    """The state table has no row for this state and event."""

    def __init__(self, state: str, event: str) -> None:
        super().__init__(f"no transition from {state} on {event}")


class BadInputError(OperatorError):
    """A field of an annotation or object is invalid.

    Raised and caught inside ``translate``. The controller gets a value with the text.
    """

    def __init__(self, field: str, problem: str, fix: str) -> None:
        super().__init__(f"{field}: {problem}; {fix}")
        self.field = field
        self.problem = problem
        self.fix = fix


class LinkError(Exception):
    """Base class of errors of connections and of the process."""


class NoCredentials(LinkError):
    """There is neither a service account nor a usable kubeconfig."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"no credentials for a Kubernetes API server: {reason}")
        self.reason = reason


class Unreachable(LinkError):
    """The API server did not answer. It is unknown whether it carried out the request."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"{what}: {reason}")
        self.reason = reason


class NotLeading(Unreachable):
    """The leadership guard stopped a write, before it was sent or before its response."""

    def __init__(self, what: str) -> None:
        super().__init__(what, "this operator does not hold the lease")


class ApiRefused(LinkError):
    """The API server answered with an error status."""

    def __init__(self, what: str, status: int, reason: str) -> None:
        super().__init__(f"{what}: {status} {reason}")
        self.status = status
        self.reason = reason


class AnswerTooLarge(LinkError):
    """The response of the API server exceeds the limit."""

    def __init__(self, what: str, most_bytes: int) -> None:
        super().__init__(f"{what}: the answer has more than {most_bytes} bytes")


class Uncertain(LinkError):
    """The API server answered incompletely, so that it is unknown whether another scheduler runs."""


class PartEnded(LinkError):
    """A part of the operator ended unexpectedly. The process has to restart."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(f"{part} ended: {reason}")
        self.part = part


class LeadershipLost(PartEnded):
    """The Lease has, or had, another holder, so that the state and plans of this replica are outdated."""

    def __init__(self, lease: str, holder: str) -> None:
        super().__init__("leadership", f"{holder or 'another operator'} took the lease {lease}")
        self.holder = holder


class StartupRefused(LinkError):
    """The operator cannot start with these options. The message has the reason and the fix."""


class ConfigurationRejected(StartupRefused):
    """The ConfigMaps cannot be applied. `key` is the invalid entry."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


class BadSetting(ConfigurationRejected):
    """The value of a setting is invalid."""

    def __init__(self, key: str, value: str, fix: str) -> None:
        super().__init__(key, f"setting {key}: invalid value {value!r}: {fix}")
        self.value = value
        self.fix = fix
