"""Requests become messages in order and of bounded size; messages become responses; the bytes are as specified."""

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster_operator.model.core_messages import (
    Allocated,
    AllocationRejected,
    AllocationReleased,
    AllocationReported,
    AllocationResponse,
    AllocationSpec,
    ApplicationAccepted,
    ApplicationRejected,
    ApplicationRemoved,
    ApplicationResponse,
    ApplicationSpec,
    ApplicationSubmitted,
    ApplicationUpdated,
    AskCancelled,
    AskRejected,
    AskReleased,
    AskSpec,
    AskSubmitted,
    ClusterObjectReported,
    CoreEvent,
    CoreEvents,
    CoreRequest,
    EventKind,
    Node,
    NodeCreated,
    NodeDecommissioned,
    NodeDrained,
    NodeOpened,
    NodeRecommended,
    NodeResponse,
    NodeUpdated,
    Recommendations,
    Released,
    SchedulingState,
    SchedulingStateChanged,
    SchedulingStates,
    TerminationType,
)
from muster_operator.model.ids import AllocationId, AppId, NodeName, PodUid
from muster_operator.model.limits import MESSAGE_ITEMS
from muster_operator.model.pods import UserInfo
from muster_operator.model.storage import ClusterObject, ObjectKind
from muster_operator.si.codec import EncodedRequest, Encoder, Sent, decoded, decoded_callback
from muster_si import keys, muster_pb2, si_pb2

ENCODER = Encoder("rm", "default")
APP = AppId("app")
KEY = PodUid("uid-1")
N1 = NodeName("n1")


def an_ask(key: str = KEY) -> AskSpec:
    return AskSpec(
        PodUid(key), APP, {"vcore": 100}, 5, {"creationTime": "7"}, "workers", placeholder=True, originator=True
    )


def a_node() -> Node:
    return Node(N1, "uid-n1", {"vcore": 4000, "pods": 110}, {"si/hostname": "n1"})


#: The encoded bytes, field by field as the Scheduler Interface numbers them. A change breaks every other core.
GOLDEN = (
    (
        ApplicationSubmitted(ApplicationSpec(APP, "", UserInfo(), {})),
        "0a180a036170701a0764656661756c7422080a066e6f626f64791a02726d",
    ),
    (
        AskSubmitted(an_ask()),
        (
            "0a4e0a057569642d3112036170701a0764656661756c74220d0a0b0a0576636f726512020864280130054211"
            "0a0c6372656174696f6e54696d651201374a07776f726b657273500158016204080110011a02726d"
        ),
    ),
    (
        NodeCreated(a_node(), drained=True),
        (
            "0a350a026e3110061a110a0b73692f686f73746e616d6512026e31221a0a0a0a04706f64731202086e"
            "0a0c0a0576636f7265120308a01f1202726d"
        ),
    ),
)


def messages_of(requests: Iterable[CoreRequest]) -> list[EncodedRequest]:
    """As they would be sent."""
    return [ENCODER.encoded(batch) for batch in ENCODER.batches(requests)]


@pytest.mark.parametrize("requests,expected", GOLDEN)
def test_messages_have_the_specified_bytes(requests: CoreRequest, expected: str) -> None:
    [message] = messages_of([requests])
    assert message.SerializeToString(deterministic=True).hex() == expected


def test_a_gang_is_submitted_with_its_placeholder_ask_style_and_timeout() -> None:
    spec = ApplicationSpec(
        APP, "root.q", UserInfo("sue", ("g",)), {"namespace": "ns"}, {"vcore": 300, "pods": 3}, "Hard", 60_000
    )
    [message] = messages_of([ApplicationSubmitted(spec)])
    assert isinstance(message, si_pb2.ApplicationRequest)
    [new] = message.new
    assert (new.applicationID, new.queueName, new.partitionName, new.gangSchedulingStyle) == (
        "app",
        "root.q",
        "default",
        "Hard",
    )
    assert {name: quantity.value for name, quantity in new.placeholderAsk.resources.items()} == {
        "vcore": 300,
        "pods": 3,
    }
    assert (new.ugi.user, list(new.ugi.groups), new.executionTimeoutMilliSeconds) == ("sue", ["g"], 60_000)


