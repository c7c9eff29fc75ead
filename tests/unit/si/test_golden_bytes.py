"""Encoded messages that every implementation of the Scheduler Interface reads and writes, given tag by tag."""

import pytest
from google.protobuf.message import Message

from muster_si import muster_pb2, si_pb2

#: tag byte = field number * 8 + wire type (0 = number, 2 = length and content)
GOLDEN: dict[str, tuple[Message, bytes]] = {
    "an ask of a placeholder": (
        si_pb2.AllocationAsk(
            allocationKey="uid-1",
            applicationID="app",
            partitionName="default",
            resourceAsk=si_pb2.Resource(resources={"vcore": si_pb2.Quantity(value=300)}),
            maxAllocations=1,
            priority=-1,
            taskGroupName="tg",
            placeholder=True,
        ),
        (
            b"\x0a\x05uid-1\x12\x03app\x1a\x07default"
            b"\x22\x0e\x0a\x0c\x0a\x05vcore\x12\x03\x08\xac\x02"
            b"\x28\x01\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x4a\x02tg\x50\x01"
        ),
    ),
    "the originator's ask, with its capital letter": (
        si_pb2.AllocationAsk(
            executionTimeoutMilliSeconds=1,
            tags={"a": "b"},
            Originator=True,
            preemptionPolicy=si_pb2.PreemptionPolicy(allowPreemptOther=True),
        ),
        b"\x38\x01\x42\x06\x0a\x01a\x12\x01b\x58\x01\x62\x02\x10\x01",
    ),
    "an allocation": (
        si_pb2.Allocation(
            allocationKey="k",
            allocationTags={"a": "b"},
            resourcePerAlloc=si_pb2.Resource(),
            priority=5,
            nodeID="n",
            applicationID="app",
            partitionName="p",
            taskGroupName="tg",
            placeholder=True,
            allocationID="k-0",
            originator=True,
            preemptionPolicy=si_pb2.PreemptionPolicy(allowPreemptSelf=True),
        ),
        (
            b"\x0a\x01k\x12\x06\x0a\x01a\x12\x01b\x2a\x00\x30\x05\x42\x01n\x4a\x03app\x52\x01p\x5a\x02tg"
            b"\x60\x01\x6a\x03k-0\x70\x01\x7a\x02\x08\x01"
        ),
    ),
    "the release that starts a swap": (
        si_pb2.AllocationRelease(
            partitionName="p",
            applicationID="app",
            terminationType=si_pb2.PLACEHOLDER_REPLACED,
            message="m",
            allocationKey="k",
            allocationID="k-0",
        ),
        b"\x0a\x01p\x12\x03app\x20\x04\x2a\x01m\x32\x01k\x3a\x03k-0",
    ),
    "a gang's application": (
        si_pb2.AddApplicationRequest(
            applicationID="app",
            queueName="root.a",
            partitionName="p",
            ugi=si_pb2.UserGroupInformation(user="u", groups=["g", "h"]),
            tags={"a": "b"},
            executionTimeoutMilliSeconds=60_000,
            placeholderAsk=si_pb2.Resource(resources={"pods": si_pb2.Quantity(value=2)}),
            gangSchedulingStyle="Hard",
        ),
        (
            b"\x0a\x03app\x12\x06root.a\x1a\x01p\x22\x09\x0a\x01u\x12\x01g\x12\x01h\x2a\x06\x0a\x01a\x12\x01b"
            b"\x30\xe0\xd4\x03\x3a\x0c\x0a\x0a\x0a\x04pods\x12\x02\x08\x02\x42\x04Hard"
        ),
    ),
    "a node that stays closed at first": (
        si_pb2.NodeInfo(
            nodeID="n",
            action=si_pb2.NodeInfo.CREATE_DRAIN,
            schedulableResource=si_pb2.Resource(),
            occupiedResource=si_pb2.Resource(),
            existingAllocations=[si_pb2.Allocation(allocationKey="k")],
        ),
        b"\x0a\x01n\x10\x06\x22\x00\x2a\x00\x32\x03\x0a\x01k",
    ),
    "an event": (
        si_pb2.EventRecord(
            type=si_pb2.EventRecord.APP,
            objectID="app",
            message="m",
            timestampNano=1,
            eventChangeType=si_pb2.EventRecord.SET,
            eventChangeDetail=si_pb2.EventRecord.APP_RESUMING,
            referenceID="r",
            resource=si_pb2.Resource(),
        ),
        b"\x08\x02\x12\x03app\x2a\x01m\x30\x01\x38\x01\x40\xd3\x01\x4a\x01r\x52\x00",
    ),
    "what an allocation really uses": (
        muster_pb2.UtilizationRequest(
            rmID="rm",
            reports=[
                muster_pb2.UtilizationReport(
                    ID="a-0",
                    actualUsedResource=si_pb2.Resource(resources={"vcore": si_pb2.Quantity(value=300)}),
                    applicationID="app",
                    partitionName="p",
                )
            ],
        ),
        (b"\x0a\x02rm\x12\x1d\x0a\x03a-0\x12\x0e\x0a\x0c\x0a\x05vcore\x12\x03\x08\xac\x02\x1a\x03app\x22\x01p"),
    ),
    "a recommendation": (
        muster_pb2.Callback(
            nodeRecommendations=muster_pb2.NodeRecommendations(
                recommendations=[
                    muster_pb2.NodeRecommendation(
                        nodeID="n1", recommendedSchedulableResource=si_pb2.Resource(), message="look"
                    )
                ]
            )
        ),
        b"\x3a\x0e\x0a\x0c\x0a\x02n1\x12\x00\x1a\x04look",
    ),
    "what is outstanding": (
        muster_pb2.AutoScalingMetrics(
            outstandingRequests=[
                muster_pb2.OutstandingResourceRequest(
                    requestID="r",
                    resource=si_pb2.Resource(resources={"pods": si_pb2.Quantity(value=1)}),
                    tags={"count": "2"},
                )
            ]
        ),
        b"\x0a\x1d\x0a\x01r\x12\x0c\x0a\x0a\x0a\x04pods\x12\x02\x08\x01\x1a\x0a\x0a\x05count\x12\x012",
    ),
    "a configuration that an administrator was refused": (
        muster_pb2.UpdateConfigResponse(success=False, oldConfig="old", reason="no"),
        b"\x12\x03old\x1a\x02no",
    ),
    "a fence of ours": (
        muster_pb2.BarrierRequest(rmID="rm", applicationRequests=1, nodeRequests=2, allocationRequests=300),
        b"\x0a\x02rm\x10\x01\x18\x02\x20\xac\x02",
    ),
    "a question of ours": (
        muster_pb2.Callback(
            predicates=muster_pb2.PredicatesQuestion(
                id=7, args=[si_pb2.PredicatesArgs(allocationKey="k", nodeID="n", allocate=True)]
            )
        ),
        b"\x0a\x0c\x08\x07\x12\x08\x0a\x01k\x12\x01n\x18\x01",
    ),
}


@pytest.mark.parametrize("name", GOLDEN)
def test_the_message_is_written_as_these_bytes(name: str) -> None:
    message, data = GOLDEN[name]
    assert message.SerializeToString(deterministic=True) == data


@pytest.mark.parametrize("name", GOLDEN)
def test_these_bytes_are_read_as_the_message(name: str) -> None:
    message, data = GOLDEN[name]
    assert type(message).FromString(data) == message


def test_retired_fields_are_ignored() -> None:
    old = b"\x1a\x04uuid\x3a\x06root.a" + si_pb2.Allocation(allocationKey="k").SerializeToString()
    assert si_pb2.Allocation.FromString(old).allocationKey == "k"


def test_an_unknown_enum_value_is_kept_as_its_number() -> None:
    assert si_pb2.AllocationRelease.FromString(b"\x20\x63").terminationType == 99
