"""How much was said of allocations and applications, counted so that merging messages on the way changes nothing."""

from __future__ import annotations

from muster_si import si_pb2


def words(response: si_pb2.AllocationResponse | si_pb2.ApplicationResponse) -> int:
    """The items of one response; both sides add them up over both streams (muster.v1, Inventory).

    Who has received as many has received them all: on no stream can more be received than was said.
    """
    if isinstance(response, si_pb2.ApplicationResponse):
        return len(response.rejected) + len(response.accepted) + len(response.updated)
    return (
        len(response.new)
        + len(response.released)
        + len(response.releasedAsks)
        + len(response.rejected)
        + len(response.rejectedAllocations)
    )
