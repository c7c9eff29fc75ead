"""What can go wrong between a resource manager and the scheduler.

    SchedulerInterfaceError
    ├── Refused        the other side read the message and says no; it says why
    ├── SessionLost    the session is over; register again
    └── AddressError   an address or its TLS files cannot be used as given

Raised by both transports alike, so neither side ever sees a gRPC error.
"""

from __future__ import annotations

from enum import StrEnum


class RefusalCode(StrEnum):
    """Why a whole message or call was refused; maps one to one on a gRPC status."""

    INVALID_ARGUMENT = "INVALID_ARGUMENT"
    NOT_FOUND = "NOT_FOUND"
    FAILED_PRECONDITION = "FAILED_PRECONDITION"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    UNAUTHENTICATED = "UNAUTHENTICATED"


class SchedulerInterfaceError(Exception):
    """Root of this package's errors."""


class Refused(SchedulerInterfaceError):
    """The scheduler refused a message or call as a whole.

    Items that can be refused one by one (an ask, a node, an application) come
    back in the Rejected* messages of seed 003 instead.
    """

    def __init__(self, code: RefusalCode, reason: str) -> None:
        super().__init__(f"{code}: {reason}")
        self.code = code
        self.reason = reason


class SessionLost(SchedulerInterfaceError):
    """The session ended: connection lost, replaced, refused, overrun or closed."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AddressError(SchedulerInterfaceError):
    """A socket address, or the TLS files beside it, cannot be used as given; the message says what to change."""

    def __init__(self, address: str, reason: str) -> None:
        super().__init__(f"{address}: {reason}")
        self.address = address
        self.reason = reason