def test_an_application_without_a_gang_has_no_placeholder_ask_at_all() -> None:
    [message] = messages_of([ApplicationSubmitted(ApplicationSpec(APP, "", UserInfo(), {}))])
    assert isinstance(message, si_pb2.ApplicationRequest)
    assert not message.new[0].HasField("placeholderAsk")


def test_a_node_message_contains_the_existing_allocations() -> None:
    existing = AllocationSpec(an_ask(), N1, AllocationId("a-1"))
    [message] = messages_of([NodeCreated(a_node(), drained=True, existing=(existing,))])
    assert isinstance(message, si_pb2.NodeRequest)
    [node] = message.nodes
    assert node.action == si_pb2.NodeInfo.CREATE_DRAIN
    [allocation] = node.existingAllocations
    assert (allocation.allocationKey, allocation.nodeID, allocation.allocationID) == ("uid-1", "n1", "a-1")
    assert (allocation.placeholder, allocation.originator, allocation.taskGroupName) == (True, True, "workers")


def test_every_node_action_maps_to_its_enum_value() -> None:
    requests: list[CoreRequest] = [
        NodeCreated(a_node(), drained=False),
        NodeUpdated(a_node()),
        NodeDrained(N1),
        NodeOpened(N1),
        NodeDecommissioned(N1),
    ]
    [message] = messages_of(requests)
    assert isinstance(message, si_pb2.NodeRequest)
    info = si_pb2.NodeInfo
    assert [node.action for node in message.nodes] == [
        info.CREATE,
        info.UPDATE,
        info.DRAIN_NODE,
        info.DRAIN_TO_SCHEDULABLE,
        info.DECOMISSION,
    ]


def test_a_foreign_pod_is_an_allocation_without_application() -> None:
    ask = AskSpec(KEY, None, {"vcore": 1}, tags={"foreign": "static"})
    [message] = messages_of([AllocationReported(AllocationSpec(ask, N1))])
    assert isinstance(message, si_pb2.AllocationRequest)
    assert message.allocations[0].applicationID == ""
    assert dict(message.allocations[0].allocationTags) == {"foreign": "static"}


def test_a_release_confirmation_carries_the_termination_type_and_allocation_id() -> None:
    requests = AllocationReleased(APP, KEY, TerminationType.PLACEHOLDER_REPLACED, AllocationId("a-1"))
    [message] = messages_of([requests])
    assert isinstance(message, si_pb2.AllocationRequest)
    [release] = message.releases.allocationsToRelease
    assert release.terminationType == si_pb2.PLACEHOLDER_REPLACED
    assert release.allocationID == "a-1"


def test_an_ask_after_its_release_is_a_separate_message() -> None:
    messages = messages_of([AskReleased(APP, KEY), AskSubmitted(an_ask())])
    first, second = messages
    assert isinstance(first, si_pb2.AllocationRequest)
    assert isinstance(second, si_pb2.AllocationRequest)
    assert len(first.releases.allocationAsksToRelease) == 1
    assert len(second.asks) == 1


def test_a_message_has_at_most_a_hundred_items() -> None:
    messages = messages_of(AskSubmitted(an_ask(str(number))) for number in range(250))
    sizes = [len(message.asks) for message in messages if isinstance(message, si_pb2.AllocationRequest)]
    assert sizes == [MESSAGE_ITEMS, MESSAGE_ITEMS, 50]


