"""The ordered streams of a session: three of si.v1 and the callbacks of muster.v1.

There is one stream per kind, because order is kept within a kind only (docs/internals/semantics.md, 19 and 25). This
module has their gRPC names and the parsing of their messages.
"""

from __future__ import annotations

from enum import Enum
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused

SCHEDULER_SERVICE: Final = "si.v1.Scheduler"
SESSION_SERVICE: Final = "muster.v1.Session"
ADMIN_SERVICE: Final = "muster.v1.AdminService"
METRICS_SERVICE: Final = "muster.v1.MetricsService"

#: Metadata of a registration, its streams and its calls: the session that they belong to. The rmID is UTF-8 and
#: therefore binary metadata. A plain si.v1 client sends neither.
SESSION_METADATA: Final = "muster-session"
RM_ID_METADATA: Final = "muster-rm-id-bin"
#: Initial metadata of the server on a stream that is bound to its session.
BOUND_METADATA: Final = "muster-bound"

M = TypeVar("M", bound=Message)


class StreamKind(Enum):
    """A stream by its full gRPC method name."""

    ALLOCATION = f"/{SCHEDULER_SERVICE}/UpdateAllocation"
    APPLICATION = f"/{SCHEDULER_SERVICE}/UpdateApplication"
    NODE = f"/{SCHEDULER_SERVICE}/UpdateNode"
    CALLBACK = f"/{SESSION_SERVICE}/Attend"

    @property
    def rpc(self) -> str:
        """The method name without the service."""
        return self.value.rpartition("/")[2]


def parse(kind: type[M], data: bytes) -> M:
    """Parses a message.

    Raises:
        Refused: the bytes are not a valid message of this kind (INVALID_ARGUMENT).
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        reason = f"these {len(data)} bytes are no {kind.DESCRIPTOR.full_name}: {error}"
        raise Refused(RefusalCode.INVALID_ARGUMENT, reason) from error


def rm_id_of(kind: StreamKind, data: bytes) -> str:
    """The rmID in the first request of a plain si.v1 stream; empty if there is none.

    Raises:
        Refused: the bytes are not a valid request.
    """
    match kind:
        case StreamKind.ALLOCATION:
            return parse(si_pb2.AllocationRequest, data).rmID
        case StreamKind.APPLICATION:
            return parse(si_pb2.ApplicationRequest, data).rmID
        case StreamKind.NODE:
            return parse(si_pb2.NodeRequest, data).rmID
        case StreamKind.CALLBACK:
            parse(muster_pb2.Answer, data)
            return ""


def require_rm_id(message: str, given: str, session: str | None = None) -> None:
    """Checks the rmID of a message against that of its session. ``session`` is None before a registration.

    Raises:
        Refused: it is missing or different (INVALID_ARGUMENT), with the names of message and field.
    """
    if not given:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"{message}.rmID is missing")
    if session is not None and given != session:
        reason = f"{message}.rmID is {given!r}, but this session belongs to {session!r}"
        raise Refused(RefusalCode.INVALID_ARGUMENT, reason)


def unregistered(rm_id: str) -> Refused:
    """The rejection of a message or call without a session."""
    reason = f"no session exists for resource manager {rm_id!r}: call RegisterResourceManager first"
    return Refused(RefusalCode.FAILED_PRECONDITION, reason)
