"""Messages of the Scheduler Interface to core responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from muster_operator.model.core_requests import TerminationType
from muster_operator.model.core_responses import (
    Allocated,
    AllocationRejected,
    AllocationResponse,
    ApplicationAccepted,
    ApplicationInCore,
    ApplicationRejected,
    ApplicationResponse,
    ApplicationUpdated,
    AskCancelled,
    AskRejected,
    CoreEvent,
    CoreEvents,
    CoreResponse,
    EventKind,
    HeldInCore,
    Inventory,
    NodeInCore,
    NodeRecommended,
    NodeResponse,
    Part,
    Recommendations,
    Released,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
)
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid
from muster_operator.model.storage import ChosenVolumes
from muster_si import keys, muster_pb2, si_pb2

Response = si_pb2.AllocationResponse | si_pb2.ApplicationResponse | si_pb2.NodeResponse

_STATES: Final[Mapping[int, SchedulingState]] = {
    si_pb2.UpdateContainerSchedulingStateRequest.SKIPPED: SchedulingState.SKIPPED,
    si_pb2.UpdateContainerSchedulingStateRequest.SCHEDULED: SchedulingState.SCHEDULED,
    si_pb2.UpdateContainerSchedulingStateRequest.RESERVED: SchedulingState.RESERVED,
    si_pb2.UpdateContainerSchedulingStateRequest.FAILED: SchedulingState.FAILED,
}

_EVENT_KINDS: Final[Mapping[int, EventKind]] = {
    si_pb2.EventRecord.REQUEST: EventKind.REQUEST,
    si_pb2.EventRecord.APP: EventKind.APP,
    si_pb2.EventRecord.NODE: EventKind.NODE,
    si_pb2.EventRecord.QUEUE: EventKind.QUEUE,
}

_COMES_OR_GOES: Final = frozenset({si_pb2.EventRecord.ADD, si_pb2.EventRecord.REMOVE})
_KNOWN_TERMINATIONS: Final = frozenset(TerminationType)


def decoded(response: Response) -> CoreResponse:
    """What a response of the core says."""
    match response:
        case si_pb2.AllocationResponse():
            return _allocation_verdict(response)
        case si_pb2.ApplicationResponse():
            return ApplicationResponse(
                rejected=tuple(ApplicationRejected(AppId(r.applicationID), r.reason) for r in response.rejected),
                accepted=tuple(ApplicationAccepted(AppId(a.applicationID)) for a in response.accepted),
                updated=tuple(ApplicationUpdated(AppId(u.applicationID), u.state, u.message) for u in response.updated),
            )
        case si_pb2.NodeResponse():
            return NodeResponse(
                accepted=tuple(NodeName(node.nodeID) for node in response.accepted),
                rejected={NodeName(node.nodeID): node.reason for node in response.rejected},
            )


def decoded_callback(callback: muster_pb2.Callback) -> CoreResponse | None:
    """What the core tells beside the streams; None for a question or an order to the session."""
    match callback.WhichOneof("kind"):
        case "schedulingStates":
            return SchedulingStates(
                tuple(
                    SchedulingStateChanged(
                        AppId(state.applicationID), PodUid(state.allocationKey), _STATES[state.state], state.reason
                    )
                    for state in callback.schedulingStates.states
                    if state.state in _STATES
                )
            )
        case "events":
            return CoreEvents(tuple(_core_event(event) for event in callback.events.events if _is_news(event)))
        case "nodeRecommendations":
            found = callback.nodeRecommendations.recommendations
            return Recommendations(tuple(NodeRecommended(NodeName(one.nodeID), one.message) for one in found))
        case _:
            return None


def decoded_inventory(inventory: muster_pb2.Inventory, part: Part, beyond: str) -> Inventory:
    """What the core says it holds of what was asked for."""
    return Inventory(
        part=part,
        beyond=beyond,
        last=inventory.last,
        applications=tuple(
            ApplicationInCore(
                AppId(app.applicationID),
                frozenset(PodUid(key) for key in app.askKeys),
                tuple(_held(allocation) for allocation in app.allocations),
            )
            for app in inventory.applications
        ),
        nodes=tuple(
            NodeInCore(NodeName(node.nodeID), node.schedulable, frozenset(PodUid(key) for key in node.foreignKeys))
            for node in inventory.nodes
        ),
    )


def _held(allocation: muster_pb2.AllocationInventory) -> HeldInCore:
    return HeldInCore(
        PodUid(allocation.allocationKey),
        NodeName(allocation.nodeID),
        AllocationId(allocation.allocationID),
        _termination(allocation.releasing) or None,
    )


def _is_news(event: si_pb2.EventRecord) -> bool:
    """Whether this version knows what it is about, and was not told by a response: nodes that come and go were."""
    is_told = event.type == si_pb2.EventRecord.NODE and event.eventChangeType in _COMES_OR_GOES
    return event.type in _EVENT_KINDS and not is_told


def _allocation_verdict(response: si_pb2.AllocationResponse) -> AllocationResponse:
    return AllocationResponse(
        cancelled_asks=tuple(
            AskCancelled(
                AppId(gone.applicationID),
                PodUid(gone.allocationKey),
                _termination(gone.terminationType),
                gone.message,
            )
            for gone in response.releasedAsks
        ),
        released=tuple(
            Released(
                AppId(gone.applicationID),
                PodUid(gone.allocationKey),
                _termination(gone.terminationType),
                AllocationId(gone.allocationID),
                gone.message,
            )
            for gone in response.released
        ),
        allocated=tuple(_allocated(new) for new in response.new),
        rejected_asks=tuple(
            AskRejected(AppId(no.applicationID), PodUid(no.allocationKey), no.reason) for no in response.rejected
        ),
        rejected_allocations=tuple(
            AllocationRejected(AppId(no.applicationID), PodUid(no.allocationKey), no.reason)
            for no in response.rejectedAllocations
        ),
    )


def _allocated(new: si_pb2.Allocation) -> Allocated:
    return Allocated(
        AppId(new.applicationID),
        PodUid(new.allocationKey),
        NodeName(new.nodeID),
        AllocationId(new.allocationID),
        _chosen_volumes(new.allocationTags.get(keys.TAG_CHOSEN_VOLUMES, "")),
    )


def _chosen_volumes(written: str) -> ChosenVolumes:
    return {str(claim): str(volume) for claim, volume in orjson.loads(written).items()} if written else {}


def _core_event(event: si_pb2.EventRecord) -> CoreEvent:
    return CoreEvent(
        kind=_EVENT_KINDS[event.type],
        object_id=event.objectID,
        reference_id=event.referenceID,
        message=event.message,
    )


def _termination(number: int) -> TerminationType:
    return TerminationType(number) if number in _KNOWN_TERMINATIONS else TerminationType.UNKNOWN
