"""Errors between a resource manager and the scheduler.

    SchedulerInterfaceError
    ├── Refused        the other side read the message and rejected it with a reason
    ├── SessionLost    the session has ended; register again
    └── AddressError   an address or its TLS files cannot be used

Both transports raise the same errors, so that neither side handles gRPC errors.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalCode(StrEnum):
    """Why a whole message or call was rejected. Each code is a gRPC status of the same name."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class SchedulerInterfaceError(Exception):
    """Base class of this package's errors."""


class Refused(SchedulerInterfaceError):
    """The scheduler rejected a whole message or call.

    Single items (a request, a node, an application) are rejected with the Rejected* messages of si.proto instead.
    """

    def __init__(self, code: RefusalCode, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class SessionLost(SchedulerInterfaceError):
    """The session has ended: connection lost, replaced, rejected, overloaded or closed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AddressError(SchedulerInterfaceError):
    """A socket address or its TLS files cannot be used. The message has the fix."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason
