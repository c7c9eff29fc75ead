"""A message becomes events field by field; the maps of muster_si.keys become constraints and members."""

from typing import Any

import pytest

from muster_core.model.constraints import Constraints, Requirement, Taint, Term, Toleration
from muster_core.model.effects import AllocationResponse, ApplicationRejected, NodeRejected
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    NodeAction,
    NodeActionReported,
    NodeAdded,
    NodeUpdated,
)
from muster_core.model.ids import ApplicationId, PartitionId, Termination
from muster_core.model.records import EventRecorded, Notice
from muster_core.model.resources import Resources
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, GangPlacement, GangStyle, Topology
from muster_core.si.values import TEXT_LIMIT
from muster_si import keys, si_pb2
from tests.unit.core import messages

SECOND = 1_000_000_000


def the_ask(request: si_pb2.AllocationRequest) -> AskSpec:
    intake = messages.a_decoder().allocations.read(request)
    assert intake.answers == []
    [event] = intake.events
    assert isinstance(event, AskAdded)
    return event.spec


def the_allocation(item: si_pb2.Allocation) -> AllocationSpec:
    intake = messages.a_decoder().allocations.read(messages.allocations(item))
    assert intake.answers == []
    [event] = intake.events
    assert isinstance(event, AllocationReported)
    return event.spec


def the_application(item: si_pb2.AddApplicationRequest) -> ApplicationSpec:
    [event] = messages.a_decoder().applications.read(messages.applications(item)).events
    assert isinstance(event, ApplicationAdded)
    return event.spec


def test_every_field_of_an_ask_arrives() -> None:
    tags = {keys.TAG_NAMESPACE: "team", keys.TAG_CREATION_TIME: "1700000000", "free": "text"}
    spec = the_ask(
        messages.asks(
            messages.an_ask(
                maxAllocations=3,
                priority=-7,
                executionTimeoutMilliSeconds=1500,
                tags=tags,
                taskGroupName="workers",
                placeholder=True,
                Originator=True,
                preemptionPolicy=si_pb2.PreemptionPolicy(allowPreemptSelf=False, allowPreemptOther=True),
            )
        )
    )
    assert (spec.partition, spec.application, spec.key) == ("[rm-1]default", "app-1", "pod-1")
    assert spec.resources == Resources({"vcore": 1000, "memory": 2**30, "pods": 1})
    assert (spec.group, spec.placeholder, spec.originator) == ("workers", True, True)
    assert (spec.priority, spec.max_allocations, spec.timeout_ns) == (-7, 3, 1_500_000_000)
    assert (spec.namespace, spec.created_ns, dict(spec.tags)) == ("team", 1_700_000_000 * SECOND, tags)
    assert (spec.allow_preempt_self, spec.allow_preempt_other) == (False, True)


def test_a_placeholder_without_a_task_group_is_an_ordinary_ask() -> None:
    assert not the_ask(messages.asks(messages.an_ask(placeholder=True))).placeholder
    assert not the_allocation(messages.an_allocation(placeholder=True)).placeholder


def test_an_ask_without_a_preemption_policy_allows_preemption() -> None:
    spec = the_ask(messages.asks(messages.an_ask()))
    assert spec.allow_preempt_self
    assert spec.allow_preempt_other


@pytest.mark.parametrize("milliseconds", [0, -1, -(2**63)])
def test_a_timeout_of_zero_or_less_means_never(milliseconds: int) -> None:
    assert the_ask(messages.asks(messages.an_ask(executionTimeoutMilliSeconds=milliseconds))).timeout_ns == 0


def test_equal_amounts_are_one_value() -> None:
    decoder = messages.a_decoder()
    first, second = decoder.allocations.read(messages.asks(messages.an_ask("a"), messages.an_ask("b"))).events
    assert isinstance(first, AskAdded)
    assert isinstance(second, AskAdded)
    assert first.spec.resources is second.spec.resources


def test_constraints_travel_as_json_in_a_tag() -> None:
    text = (
        '{"nodeAffinity":[{"matchExpressions":[{"key":"gpu","operator":"In","values":["a100"]}]},'
        '{"matchFields":[{"key":"metadata.name","operator":"In","values":["n1"]}]}],'
        '"nodeSelector":{"zone":"b","disk":"ssd"},'
        '"tolerations":[{"key":"spot","operator":"Exists","effect":"NoSchedule"},{"value":"x","tolerationSeconds":5}]}'
    )
    assert the_ask(messages.tagged({keys.TAG_CONSTRAINTS: text})).constraints == Constraints(
        node_selector=(("disk", "ssd"), ("zone", "b")),
        affinity=(
            Term(expressions=(Requirement("gpu", "In", ("a100",)),)),
            Term(fields=(Requirement("metadata.name", "In", ("n1",)),)),
        ),
        tolerations=(Toleration("spot", "Exists", "", "NoSchedule"), Toleration(value="x")),
    )


