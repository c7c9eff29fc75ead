"""How much was said on the allocation stream, counted so that merging messages on the way changes nothing."""

from __future__ import annotations

from muster_si import si_pb2


def words(response: si_pb2.AllocationResponse) -> int:
    """The items of one response; both sides add them up (muster.v1, Inventory)."""
    return (
        len(response.new)
        + len(response.released)
        + len(response.releasedAsks)
        + len(response.rejected)
        + len(response.rejectedAllocations)
    )
