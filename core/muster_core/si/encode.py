"""Encodes effects as messages of the Scheduler Interface."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import orjson

from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    AskRelease,
    NewAllocation,
    NodeAccepted,
    NodeRecommended,
    NodeRejected,
    PlacementsProposed,
    Rejection,
    Release,
    SchedulingState,
    SchedulingStateChanged,
    VictimsProposed,
)
from muster_core.model.ids import PartitionId, Termination
from muster_core.model.records import EventRecorded
from muster_core.model.resources import Resources
from muster_core.model.specs import AskSpec
from muster_core.model.storage import Choice
from muster_core.placement.autoscaling import Outstanding
from muster_core.si import events as si_events
from muster_core.si.decode import OWN_TAGS
from muster_si import keys, muster_pb2, si_pb2

_State = si_pb2.UpdateContainerSchedulingStateRequest

_TERMINATIONS: Final[Mapping[Termination, si_pb2.TerminationType.ValueType]] = {
    Termination.STOPPED_BY_RM: si_pb2.STOPPED_BY_RM,
    Termination.TIMEOUT: si_pb2.TIMEOUT,
    Termination.PREEMPTED_BY_SCHEDULER: si_pb2.PREEMPTED_BY_SCHEDULER,
    Termination.PLACEHOLDER_REPLACED: si_pb2.PLACEHOLDER_REPLACED,
}

_STATES: Final[Mapping[SchedulingState, si_pb2.UpdateContainerSchedulingStateRequest.SchedulingState.ValueType]] = {
    SchedulingState.SKIPPED: _State.SKIPPED,
    SchedulingState.SCHEDULED: _State.SCHEDULED,
    SchedulingState.RESERVED: _State.RESERVED,
    SchedulingState.FAILED: _State.FAILED,
}

#: Number of cached message shapes. If it is exceeded, the cache is cleared.
_REMEMBERED: Final = 2048

#: Key: identity of the common tags. The tags are stored with the entry, so that no other object can get that identity.
_LIKE: Final[dict[int, tuple[Mapping[str, str], si_pb2.Allocation]]] = {}
ApplicationNews = ApplicationAccepted | ApplicationRejected | ApplicationUpdated
NodeNews = NodeAccepted | NodeRejected


def allocation_response(answer: AllocationResponse) -> si_pb2.AllocationResponse:
    """Encodes the changes of one decision as one message."""
    response = si_pb2.AllocationResponse(
        released=[_release(release) for release in answer.released],
        releasedAsks=[_ask_release(release) for release in answer.released_asks],
        rejected=[_rejected_ask(refusal) for refusal in answer.rejected_asks],
        rejectedAllocations=[_rejected_allocation(refusal) for refusal in answer.rejected_allocations],
    )
    for new in answer.new:
        _add(response, new)
    return response


def application_response(news: Iterable[ApplicationNews]) -> si_pb2.ApplicationResponse:
    """Encodes consecutive changes of applications. Callers separate kinds if their order matters."""
    response = si_pb2.ApplicationResponse()
    for item in news:
        match item:
            case ApplicationAccepted():
                response.accepted.add(applicationID=item.application)
            case ApplicationRejected():
                response.rejected.add(applicationID=item.application, reason=item.reason)
            case ApplicationUpdated():
                response.updated.add(
                    applicationID=item.application,
                    state=item.state.value,
                    stateTransitionTimestamp=item.at_ns,
                    message=item.message,
                )
    return response


def node_response(news: Iterable[NodeNews]) -> si_pb2.NodeResponse:
    """Encodes changes of nodes."""
    response = si_pb2.NodeResponse()
    for item in news:
        match item:
            case NodeAccepted():
                response.accepted.add(nodeID=item.node)
            case NodeRejected():
                response.rejected.add(nodeID=item.node, reason=item.reason)
    return response


def scheduling_states(changes: Sequence[SchedulingStateChanged]) -> muster_pb2.Callback:
    """Encodes several UpdateContainerSchedulingState callbacks."""
    return muster_pb2.Callback(
        schedulingStates=muster_pb2.SchedulingStates(
            states=[
                si_pb2.UpdateContainerSchedulingStateRequest(
                    applicationID=change.application,
                    allocationKey=change.key,
                    state=_STATES[change.state],
                    reason=change.reason,
                )
                for change in changes
            ],
            reasonKinds=[change.reason_kind or "" for change in changes],
        )
    )


def event_record(noted: EventRecorded, now_ns: int) -> si_pb2.EventRecord:
    """Encodes an event for users with its time."""
    return si_pb2.EventRecord(
        type=si_events.TYPES[noted.about],
        objectID=noted.subject,
        referenceID=noted.reference,
        message=si_events.text(noted.message),
        timestampNano=now_ns,
        eventChangeType=si_events.CHANGES[noted.change],
        eventChangeDetail=si_events.DETAILS[noted.detail],
        resource=resource(noted.resource) if noted.resource else None,
    )


def events(records: Iterable[si_pb2.EventRecord]) -> muster_pb2.Callback:
    """Encodes a SendEvent callback."""
    return muster_pb2.Callback(events=muster_pb2.Events(events=records))


def node_recommendations(found: Iterable[NodeRecommended]) -> muster_pb2.Callback:
    """Encodes NodeRecommendation callbacks."""
    return muster_pb2.Callback(
        nodeRecommendations=muster_pb2.NodeRecommendations(
            recommendations=[
                muster_pb2.NodeRecommendation(
                    nodeID=one.node, recommendedSchedulableResource=resource(one.recommended), message=one.message
                )
                for one in found
            ]
        )
    )


def autoscaling(found: Iterable[Outstanding]) -> muster_pb2.AutoScalingMetrics:
    """Encodes AutoScalingMetrics. An ID is unique among all partitions of all resource managers."""
    return muster_pb2.AutoScalingMetrics(
        outstandingRequests=[
            muster_pb2.OutstandingResourceRequest(
                requestID=f"{one.partition}/{one.id}", resource=resource(one.resources), tags=_hints(one)
            )
            for one in found
        ]
    )


def _hints(one: Outstanding) -> dict[str, str]:
    tags = {
        "partition": partition_name(one.partition),
        "count": str(one.count),
        "applications": str(one.applications),
    }
    return tags | {keys.INSTANCE_TYPE: one.instance} if one.instance else tags


def places_asked(asked: PlacementsProposed) -> muster_pb2.Callback:
    """Encodes the Predicates callback for all placements of a plan."""
    question = muster_pb2.PredicatesQuestion(id=asked.number)
    for key, node in asked.places:
        question.args.add(allocationKey=key, nodeID=node, allocate=True)
    return muster_pb2.Callback(predicates=question)


def victims_asked(asked: VictimsProposed) -> muster_pb2.Callback:
    """Encodes the PreemptionPredicates callback; the first attempt assumes that all victims have ended."""
    args = si_pb2.PreemptionPredicatesArgs(
        allocationKey=asked.key,
        nodeID=asked.node,
        preemptAllocationKeys=asked.victims,
        startIndex=max(len(asked.victims) - 1, 0),
    )
    question = muster_pb2.PreemptionPredicatesQuestion(id=asked.number, args=args)
    return muster_pb2.Callback(preemptionPredicates=question)


def reregister(reason: str) -> muster_pb2.Callback:
    """Requests a new registration, because the core does not trust its state."""
    return muster_pb2.Callback(reregister=muster_pb2.Reregister(reason=reason))


def state_dump_question(number: int) -> muster_pb2.Callback:
    """Encodes a GetStateDump callback."""
    return muster_pb2.Callback(stateDump=muster_pb2.StateDumpQuestion(id=number))


def partition_name(partition: PartitionId) -> str:
    """Returns the name of a partition without its resource manager, the inverse of `partition_id`."""
    return partition.rpartition("]")[2]


def termination(why: Termination) -> si_pb2.TerminationType.ValueType:
    """Encodes a termination type."""
    return _TERMINATIONS[why]


@lru_cache(maxsize=4096)
def resource(resources: Resources) -> si_pb2.Resource:
    """Returns one cached message per distinct amount. It is copied when it is used."""
    return si_pb2.Resource(resources={name: si_pb2.Quantity(value=amount) for name, amount in resources.items()})


@lru_cache(maxsize=4)
def _policy(itself: bool, others: bool) -> si_pb2.PreemptionPolicy:  # noqa: FBT001 - a memo's key
    return si_pb2.PreemptionPolicy(allowPreemptSelf=itself, allowPreemptOther=others)


def _add(response: si_pb2.AllocationResponse, new: NewAllocation) -> None:
    ask = new.ask
    message = response.new.add()
    message.CopyFrom(_like(ask) if ask.common else _shape(ask, ask.tags))
    message.allocationKey, message.nodeID, message.allocationID = ask.key, new.node, new.id
    tags = message.allocationTags
    if ask.common:
        for tag in OWN_TAGS:
            tags[tag] = ask.tags[tag]
    if new.volumes:
        tags.update(_chosen(new.volumes))


def _shape(ask: AskSpec, tags: Mapping[str, str]) -> si_pb2.Allocation:
    """Returns the parts of the message that all similar requests share."""
    return si_pb2.Allocation(
        allocationTags=tags,
        resourcePerAlloc=resource(ask.resources),
        priority=ask.priority,
        applicationID=ask.application,
        partitionName=partition_name(ask.partition),
        taskGroupName=ask.group,
        placeholder=ask.placeholder,
        originator=ask.originator,
        preemptionPolicy=_policy(ask.allow_preempt_self, ask.allow_preempt_other),
    )


def _like(ask: AskSpec) -> si_pb2.Allocation:
    """Returns the cached shape. Copying takes a quarter of the time of building it."""
    known = _LIKE.get(id(ask.common))
    if known is None:
        if len(_LIKE) >= _REMEMBERED:
            _LIKE.clear()
        known = _LIKE[id(ask.common)] = (ask.common, _shape(ask, ask.common))
    return known[1]


def _chosen(volumes: Choice) -> dict[str, str]:
    return {keys.TAG_CHOSEN_VOLUMES: orjson.dumps(dict(volumes), option=orjson.OPT_SORT_KEYS).decode()}


def _release(release: Release) -> si_pb2.AllocationRelease:
    return si_pb2.AllocationRelease(
        partitionName=partition_name(release.partition),
        applicationID=release.application,
        terminationType=_TERMINATIONS[release.termination],
        message=release.message,
        allocationKey=release.key,
        allocationID=release.id,
    )


def _ask_release(release: AskRelease) -> si_pb2.AllocationAskRelease:
    return si_pb2.AllocationAskRelease(
        partitionName=partition_name(release.partition),
        applicationID=release.application,
        allocationKey=release.key,
        terminationType=_TERMINATIONS[release.termination],
        message=release.message,
    )


def _rejected_ask(refusal: Rejection) -> si_pb2.RejectedAllocationAsk:
    return si_pb2.RejectedAllocationAsk(
        allocationKey=refusal.key, applicationID=refusal.application, reason=refusal.reason
    )


def _rejected_allocation(refusal: Rejection) -> si_pb2.RejectedAllocation:
    return si_pb2.RejectedAllocation(
        allocationKey=refusal.key, applicationID=refusal.application, reason=refusal.reason
    )
