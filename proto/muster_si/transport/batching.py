"""Decides which messages of a stream can be merged, so that a busy stream carries many items per message.

Merging is free with protobuf: two encoded messages one after the other are one message with the lists of both. The
receiver applies the fields of a message in a fixed order. Two messages can therefore be merged only if this order gives
the same result as applying one message after the other:

* A *lane* is a set of fields with a known order of application. Messages of different lanes are never merged, and a
  message with fields of several lanes is never merged.
* Within a lane the fields are numbered in the order of application. A later message can be appended if its first field
  is not before the last field so far. Releases followed by new allocations are therefore merged, and a release never
  overtakes an earlier allocation with the same key (docs/internals/semantics.md, 1: releasedAsks, released, new).
* If the order of application is not defined (requests, answers about applications and nodes, rejections), every field
  is a lane of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2

#: Lane of a message that is never merged.
ALONE: Final = ""

_DECISIONS: Final = "decisions"


@dataclass(frozen=True, slots=True)
class Parcel:
    """An encoded message, its number of items, and what decides about merging."""

    data: bytes
    items: int
    lane: str
    first: int = 0
    last: int = 0

    def may_follow(self, lane: str, last: int) -> bool:
        """Whether it can be appended to a batch of this lane whose last field is `last`."""
        return self.lane != ALONE and self.lane == lane and self.first >= last


def parcel(message: Message) -> Parcel:
    """Encodes a message of any stream. Later changes of the message have no effect."""
    match message:
        case si_pb2.AllocationRequest():
            lane, items = _allocation_request(message)
        case si_pb2.AllocationResponse():
            return _allocation_response(message)
        case si_pb2.ApplicationRequest():
            lane, items = _only(new=len(message.new), remove=len(message.remove))
        case si_pb2.ApplicationResponse():
            lane, items = _only(
                rejected=len(message.rejected), accepted=len(message.accepted), updated=len(message.updated)
            )
        case si_pb2.NodeRequest():
            lane, items = _only(nodes=sum(1 + len(node.existingAllocations) for node in message.nodes))
        case si_pb2.NodeResponse():
            lane, items = _only(rejected=len(message.rejected), accepted=len(message.accepted))
        case muster_pb2.Callback():
            lane, items = _callback(message)
        case _:
            lane, items = ALONE, 1
    return Parcel(message.SerializeToString(), items, lane)


def _only(**fields: int) -> tuple[str, int]:
    """The only non-empty field as a lane, and the number of items. ALONE if there are several or none."""
    filled = [name for name, count in fields.items() if count]
    return (filled[0] if len(filled) == 1 else ALONE), max(1, sum(fields.values()))


def _allocation_request(message: si_pb2.AllocationRequest) -> tuple[str, int]:
    asks, allocations = len(message.asks), len(message.allocations)
    if not message.HasField("releases"):  # checked first, because reading it would create a submessage
        if allocations == 0 and asks:
            return "asks", asks
        return _only(allocations=allocations, asks=asks)
    return _only(
        allocations=allocations,
        asks=asks,
        allocation_releases=len(message.releases.allocationsToRelease),
        ask_releases=len(message.releases.allocationAsksToRelease),
    )


def _allocation_response(message: si_pb2.AllocationResponse) -> Parcel:
    data = message.SerializeToString()
    phases = (len(message.releasedAsks), len(message.released), len(message.new))
    rejected, rejected_allocations = len(message.rejected), len(message.rejectedAllocations)
    if rejected or rejected_allocations:
        lane, items = _only(rejected=rejected, rejected_allocations=rejected_allocations, decisions=sum(phases))
        return Parcel(data, items, lane)
    filled = [phase for phase, count in enumerate(phases) if count]
    if not filled:
        return Parcel(data, 1, ALONE)
    return Parcel(data, sum(phases), _DECISIONS, filled[0], filled[-1])


def _callback(message: muster_pb2.Callback) -> tuple[str, int]:
    """Events merge with events, and states with states. A question has an answer and is never merged."""
    match message.WhichOneof("kind"):
        case "events":
            return "events", max(1, len(message.events.events))
        case "schedulingStates":
            return "schedulingStates", max(1, len(message.schedulingStates.states))
        case _:
            return ALONE, 1
