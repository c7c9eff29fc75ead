"""Invalid items are rejected one by one, with a reason that names the field; valid items continue."""

from typing import Any

import pytest

from muster_core.model.effects import AllocationResponse, ApplicationRejected, NodeRejected
from muster_core.si.values import TEXT_LIMIT
from muster_si import keys, si_pb2
from tests.unit.core import messages

LONG = "x" * 257
HUGE = 2**62 + 1

ASKS: list[tuple[dict[str, Any], str]] = [
    ({"allocationKey": ""}, "allocationKey is missing"),
    ({"allocationKey": LONG}, "allocationKey is longer than 256 characters"),
    ({"applicationID": ""}, "applicationID is missing"),
    ({"applicationID": LONG}, "applicationID is longer"),
    ({"partitionName": ""}, "partitionName is missing"),
    ({"partitionName": "other"}, "partitionName is not known: 'other'"),
    ({"resourceAsk": messages.a_resource(vcore=-1)}, "resourceAsk: vcore is negative: -1"),
    ({"resourceAsk": messages.a_resource(memory=HUGE)}, "resourceAsk: memory is out of range"),
    (
        {"resourceAsk": messages.a_resource(memory=2**47), "maxAllocations": 2**16},
        "resourceAsk is out of range when taken 65536 times",
    ),
    ({"maxAllocations": 0}, "maxAllocations is not positive: 0"),
    ({"maxAllocations": -1}, "maxAllocations is not positive: -1"),
    ({"maxAllocations": 1_001}, "maxAllocations is above 1000: 1001"),
    ({"executionTimeoutMilliSeconds": 2**62}, "executionTimeoutMilliSeconds is out of range"),
    ({"taskGroupName": LONG}, "taskGroupName is longer"),
    ({"tags": {keys.TAG_CREATION_TIME: "yesterday"}}, "creationTime: yesterday is not a time"),
    ({"tags": {keys.TAG_CREATION_TIME: "-5"}}, "creationTime: -5 is not a time"),
    ({"tags": {keys.TAG_CREATION_TIME: "9" * 16}}, "creationTime: 9999999999999999 is too far"),
    ({"tags": {keys.TAG_CONSTRAINTS: "{"}}, "muster/constraints: the value is not JSON: Input data was truncated"),
    ({"tags": {keys.TAG_CONSTRAINTS: "[]"}}, "muster/constraints: the value is wrong: Expected `object`, got `array`"),
    (
        {"tags": {keys.TAG_CONSTRAINTS: "[" * 5000}},
        "muster/constraints: the value is wrong: Expected `object`, got `array`",
    ),
    ({"tags": {keys.TAG_CONSTRAINTS: " " * (TEXT_LIMIT + 1)}}, "muster/constraints: the value is longer than"),
    (
        {"tags": {keys.TAG_CONSTRAINTS: '{"podAffinity":{}}'}},
        "muster/constraints: the value is wrong: Object contains unknown field `podAffinity`",
    ),
    (
        {"tags": {keys.TAG_CONSTRAINTS: '{"nodeSelector":{"a":1}}'}},
        "nodeSelector[...] is wrong: Expected `str`, got `int`",
    ),
    (
        {"tags": {keys.TAG_CONSTRAINTS: '{"nodeAffinity":{}}'}},
        "nodeAffinity is wrong: Expected `array | null`, got `object`",
    ),
    (
        {"tags": {keys.TAG_CONSTRAINTS: '{"tolerations":[{"operator":"Like"}]}'}},
        "tolerations[0].operator is wrong: Invalid enum value 'Like'",
    ),
    (
        {"tags": {keys.TAG_CONSTRAINTS: '{"nodeAffinity":[{"matchFields":[{"key":"a","operator":"In","values":1}]}]}'}},
        "nodeAffinity[0].matchFields[0].values is wrong: Expected `array`, got `int`",
    ),
    (
        {"tags": {keys.TAG_REQUIRED_NODE: "n1", keys.TAG_CONSTRAINTS: '{"nodeName":"n2"}'}},
        "yunikorn.apache.org/requiredNode is 'n1', but the pod names node 'n2'",
    ),
]


@pytest.mark.parametrize("fields, reason", ASKS, ids=[reason for _, reason in ASKS])
def test_an_ask_is_refused(fields: dict[str, Any], reason: str) -> None:
    bad = messages.an_ask(**fields)
    intake = messages.a_decoder().allocations.read(
        messages.asks(messages.an_ask("before"), bad, messages.an_ask("after"))
    )
    assert len(intake.events) == 2
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    assert answer.rm == messages.RM
    [refusal] = answer.rejected_asks
    assert reason in refusal.reason
    assert (refusal.key, refusal.application) == (bad.allocationKey[:256], bad.applicationID[:256])