NEWS: list[CoreRequest] = [
    ApplicationSubmitted(ApplicationSpec(APP, "", UserInfo(), {})),
    ApplicationRemoved(APP),
    NodeOpened(N1),
    AskSubmitted(an_ask()),
    AllocationReported(AllocationSpec(an_ask(), N1)),
    AllocationReleased(APP, KEY),
    AskReleased(APP, KEY),
    ClusterObjectReported(ClusterObject(ObjectKind.NAMESPACE, "ns")),
]


def item_types(message: EncodedRequest) -> list[type[object]]:
    """The kinds of news in a message."""
    match message:
        case si_pb2.ApplicationRequest():
            return [ApplicationSubmitted] * len(message.new) + [ApplicationRemoved] * len(message.remove)
        case si_pb2.NodeRequest():
            return [NodeOpened] * len(message.nodes)
        case muster_pb2.FactsRequest():
            return [ClusterObjectReported] * len(message.facts)
        case _:
            return (
                [AskSubmitted] * len(message.asks)
                + [AllocationReported] * len(message.allocations)
                + [AllocationReleased] * len(message.releases.allocationsToRelease)
                + [AskReleased] * len(message.releases.allocationAsksToRelease)
            )


@given(st.lists(st.sampled_from(NEWS), max_size=30))
def test_messages_contain_all_requests_in_order(requests: list[CoreRequest]) -> None:
    kinds = [kind for message in messages_of(requests) for kind in item_types(message)]
    assert kinds == [type(item) for item in requests]


def test_a_barrier_counts_messages_per_stream() -> None:
    barrier = ENCODER.barrier(Sent(applications=1, nodes=2, allocations=3))
    assert (barrier.rmID, barrier.applicationRequests, barrier.nodeRequests, barrier.allocationRequests) == (
        "rm",
        1,
        2,
        3,
    )


def test_an_allocation_response_is_one_result() -> None:
    response = si_pb2.AllocationResponse(
        new=[
            si_pb2.Allocation(applicationID="app", allocationKey="k", nodeID="n1", allocationID="a", placeholder=True)
        ],
        released=[
            si_pb2.AllocationRelease(
                applicationID="app", allocationKey="p", terminationType=si_pb2.PLACEHOLDER_REPLACED, message="swap"
            )
        ],
        releasedAsks=[si_pb2.AllocationAskRelease(applicationID="app", terminationType=si_pb2.TIMEOUT)],
        rejected=[si_pb2.RejectedAllocationAsk(applicationID="app", allocationKey="r", reason="no")],
        rejectedAllocations=[si_pb2.RejectedAllocation(applicationID="app", allocationKey="x", reason="known")],
    )
    assert decoded(response) == AllocationResponse(
        cancelled_asks=(AskCancelled(APP, PodUid(""), TerminationType.TIMEOUT),),
        released=(Released(APP, PodUid("p"), TerminationType.PLACEHOLDER_REPLACED, AllocationId(""), "swap"),),
        allocated=(Allocated(APP, PodUid("k"), N1, AllocationId("a")),),
        rejected_asks=(AskRejected(APP, PodUid("r"), "no"),),
        rejected_allocations=(AllocationRejected(APP, PodUid("x"), "known"),),
    )


def test_an_allocation_reports_the_volumes_chosen_for_the_claims_of_the_pod() -> None:
    tags = {keys.TAG_CHOSEN_VOLUMES: '{"dev/data":"disk","dev/more":""}'}
    response = decoded(si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey="k", allocationTags=tags)]))
    assert isinstance(response, AllocationResponse)
    assert [found.volumes for found in response.allocated] == [{"dev/data": "disk", "dev/more": ""}]


def test_a_release_with_an_unknown_termination_type_is_still_a_release() -> None:
    of_a_newer_core = si_pb2.AllocationRelease.FromString(b"\x20\x63\x32\x01p")  # terminationType = 99, key = p
    response = decoded(si_pb2.AllocationResponse(released=[of_a_newer_core]))
    assert response == AllocationResponse(released=(Released(AppId(""), PodUid("p"), TerminationType.UNKNOWN),))


