"""Refusals as gRPC status and back, and the ends of sessions as text.

Both ways keep code and reason, so a `Refused` that the core raised is the `Refused` that the operator catches.
"""

from __future__ import annotations

from typing import Final

import grpc

from muster_si.errors import RefusalCode, Refused, SchedulerInterfaceError, SessionLost

#: gRPC sends the reason percent-encoded in a trailer that peers cap at 8 KiB: 12 bytes for a character beyond ASCII,
#: up to 3 for one within.
_REASON_CHARACTERS: Final = 600

_CODES: Final = {RefusalCode(code.name): code for code in grpc.StatusCode if code.name in RefusalCode.__members__}


def status_code(code: RefusalCode) -> grpc.StatusCode:
    """The gRPC status of the same name."""
    return _CODES[code]


def details(reason: str) -> str:
    """The reason, short enough for a status."""
    if len(reason) <= _REASON_CHARACTERS:
        return reason
    return reason[:_REASON_CHARACTERS] + "…"


def ending(error: grpc.aio.AioRpcError) -> str:
    """Why a stream ended, as the resource manager is told."""
    return f"{error.code().name}: {error.details() or 'no reason given'}"


def raised(error: grpc.aio.AioRpcError) -> SchedulerInterfaceError:
    """What a call that ended with this status raises: Refused where the scheduler said no, else SessionLost."""
    name = error.code().name
    if name in RefusalCode.__members__:
        return Refused(RefusalCode[name], error.details() or "no reason given")
    return SessionLost(ending(error))