ALLOCATIONS: list[tuple[dict[str, Any], str]] = [
    ({"allocationKey": ""}, "allocationKey is missing"),
    ({"partitionName": ""}, "partitionName is missing"),
    ({"partitionName": "other"}, "partitionName is not known"),
    ({"nodeID": ""}, "nodeID is missing"),
    ({"nodeID": LONG}, "nodeID is longer"),
    ({"allocationID": LONG}, "allocationID is longer"),
    ({"resourcePerAlloc": messages.a_resource(pods=-1)}, "resourcePerAlloc: pods is negative"),
    ({"allocationTags": {keys.TAG_ALLOCATED_AT: "now"}}, "muster/allocated-at: now is not a time"),
]


@pytest.mark.parametrize("fields, reason", ALLOCATIONS, ids=[reason for _, reason in ALLOCATIONS])
def test_an_existing_allocation_is_refused(fields: dict[str, Any], reason: str) -> None:
    intake = messages.a_decoder().allocations.read(
        messages.allocations(messages.an_allocation(**fields), messages.an_allocation("good"))
    )
    assert len(intake.events) == 1
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    assert reason in answer.rejected_allocations[0].reason


def test_an_invalid_allocation_does_not_reject_its_node() -> None:
    node = messages.a_node(
        existingAllocations=[messages.an_allocation("good"), messages.an_allocation("bad", nodeID="node-2")]
    )
    intake = messages.a_decoder().nodes.read(messages.nodes(node))
    assert len(intake.events) == 1
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    [refusal] = answer.rejected_allocations
    assert refusal.key == "bad"
    assert "nodeID is 'node-2', but it was reported with node 'node-1'" in refusal.reason


RELEASES: list[tuple[dict[str, Any], str]] = [
    ({"applicationID": "", "allocationKey": ""}, "applicationID is missing"),
    ({"partitionName": ""}, "partitionName is missing"),
    ({"partitionName": "other"}, "partitionName is not known"),
    ({"terminationType": si_pb2.UNKNOWN_TERMINATION_TYPE}, "terminationType is not known: 0"),
    ({"terminationType": 77}, "terminationType is not known: 77"),
    ({"allocationID": LONG}, "allocationID is longer"),
]


@pytest.mark.parametrize("fields, reason", RELEASES, ids=[reason for _, reason in RELEASES])
def test_a_release_is_refused(fields: dict[str, Any], reason: str) -> None:
    intake = messages.a_decoder().allocations.read(
        messages.releases(messages.a_release(**fields), messages.a_release("good"))
    )
    assert len(intake.events) == 1
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    assert reason in answer.rejected_allocations[0].reason


ASK_RELEASES: list[tuple[dict[str, Any], str]] = [
    ({"applicationID": ""}, "applicationID is missing"),
    ({"partitionName": "other"}, "partitionName is not known"),
    ({"terminationType": si_pb2.UNKNOWN_TERMINATION_TYPE}, "terminationType is not known: 0"),
    ({"allocationKey": LONG}, "allocationKey is longer"),
]


@pytest.mark.parametrize("fields, reason", ASK_RELEASES, ids=[reason for _, reason in ASK_RELEASES])
def test_the_release_of_an_ask_is_refused(fields: dict[str, Any], reason: str) -> None:
    intake = messages.a_decoder().allocations.read(messages.ask_releases(messages.an_ask_release(**fields)))
    assert intake.events == []
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    assert reason in answer.rejected_asks[0].reason