def test_application_and_node_responses_are_decoded() -> None:
    assert decoded(
        si_pb2.ApplicationResponse(
            rejected=[si_pb2.RejectedApplication(applicationID="app", reason="no queue")],
            accepted=[si_pb2.AcceptedApplication(applicationID="app")],
            updated=[si_pb2.UpdatedApplication(applicationID="app", state="Running", message="m")],
        )
    ) == ApplicationResponse(
        (ApplicationRejected(APP, "no queue"),), (ApplicationAccepted(APP),), (ApplicationUpdated(APP, "Running", "m"),)
    )
    assert decoded(
        si_pb2.NodeResponse(
            rejected=[si_pb2.RejectedNode(nodeID="n1", reason="known")], accepted=[si_pb2.AcceptedNode(nodeID="n2")]
        )
    ) == NodeResponse((NodeName("n2"),), {N1: "known"})


def test_scheduling_states_are_decoded_and_unknown_ones_skipped() -> None:
    request = si_pb2.UpdateContainerSchedulingStateRequest
    callback = muster_pb2.Callback(
        schedulingStates=muster_pb2.SchedulingStates(
            states=[
                request(applicationID="app", allocationKey="uid-1"),
                request(applicationID="app", allocationKey="uid-1", state=request.FAILED, reason="0/3 nodes"),
            ],
            reasonKinds=["", "nodes"],
            preemptionNodes=["", "n1"],
        )
    )
    assert decoded_callback(callback) == SchedulingStates(
        (SchedulingStateChanged(APP, KEY, SchedulingState.FAILED, "0/3 nodes", "nodes", N1),)
    )


def test_a_scheduling_state_without_reason_kinds_is_decoded_without_one() -> None:
    request = si_pb2.UpdateContainerSchedulingStateRequest
    state = request(applicationID="app", allocationKey="uid-1", state=request.SKIPPED, reason="full")
    callback = muster_pb2.Callback(schedulingStates=muster_pb2.SchedulingStates(states=[state]))
    assert decoded_callback(callback) == SchedulingStates(
        (SchedulingStateChanged(APP, KEY, SchedulingState.SKIPPED, "full"),)
    )


def test_core_events_are_decoded_with_their_subject_and_message() -> None:
    record = si_pb2.EventRecord(
        type=si_pb2.EventRecord.APP,
        objectID="app",
        message="m",
        referenceID="r",
        eventChangeDetail=si_pb2.EventRecord.APP_REJECT,
    )
    assert decoded_callback(muster_pb2.Callback(events=muster_pb2.Events(events=[record]))) == CoreEvents(
        (CoreEvent(EventKind.APP, "app", "r", "m"),)
    )


def test_node_add_and_remove_events_of_the_core_are_skipped() -> None:
    """The node stream has the same information; after a restart there would be an event for each node."""
    kinds = (si_pb2.EventRecord.ADD, si_pb2.EventRecord.REMOVE, si_pb2.EventRecord.SET)
    node = si_pb2.EventRecord.NODE
    records = [si_pb2.EventRecord(type=node, objectID="n1", message="m", eventChangeType=kind) for kind in kinds]
    decoded_events = decoded_callback(muster_pb2.Callback(events=muster_pb2.Events(events=records)))
    assert isinstance(decoded_events, CoreEvents)
    assert len(decoded_events.events) == 1


def test_a_state_dump_question_is_not_a_result() -> None:
    question = muster_pb2.Callback(stateDump=muster_pb2.StateDumpQuestion(id=1))
    assert decoded_callback(question) is None


def test_recommendations_name_their_nodes() -> None:
    found = muster_pb2.NodeRecommendation(nodeID="n1", message="it could be emptied")
    callback = muster_pb2.Callback(nodeRecommendations=muster_pb2.NodeRecommendations(recommendations=[found]))
    assert decoded_callback(callback) == Recommendations((NodeRecommended(N1, "it could be emptied"),))
