"""The ordered streams of a session: three of si.v1 and the callbacks of muster.v1.

One stream per kind, because order holds within a kind and never across (semantics 19, 25). This module knows their
gRPC names and how bytes become the message that a kind carries.
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

#: Metadata of a registration, its streams and its calls: which session they belong to. The id is UTF-8, so it
#: travels as binary metadata. A plain si.v1 client sends neither.
SESSION_METADATA: Final = "muster-session"
RM_ID_METADATA: Final = "muster-rm-id-bin"
#: Initial metadata of the server's answer on a stream: it is bound to its session.
BOUND_METADATA: Final = "muster-bound"

M = TypeVar("M", bound=Message)


class StreamKind(Enum):
    """A stream, by its full gRPC method name."""

    ALLOCATION = f"/{SCHEDULER_SERVICE}/UpdateAllocation"
    APPLICATION = f"/{SCHEDULER_SERVICE}/UpdateApplication"
    NODE = f"/{SCHEDULER_SERVICE}/UpdateNode"
    CALLBACK = f"/{SESSION_SERVICE}/Attend"

    @property
    def rpc(self) -> str:
        """The method's name without its service."""
        return self.value.rpartition("/")[2]


def parse(kind: type[M], data: bytes) -> M:
    """The message in these bytes.

    Raises Refused (INVALID_ARGUMENT) when they are no such message.
    """
    try:
        return kind.FromString(data)
    except DecodeError as error:
        reason = f"these {len(data)} bytes are no {kind.DESCRIPTOR.full_name}: {error}"
        raise Refused(RefusalCode.INVALID_ARGUMENT, reason) from error


def rm_id_of(kind: StreamKind, data: bytes) -> str:
    """The resource manager that the first request of a plain si.v1 stream names; "" where it names none.

    Raises Refused when the bytes are no such request.
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
    """Checks the rmID of a message against that of its session; None where there is no session yet.

    Raises Refused (INVALID_ARGUMENT) naming the message and the field (semantics 3).
    """
    if not given:
        raise Refused(RefusalCode.INVALID_ARGUMENT, f"{message}.rmID is missing")
    if session is not None and given != session:
        reason = f"{message}.rmID is {given!r}, but this session belongs to {session!r}"
        raise Refused(RefusalCode.INVALID_ARGUMENT, reason)


def unregistered(rm_id: str) -> Refused:
    """The refusal of a message or call for which there is no session."""
    reason = f"there is no such session of resource manager {rm_id!r}: call RegisterResourceManager first"
    return Refused(RefusalCode.FAILED_PRECONDITION, reason)
