"""Callbacks of the core to a resource manager, and the metrics of pending requests for autoscalers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from muster_core.model.effects import PlacementsProposed, SchedulingState, SchedulingStateChanged, VictimsProposed
from muster_core.model.ids import partition_name
from muster_core.placement.autoscaling import Outstanding
from muster_core.si.allocations import resource
from muster_si import keys, muster_pb2, si_pb2

_State = si_pb2.UpdateContainerSchedulingStateRequest

_STATES: Final[Mapping[SchedulingState, si_pb2.UpdateContainerSchedulingStateRequest.SchedulingState.ValueType]] = {
    SchedulingState.SKIPPED: _State.SKIPPED,
    SchedulingState.SCHEDULED: _State.SCHEDULED,
    SchedulingState.RESERVED: _State.RESERVED,
    SchedulingState.FAILED: _State.FAILED,
}


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
            reasonKinds=[_kind(change) for change in changes],
            preemptionNodes=[change.preemption_node or "" for change in changes],
        )
    )


def _kind(change: SchedulingStateChanged) -> str:
    return keys.REASON_TIMED_OUT if change.slots_timed_out else change.reason_kind or ""


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


def events(records: Iterable[si_pb2.EventRecord]) -> muster_pb2.Callback:
    """Encodes a SendEvent callback."""
    return muster_pb2.Callback(events=muster_pb2.Events(events=records))


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
