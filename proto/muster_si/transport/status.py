"""Conversion of rejections to gRPC status and back, and of session ends to text.

Code and reason are kept, so that the operator catches the same `Refused` that the core raised.
"""

from __future__ import annotations

from typing import Final

import grpc

from muster_si.errors import RefusalCode, Refused, SchedulerInterfaceError, SessionLost

#: Maximum characters of a reason. gRPC sends it percent-encoded in a trailer of at most 8 KiB, with up to 12 bytes for
#: a non-ASCII character and up to 3 for an ASCII one.
_REASON_CHARACTERS: Final = 600

_CODES: Final = {RefusalCode(code.name): code for code in grpc.StatusCode if code.name in RefusalCode.__members__}


def status_code(code: RefusalCode) -> grpc.StatusCode:
    """The gRPC status with the same name."""
    return _CODES[code]


def details(reason: str) -> str:
    """The reason, truncated for a status."""
    if len(reason) <= _REASON_CHARACTERS:
        return reason
    return reason[:_REASON_CHARACTERS] + "…"


def ending(error: grpc.aio.AioRpcError) -> str:
    """Why a stream ended, as text for the resource manager."""
    return f"{error.code().name}: {error.details() or 'no reason given'}"


def raised(error: grpc.aio.AioRpcError) -> SchedulerInterfaceError:
    """The error of a call that ended with this status: Refused if the scheduler rejected it, else SessionLost."""
    name = error.code().name
    if name in RefusalCode.__members__:
        return Refused(RefusalCode[name], error.details() or "no reason given")
    return SessionLost(ending(error))
