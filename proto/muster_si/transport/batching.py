"""Which messages of one stream may travel as one, so that a busy stream carries many items per message.

The encoding of protobuf makes the merge itself free: the bytes of two messages put one after the other are one
message with both lists. What has to be decided is when that keeps the meaning. The receiver applies the fields of a
message in an order, not the items in theirs, so two messages may become one only where both readings are the same:

* A *lane* is a set of fields of which the order of application is known. Messages of different lanes never merge,
  nor does a message that fills fields of more than one.
* Within a lane the fields are numbered in the order of application. A later message may join when its first field is
  not before the last field so far. So releases followed by new allocations merge, and a release never overtakes the
  new allocation of the same key that was sent before it (semantics 1: releasedAsks, released, new).
* Where nothing says in which order the fields of a message are applied (requests, answers about applications and
  nodes, rejections), every field is a lane of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2

#: Lane of a message that always travels alone.
ALONE: Final = ""

_DECISIONS: Final = "decisions"


@dataclass(frozen=True, slots=True)
class Parcel:
    """A message ready to travel: its bytes, how many items it holds, and what decides about merging."""

    data: bytes
    items: int
    lane: str
    first: int = 0
    last: int = 0

    def may_follow(self, lane: str, last: int) -> bool:
        """Whether it can join a batch of this lane whose last field so far is `last`."""
        return self.lane != ALONE and self.lane == lane and self.first >= last


def parcel(message: Message) -> Parcel:
    """Encodes a message of any stream; the message may be changed afterwards without harm."""
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
            lane, items = _only(nodes=len(message.nodes))
        case si_pb2.NodeResponse():
            lane, items = _only(rejected=len(message.rejected), accepted=len(message.accepted))
        case muster_pb2.Callback():
            lane, items = _callback(message)
        case _:
            lane, items = ALONE, 1
    return Parcel(message.SerializeToString(), items, lane)


def _only(**fields: int) -> tuple[str, int]:
    """The one field that has items, as a lane, and their number; alone when there are several or none."""
    filled = [name for name, count in fields.items() if count]
    return (filled[0] if len(filled) == 1 else ALONE), max(1, sum(fields.values()))


def _allocation_request(message: si_pb2.AllocationRequest) -> tuple[str, int]:
    asks, allocations = len(message.asks), len(message.allocations)
    if not message.HasField("releases"):  # asked first: the hot path makes no submessage
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
    """Events follow events and states follow states; a question has an answer and travels alone."""
    match message.WhichOneof("kind"):
        case "events":
            return "events", max(1, len(message.events.events))
        case "schedulingStates":
            return "schedulingStates", max(1, len(message.schedulingStates.states))
        case _:
            return ALONE, 1
