"""Responses are encoded once, to golden bytes; an allocation contains all fields of its request."""

from collections.abc import Sequence

import pytest

from muster_core.model.decisions import ReasonKind
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationUpdated,
    AskRelease,
    NewAllocation,
    NodeAccepted,
    NodeRejected,
    Rejection,
    Release,
    SchedulingState,
    SchedulingStateChanged,
)
from muster_core.model.events import AskAdded
from muster_core.model.ids import (
    AllocationId,
    AllocationKey,
    ApplicationId,
    NodeId,
    PartitionId,
    Termination,
    partition_name,
)
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.states import ApplicationState
from muster_core.si import allocations as si_allocations
from muster_core.si import applications as si_applications
from muster_core.si import callbacks as si_callbacks
from muster_core.si import events as si_events
from muster_core.si import nodes as si_nodes
from muster_si import si_pb2
from tests.unit.core import messages

DEFAULT = PartitionId("[rm-1]default")
APP = ApplicationId("app-1")
KEY = AllocationKey("pod-1")


def test_an_allocation_repeats_the_fields_of_its_ask() -> None:
    ask = messages.an_ask(
        priority=4,
        tags={"kubernetes.io/meta/namespace": "team", "x": "y"},
        taskGroupName="workers",
        placeholder=True,
        Originator=True,
        preemptionPolicy=si_pb2.PreemptionPolicy(allowPreemptOther=True),
    )
    [event] = messages.a_decoder().allocations.read(messages.asks(ask)).events
    assert isinstance(event, AskAdded)
    answer = AllocationResponse(messages.RM, new=(NewAllocation(event.spec, AllocationId("pod-1-0"), NodeId("n1")),))
    [allocation] = si_allocations.allocation_response(answer).new
    assert allocation == si_pb2.Allocation(
        allocationKey=ask.allocationKey,
        allocationTags=ask.tags,
        resourcePerAlloc=ask.resourceAsk,
        priority=ask.priority,
        nodeID="n1",
        applicationID=ask.applicationID,
        partitionName=ask.partitionName,
        taskGroupName=ask.taskGroupName,
        placeholder=True,
        allocationID="pod-1-0",
        originator=True,
        preemptionPolicy=ask.preemptionPolicy,
    )


def test_one_decision_is_one_message_of_known_bytes() -> None:
    answer = AllocationResponse(
        messages.RM,
        released=(Release(DEFAULT, APP, KEY, AllocationId("pod-1-0"), Termination.PLACEHOLDER_REPLACED, "swap"),),
        released_asks=(AskRelease(DEFAULT, APP, KEY, Termination.TIMEOUT, "late"),),
        rejected_asks=(Rejection(APP, KEY, "no"),),
        rejected_allocations=(Rejection(APP, KEY, "nor"),),
    )
    assert si_allocations.allocation_response(answer).SerializeToString(deterministic=True) == (
        b"\x12(\n\x07default\x12\x05app-1 \x04*\x04swap2\x05pod-1:\x07pod-1-0"
        b"\x1a\x1f\n\x07default\x12\x05app-1\x1a\x05pod-1 \x02*\x04late"
        b'"\x12\n\x05pod-1\x12\x05app-1\x1a\x02no'
        b"*\x13\n\x05pod-1\x12\x05app-1\x1a\x03nor"
    )


def test_responses_about_applications_and_nodes_have_known_bytes() -> None:
    answers: Sequence[si_applications.ApplicationAnswer] = [
        ApplicationAccepted(messages.RM, APP),
        ApplicationRejected(messages.RM, APP, "no"),
        ApplicationUpdated(messages.RM, APP, ApplicationState.RUNNING, 7, "go"),
    ]
    assert si_applications.application_response(answers).SerializeToString(deterministic=True) == (
        b'\n\x0b\n\x05app-1\x12\x02no\x12\x07\n\x05app-1\x1a\x16\n\x05app-1\x12\x07Running\x18\x07"\x02go'
    )
    nodes: Sequence[si_nodes.NodeAnswer] = [
        NodeAccepted(messages.RM, NodeId("n1")),
        NodeRejected(messages.RM, NodeId("n2"), "no"),
    ]
    assert si_nodes.node_response(nodes).SerializeToString(deterministic=True) == (
        b"\n\x08\n\x02n2\x12\x02no\x12\x04\n\x02n1"
    )


@pytest.mark.parametrize("termination", list(Termination))
def test_every_termination_has_its_type(termination: Termination) -> None:
    answer = AllocationResponse(messages.RM, released=(Release(DEFAULT, APP, KEY, AllocationId("i"), termination),))
    [release] = si_allocations.allocation_response(answer).released
    assert si_pb2.TerminationType.Name(release.terminationType) == termination.value


@pytest.mark.parametrize("state", list(SchedulingState))
def test_every_scheduling_state_has_its_number(state: SchedulingState) -> None:
    changes = [
        SchedulingStateChanged(messages.RM, APP, KEY, state, "why", kind, node)
        for kind, node in ((ReasonKind.QUOTA, None), (None, NodeId("n1")))
    ]
    callback = si_callbacks.scheduling_states(changes)
    [state_change, _] = callback.schedulingStates.states
    assert list(callback.schedulingStates.reasonKinds) == ["quota", ""]
    assert list(callback.schedulingStates.preemptionNodes) == ["", "n1"]
    assert state_change.SchedulingState.Name(state_change.state) == state.value
    assert (state_change.applicationID, state_change.allocationKey, state_change.reason) == ("app-1", "pod-1", "why")


@pytest.mark.parametrize("about", list(Notice))
def test_an_event_has_a_timestamp_and_a_truncated_message(about: Notice) -> None:
    record = si_events.event_record(EventRecorded(messages.RM, about, "s", "x" * 5000, "r"), 12)
    assert si_pb2.EventRecord.Type.Name(record.type) == about.value
    assert (record.objectID, record.referenceID, record.timestampNano) == ("s", "r", 12)
    assert (len(record.message), record.message[-3:]) == (1024, "...")
    assert list(si_callbacks.events([record]).events.events) == [record]


def test_a_partition_name_is_sent_without_the_resource_manager_prefix() -> None:
    assert partition_name(PartitionId("[my]rm]gpu")) == "gpu"