def test_equal_constraints_are_parsed_once() -> None:
    text = '{"nodeSelector":{"once":"1"}}'
    one, two = (the_ask(messages.tagged({keys.TAG_CONSTRAINTS: text})).constraints for _ in range(2))
    assert one is two


def test_an_affinity_without_terms_is_not_the_same_as_none() -> None:
    assert the_ask(messages.tagged({keys.TAG_CONSTRAINTS: '{"nodeAffinity":[]}'})).constraints.affinity == ()
    assert the_ask(messages.tagged({keys.TAG_CONSTRAINTS: "{}"})).constraints.affinity is None


def test_a_required_node_narrows_the_constraints() -> None:
    tags = {keys.TAG_REQUIRED_NODE: "n7", keys.TAG_CONSTRAINTS: '{"nodeSelector":{"a":"b"}}'}
    assert the_ask(messages.tagged(tags)).constraints == Constraints(node_selector=(("a", "b"),), node_name="n7")


def test_nodes_to_avoid_are_a_set() -> None:
    assert the_ask(messages.tagged({keys.TAG_AVOID_NODES: "n1,n2,"})).avoid == {"n1", "n2"}


def test_every_field_of_an_existing_allocation_arrives() -> None:
    tags = {keys.TAG_NAMESPACE: "team", keys.TAG_CREATION_TIME: "5", keys.TAG_ALLOCATED_AT: "7001"}
    tags[keys.TAG_UNVERIFIED] = "true"
    spec = the_allocation(
        messages.an_allocation(
            allocationTags=tags,
            priority=3,
            taskGroupName="workers",
            placeholder=True,
            allocationID="pod-1-4",
            originator=True,
            preemptionPolicy=si_pb2.PreemptionPolicy(allowPreemptSelf=True),
        )
    )
    assert (spec.partition, spec.application, spec.key, spec.id) == ("[rm-1]default", "app-1", "pod-1", "pod-1-4")
    assert (spec.node, spec.resources, spec.priority) == ("node-1", Resources({"vcore": 1000}), 3)
    assert (spec.group, spec.placeholder, spec.originator, spec.foreign) == ("workers", True, True, False)
    assert spec.unverified
    assert (spec.created_ns, spec.allocated_ns, spec.namespace) == (5 * SECOND, 7_001_000_000, "team")
    assert (spec.allow_preempt_self, spec.allow_preempt_other, dict(spec.tags)) == (True, False, tags)


def test_an_allocation_without_id_is_the_first_of_its_key() -> None:
    assert the_allocation(messages.an_allocation("pod-9")).id == "pod-9-0"


def test_an_allocation_without_application_or_marked_foreign_is_foreign() -> None:
    assert the_allocation(messages.an_allocation(applicationID="")).foreign
    assert the_allocation(messages.an_allocation(allocationTags={keys.TAG_FOREIGN: "static"})).foreign


def test_a_release_without_key_or_id_applies_to_all_allocations() -> None:
    decoder = messages.a_decoder()
    [event] = decoder.allocations.read(
        messages.releases(messages.a_release("", terminationType=si_pb2.TIMEOUT, message="late"))
    ).events
    partition, application = PartitionId("[rm-1]default"), ApplicationId("app-1")
    assert event == AllocationReleased(partition, application, None, None, Termination.TIMEOUT, "late")
    [event] = decoder.allocations.read(messages.releases(messages.a_release(allocationID="pod-1-1"))).events
    assert isinstance(event, AllocationReleased)
    assert (event.key, event.id) == ("pod-1", "pod-1-1")


def test_an_independent_allocation_is_released_by_its_key() -> None:
    [event] = messages.a_decoder().allocations.read(messages.releases(messages.a_release(applicationID=""))).events
    assert isinstance(event, AllocationReleased)
    assert (event.application, event.key) == ("", "pod-1")


@pytest.mark.parametrize("termination", list(Termination))
def test_every_termination_type_arrives(termination: Termination) -> None:
    number = si_pb2.TerminationType.Value(termination.value)
    request = messages.releases(messages.a_release(terminationType=number))
    request.MergeFrom(messages.ask_releases(messages.an_ask_release(terminationType=number)))
    released, ask_released = messages.a_decoder().allocations.read(request).events
    assert isinstance(released, AllocationReleased)
    assert isinstance(ask_released, AskReleased)
    assert released.termination is ask_released.termination is termination