APPLICATIONS: list[tuple[dict[str, Any], str]] = [
    ({"applicationID": ""}, "applicationID is missing"),
    ({"applicationID": LONG}, "applicationID is longer"),
    ({"partitionName": ""}, "partitionName is missing"),
    ({"partitionName": "other"}, "partitionName is not known"),
    ({"queueName": "q" * 1025}, "queueName is longer than 1024 characters"),
    ({"ugi": si_pb2.UserGroupInformation(user=LONG)}, "ugi.user is longer"),
    ({"ugi": si_pb2.UserGroupInformation(groups=[LONG])}, "ugi.groups is longer"),
    ({"placeholderAsk": messages.a_resource(vcore=-5)}, "placeholderAsk: vcore is negative"),
    ({"placeholderAsk": messages.a_resource(vcore=HUGE)}, "placeholderAsk: vcore is out of range"),
    ({"executionTimeoutMilliSeconds": 2**62}, "executionTimeoutMilliSeconds is out of range"),
    ({"tags": {keys.APP_TAG_CREATION_TIME: "x"}}, "yunikorn.apache.org/creationTime: x is not a time"),
    ({"tags": {keys.APP_TAG_GANG_WAIT_TIMEOUT: "soon"}}, "muster/gang-wait-timeout-ms: soon is not a time"),
    (
        {"tags": {keys.APP_TAG_TOPOLOGY: '{"required":true}'}},
        "muster/gang-topology: the value is wrong: Object missing required field `key`",
    ),
    ({"tags": {keys.APP_TAG_TOPOLOGY: '{"key":"a","required":1}'}}, "required is wrong: Expected `bool`, got `int`"),
    ({"tags": {keys.APP_TAG_MEMBERS: "{}"}}, "muster/members: the value is wrong: Expected `array`, got `object`"),
    ({"tags": {keys.APP_TAG_MEMBERS: '[{"name":""}]'}}, "[0].name is wrong: Expected `str` of length >= 1"),
    ({"tags": {keys.APP_TAG_MEMBERS: '[{"name":"w","minMember":0}]'}}, "[0].minMember is wrong: Expected `int` >= 1"),
    (
        {"tags": {keys.APP_TAG_MEMBERS: '[{"name":"w","minMember":true}]'}},
        "[0].minMember is wrong: Expected `int`, got `bool`",
    ),
    (
        {"tags": {keys.APP_TAG_MEMBERS: '[{"name":"w","minMember":1,"resource":{"vcore":1.5}}]'}},
        "[0].resource[...] is wrong: Expected `int`, got `float`",
    ),
    (
        {"tags": {keys.APP_TAG_MEMBERS: '[{"name":"w","minMember":1},{"name":"w","minMember":1}]'}},
        "members name a task group twice",
    ),
    (
        {"tags": {keys.APP_TAG_MEMBERS: '[{"name":"w","minMember":2147483647,"resource":{"vcore":1}}]'}},
        "minMember of all task groups is 2147483647, the limit is 10000: reduce minMember",
    ),
    (
        {"tags": {keys.APP_TAG_MEMBERS: '[{"name":"v","minMember":5001},{"name":"w","minMember":5000}]'}},
        "minMember of all task groups is 10001, the limit is 10000",
    ),
    (
        {"tags": {keys.APP_TAG_MEMBERS: "[" + ",".join(f'{{"name":"w{n}","minMember":1}}' for n in range(101)) + "]"}},
        "members has 101 task groups, the limit is 100: define fewer groups",
    ),
    (
        {"tags": {keys.APP_TAG_MEMBERS: '[{"name":"w","minMember":1,"priority":"high"}]'}},
        "[0].priority is wrong: Expected `int`, got `str`",
    ),
    (
        {"tags": {keys.APP_TAG_GANG_PLACEMENT: "direct"}},
        "muster/gang-placement is 'direct', not one of Reserve, Direct, Auto",
    ),
]


@pytest.mark.parametrize("fields, reason", APPLICATIONS, ids=[reason for _, reason in APPLICATIONS])
def test_an_application_is_refused(fields: dict[str, Any], reason: str) -> None:
    intake = messages.a_decoder().applications.read(
        messages.applications(messages.an_application(**fields), messages.an_application("good"))
    )
    assert len(intake.events) == 1
    [answer] = intake.answers
    assert isinstance(answer, ApplicationRejected)
    assert reason in answer.reason


@pytest.mark.parametrize("partition, name", [("", "app-1"), ("other", "app-1"), ("default", "")])
def test_the_removal_of_an_unidentified_application_is_rejected(partition: str, name: str) -> None:
    removal = si_pb2.RemoveApplicationRequest(applicationID=name, partitionName=partition)
    intake = messages.a_decoder().applications.read(si_pb2.ApplicationRequest(remove=[removal]))
    assert intake.events == []
    [answer] = intake.answers
    assert isinstance(answer, ApplicationRejected)


NODES: list[tuple[dict[str, Any], str]] = [
    ({"nodeID": ""}, "nodeID is missing"),
    ({"nodeID": LONG}, "nodeID is longer"),
    ({"action": si_pb2.NodeInfo.UNKNOWN_ACTION_FROM_RM}, "action is not known: 0"),
    ({"action": 42}, "action is not known: 42"),
    ({"attributes": {keys.NODE_PARTITION: "other"}}, "partitionName is not known"),
    ({"attributes": {keys.NODE_TAINTS: "{}"}}, "muster/taints: the value is wrong: Expected `array`, got `object`"),
    (
        {"attributes": {keys.NODE_TAINTS: '[{"key":"a","effect":"Maybe"}]'}},
        "[0].effect is wrong: Invalid enum value 'Maybe'",
    ),
    ({"schedulableResource": messages.a_resource(vcore=-1)}, "schedulableResource: vcore is negative"),
    ({"occupiedResource": messages.a_resource(vcore=-1)}, "occupiedResource: vcore is negative"),
    ({"action": si_pb2.NodeInfo.UPDATE, "schedulableResource": None}, "schedulableResource is missing"),
]


@pytest.mark.parametrize("fields, reason", NODES, ids=[reason for _, reason in NODES])
def test_a_node_is_refused(fields: dict[str, Any], reason: str) -> None:
    intake = messages.a_decoder().nodes.read(messages.nodes(messages.a_node(**fields), messages.a_node("good")))
    assert len(intake.events) == 1
    [answer] = intake.answers
    assert isinstance(answer, NodeRejected)
    assert reason in answer.reason


def test_an_answer_truncates_names_that_are_too_long() -> None:
    intake = messages.a_decoder().allocations.read(
        messages.asks(messages.an_ask("k" * 100_000, applicationID="a" * 100_000))
    )
    [answer] = intake.answers
    assert isinstance(answer, AllocationResponse)
    [refusal] = answer.rejected_asks
    assert max(len(refusal.key), len(refusal.application), len(refusal.reason)) <= 256
