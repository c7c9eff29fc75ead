"""Counts the items in messages of the core, independently of how messages are merged on the way."""

from __future__ import annotations

from muster_si import si_pb2


def count_items(response: si_pb2.AllocationResponse | si_pb2.ApplicationResponse) -> int:
    """Number of items in a response. Both sides add them up over both streams (muster.v1, Inventory).

    A receiver with the same count as the sender has received everything.
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