def test_an_ask_release_without_key_names_all_asks_of_the_application() -> None:
    [event] = (
        messages.a_decoder().allocations.read(messages.ask_releases(messages.an_ask_release("", message="m"))).events
    )
    assert isinstance(event, AskReleased)
    assert (event.application, event.key, event.message) == ("app-1", None, "m")


def test_every_field_of_an_application_arrives() -> None:
    tags = {
        keys.APP_TAG_CREATION_TIME: "1700000000",
        keys.APP_TAG_CREATE_FORCE: "true",
        keys.APP_TAG_GANG_WAIT_TIMEOUT: "2500",
        keys.APP_TAG_NAMESPACE: "dev",
        keys.APP_TAG_MEMBERS: '[{"minMember":2,"name":"w","resource":{"vcore":500},"constraints":{"nodeName":"n1"},'
        '"labels":{"role":"w"},"podConstraints":{"antiAffinity":[{"topologyKey":"host","labelSelector":{}}]},'
        '"preferences":{"images":["a:1"]},"priority":-3,"allowPreemptSelf":false}]',
        keys.APP_TAG_GANG_PLACEMENT: "Direct",
        keys.APP_TAG_TOPOLOGY: '{"keys":["zone"],"required":true}',
    }
    spec = the_application(
        messages.an_application(
            tags=tags,
            executionTimeoutMilliSeconds=60_000,
            placeholderAsk=messages.a_resource(vcore=1000, pods=2),
            gangSchedulingStyle="Hard",
        )
    )
    assert (spec.partition, spec.id, spec.queue) == ("[rm-1]default", "app-1", "root.default")
    assert (spec.user, spec.groups, dict(spec.tags)) == ("alice", ("dev",), tags)
    assert (spec.timeout_ns, spec.wait_timeout_ns, spec.created_ns) == (
        60 * SECOND,
        2_500_000_000,
        1_700_000_000 * SECOND,
    )
    assert (spec.placeholder_ask, spec.style, spec.forced) == (
        Resources({"vcore": 1000, "pods": 2}),
        GangStyle.HARD,
        True,
    )
    [member] = spec.members
    assert (member.group, member.count, member.resources) == ("w", 2, Resources({"vcore": 500}))
    assert member.constraints == Constraints(node_name="n1")
    assert [(term.topology, term.selector) for term in member.facts.inter_pod.anti_affinity] == [("host", ())]
    assert member.tags == ((keys.TAG_NAMESPACE, "dev"), (keys.TAG_POD_LABEL_PREFIX + "role", "w"))
    assert member.facts.preferences.images == ("a:1",)
    assert (member.priority, member.allow_preempt_self, member.allow_preempt_other) == (-3, False, True)
    assert spec.topology == Topology(("zone",), required=True)
    assert spec.gang_placement is GangPlacement.DIRECT


@pytest.mark.parametrize("name", ["", "Reserve"])
def test_a_gang_without_a_placement_mode_uses_reserve(name: str) -> None:
    tags = {keys.APP_TAG_GANG_PLACEMENT: name}
    assert the_application(messages.an_application(tags=tags)).gang_placement is GangPlacement.RESERVE


def test_an_application_without_user_belongs_to_the_default_user() -> None:
    assert the_application(messages.an_application(ugi=si_pb2.UserGroupInformation())).user == "nobody"


@pytest.mark.parametrize("style", ["", "soft", "Medium"])
def test_a_gang_of_unknown_style_is_soft_and_warned_of(style: str) -> None:
    application = messages.an_application(gangSchedulingStyle=style, placeholderAsk=messages.a_resource(pods=1))
    intake = messages.a_decoder().applications.read(messages.applications(application))
    [event] = intake.events
    assert isinstance(event, ApplicationAdded)
    assert event.spec.style is GangStyle.SOFT
    [warning] = intake.answers
    assert isinstance(warning, EventRecorded)
    assert (warning.about, warning.subject) == (Notice.APPLICATION, "app-1")
    assert "gangSchedulingStyle" in warning.message


@pytest.mark.parametrize("members, used", [('[{"name":"w","minMember":2}]', "Auto"), ("", "Reserve")])
def test_the_removed_placement_gives_the_closest_one_with_a_warning(members: str, used: str) -> None:
    tags = {keys.APP_TAG_GANG_PLACEMENT: "Atomic", keys.APP_TAG_MEMBERS: members}
    intake = messages.a_decoder().applications.read(messages.applications(messages.an_application(tags=tags)))
    [event] = intake.events
    assert isinstance(event, ApplicationAdded)
    assert event.spec.gang_placement == used
    [warning] = intake.answers
    assert isinstance(warning, EventRecorded)
    assert f"Atomic was removed; {used} is used" in warning.message


def test_the_style_of_an_application_that_is_no_gang_is_ignored() -> None:
    assert (
        messages.a_decoder()
        .applications.read(messages.applications(messages.an_application(gangSchedulingStyle="?")))
        .answers
        == []
    )


def test_a_removed_application_is_named_with_its_partition() -> None:
    request = si_pb2.ApplicationRequest(
        remove=[si_pb2.RemoveApplicationRequest(applicationID="a", partitionName="default")]
    )
    [event] = messages.a_decoder().applications.read(request).events
    assert isinstance(event, ApplicationRemoved)
    assert (event.partition, event.application) == ("[rm-1]default", "a")


def test_a_node_is_decoded_with_labels_taints_occupied_resources_and_allocations() -> None:
    attributes = {
        keys.NODE_LABEL_PREFIX + "zone": "b",
        keys.NODE_LABEL_PREFIX + "kubernetes.io/os": "linux",
        keys.NODE_TAINTS: '[{"key":"spot","value":"","effect":"NoSchedule"}]',
        keys.RACK_NAME: "r1",
    }
    [event] = (
        messages.a_decoder()
        .nodes.read(
            messages.nodes(
                messages.a_node(
                    attributes=attributes,
                    occupiedResource=messages.a_resource(vcore=100),
                    existingAllocations=[messages.an_allocation(nodeID="")],
                )
            )
        )
        .events
    )
    assert isinstance(event, NodeAdded)
    spec = event.spec
    assert not event.draining
    assert (dict(spec.labels), dict(spec.attributes)) == ({"zone": "b", "kubernetes.io/os": "linux"}, attributes)
    assert spec.taints == (Taint("spot", "", "NoSchedule"),)
    assert (spec.capacity["vcore"], spec.occupied) == (8000, Resources({"vcore": 100}))
    [existing] = event.existing
    assert existing.node == "node-1"


def test_a_node_may_be_created_draining_and_then_updated() -> None:
    decoder = messages.a_decoder()
    [added] = decoder.nodes.read(messages.nodes(messages.a_node(action=si_pb2.NodeInfo.CREATE_DRAIN))).events
    assert isinstance(added, NodeAdded)
    assert added.draining
    [updated] = decoder.nodes.read(messages.nodes(messages.a_node(action=si_pb2.NodeInfo.UPDATE))).events
    assert isinstance(updated, NodeUpdated)
    assert updated.spec == added.spec


def test_an_update_of_a_node_may_add_existing_allocations() -> None:
    info = messages.a_node(action=si_pb2.NodeInfo.UPDATE, existingAllocations=[messages.an_allocation(nodeID="")])
    [updated] = messages.a_decoder().nodes.read(messages.nodes(info)).events
    assert isinstance(updated, NodeUpdated)
    assert [existing.node for existing in updated.existing] == ["node-1"]


@pytest.mark.parametrize("action", list(NodeAction))
def test_node_actions_need_only_the_node_id(action: NodeAction) -> None:
    number = si_pb2.NodeInfo.ActionFromRM.Value(action.value)
    [event] = messages.a_decoder().nodes.read(messages.nodes(si_pb2.NodeInfo(nodeID="n", action=number))).events
    assert isinstance(event, NodeActionReported)
    assert (event.partition, event.node, event.action) == ("[rm-1]default", "n", action)


def test_a_node_stays_in_the_partition_it_was_created_in() -> None:
    decoder = messages.a_decoder("default", "gpu")
    decoder.nodes.read(messages.nodes(messages.a_node(attributes={keys.NODE_PARTITION: "gpu"})))
    [event] = decoder.nodes.read(
        messages.nodes(si_pb2.NodeInfo(nodeID="node-1", action=si_pb2.NodeInfo.DRAIN_NODE))
    ).events
    assert isinstance(event, NodeActionReported)
    assert event.partition == "[rm-1]gpu"


def test_partition_names_are_case_insensitive() -> None:
    [event] = (
        messages.a_decoder("Default").allocations.read(messages.asks(messages.an_ask(partitionName="DEFAULT"))).events
    )
    assert isinstance(event, AskAdded)
    assert event.spec.partition == "[rm-1]default"


# -- Invalid items are rejected one by one, with a reason that names the field; valid items continue.

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
        "muster/gang-topology: the value is wrong: Object missing required field `keys`",
    ),
    ({"tags": {keys.APP_TAG_TOPOLOGY: '{"keys":["a"],"required":1}'}}, "required is wrong: Expected `bool`, got `int`"),
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
