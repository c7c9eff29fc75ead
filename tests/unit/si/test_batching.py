"""Two messages are merged only if the receiver cannot distinguish them from separate ones."""

from collections.abc import Sequence

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from muster_si import muster_pb2, si_pb2
from muster_si.transport.batching import parcel
from muster_si.transport.outbox import Outbox

Response = si_pb2.AllocationResponse
Request = si_pb2.AllocationRequest

NEW = Response(new=[si_pb2.Allocation(allocationKey="k")])
RELEASED = Response(released=[si_pb2.AllocationRelease(allocationKey="k")])
RELEASED_ASK = Response(releasedAsks=[si_pb2.AllocationAskRelease(allocationKey="k")])
SWAPPED = Response(released=RELEASED.released, new=NEW.new)
REJECTED = Response(rejected=[si_pb2.RejectedAllocationAsk(allocationKey="k")])
REJECTED_ALLOCATION = Response(rejectedAllocations=[si_pb2.RejectedAllocation(allocationKey="k")])

ASK = Request(rmID="rm", asks=[si_pb2.AllocationAsk(allocationKey="k")])
EXISTING = Request(rmID="rm", allocations=NEW.new)
RELEASE = Request(rmID="rm", releases=si_pb2.AllocationReleasesRequest(allocationsToRelease=RELEASED.released))
ASK_RELEASE = Request(
    rmID="rm", releases=si_pb2.AllocationReleasesRequest(allocationAsksToRelease=RELEASED_ASK.releasedAsks)
)
MIXED = Request(rmID="rm", asks=ASK.asks, releases=RELEASE.releases)

EVENTS = muster_pb2.Callback(events=muster_pb2.Events(events=[si_pb2.EventRecord(objectID="a")]))
STATES = muster_pb2.Callback(
    schedulingStates=muster_pb2.SchedulingStates(states=[si_pb2.UpdateContainerSchedulingStateRequest()])
)
QUESTION = muster_pb2.Callback(stateDump=muster_pb2.StateDumpQuestion(id=1))


def an_outbox() -> Outbox:
    return Outbox(limit_bytes=10_000_000, batch_items=200, batch_bytes=1_000_000)


async def batches(messages: Sequence[Message], outbox: Outbox | None = None) -> list[bytes]:
    """What leaves an outbox in which all of these wait."""
    outbox = outbox or an_outbox()
    for message in messages:
        assert outbox.try_put(parcel(message))
    outbox.close("done")
    taken = []
    while (batch := await outbox.take()) is not None:
        taken.append(batch)
    return taken


@pytest.mark.parametrize(
    "earlier, later",
    [
        (NEW, NEW),
        (RELEASED, RELEASED),
        (RELEASED_ASK, RELEASED),
        (RELEASED, NEW),
        (RELEASED_ASK, NEW),
        (SWAPPED, NEW),
        (RELEASED, SWAPPED),
        (REJECTED, REJECTED),
        (REJECTED_ALLOCATION, REJECTED_ALLOCATION),
        (ASK, ASK),
        (EXISTING, EXISTING),
        (RELEASE, RELEASE),
        (ASK_RELEASE, ASK_RELEASE),
        (EVENTS, EVENTS),
        (STATES, STATES),
    ],
)
async def test_these_messages_are_merged(earlier: Message, later: Message) -> None:
    (batch,) = await batches([earlier, later])
    both = type(earlier)()
    both.MergeFrom(earlier)
    both.MergeFrom(later)
    assert type(earlier).FromString(batch) == both


@pytest.mark.parametrize(
    "earlier, later",
    [
        (NEW, RELEASED),  # the release of what has just been allocated must not overtake it
        (NEW, RELEASED_ASK),
        (RELEASED, RELEASED_ASK),
        (NEW, SWAPPED),
        (SWAPPED, SWAPPED),
        (NEW, REJECTED),  # it is undefined whether rejections are applied before or after
        (REJECTED, NEW),
        (REJECTED, REJECTED_ALLOCATION),
        (REJECTED_ALLOCATION, REJECTED),
        (ASK, RELEASE),
        (ASK, ASK_RELEASE),
        (ASK_RELEASE, ASK),
        (RELEASE, ASK),  # a failed bind: release, then the same key again
        (EXISTING, ASK),
        (RELEASE, ASK_RELEASE),
        (MIXED, ASK),
        (MIXED, MIXED),
        (EVENTS, STATES),
        (QUESTION, QUESTION),
        (EVENTS, QUESTION),
        (Request(rmID="rm"), Request(rmID="rm")),
        (Response(), NEW),
    ],
)
async def test_these_messages_are_sent_separately(earlier: Message, later: Message) -> None:
    assert [type(earlier).FromString(batch) for batch in await batches([earlier, later])] == [earlier, later]


@pytest.mark.parametrize(
    "message",
    [
        si_pb2.ApplicationRequest(
            rmID="rm",
            new=[si_pb2.AddApplicationRequest(applicationID="a")],
            remove=[si_pb2.RemoveApplicationRequest(applicationID="a")],
        ),
        si_pb2.ApplicationResponse(
            accepted=[si_pb2.AcceptedApplication(applicationID="a")],
            updated=[si_pb2.UpdatedApplication(applicationID="a", state="Running")],
        ),
        si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="n")], rejected=[si_pb2.RejectedNode(nodeID="n")]),
    ],
)
async def test_a_message_with_two_kinds_of_items_is_sent_alone(message: Message) -> None:
    assert len(await batches([message, message])) == 2


def applied(responses: list[si_pb2.AllocationResponse]) -> list[tuple[str, str]]:
    """What the operator does, in its order."""
    return [
        fact
        for response in responses
        for fact in (
            *(("ask gone", ask.allocationKey) for ask in response.releasedAsks),
            *(("gone", release.allocationKey) for release in response.released),
            *(("new", allocation.allocationKey) for allocation in response.new),
        )
    ]


KEYS = st.lists(st.sampled_from("abc"), max_size=2)
RESPONSES = st.builds(
    lambda asks, gone, new: si_pb2.AllocationResponse(
        releasedAsks=[si_pb2.AllocationAskRelease(allocationKey=key) for key in asks],
        released=[si_pb2.AllocationRelease(allocationKey=key) for key in gone],
        new=[si_pb2.Allocation(allocationKey=key) for key in new],
    ),
    KEYS,
    KEYS,
    KEYS,
)


@given(st.lists(RESPONSES, max_size=12))
async def test_merged_messages_are_applied_in_the_sent_order(
    sent: list[si_pb2.AllocationResponse],
) -> None:
    received = [si_pb2.AllocationResponse.FromString(batch) for batch in await batches(sent)]
    assert applied(received) == applied(sent)


async def test_a_batch_ends_at_the_limit_of_items() -> None:
    outbox = Outbox(limit_bytes=10_000_000, batch_items=200, batch_bytes=1_000_000)
    got = await batches([ASK] * 450, outbox)
    assert [len(Request.FromString(batch).asks) for batch in got] == [200, 200, 50]


async def test_a_batch_ends_at_the_limit_of_bytes() -> None:
    size = len(ASK.SerializeToString())
    outbox = Outbox(limit_bytes=10_000_000, batch_items=200, batch_bytes=3 * size)
    assert [len(batch) for batch in await batches([ASK] * 7, outbox)] == [3 * size, 3 * size, size]


async def test_a_large_message_is_never_split() -> None:
    large = Request(rmID="rm", asks=[si_pb2.AllocationAsk(allocationKey=str(n)) for n in range(1000)])
    assert [Request.FromString(batch) for batch in await batches([ASK, large, ASK])] == [ASK, large, ASK]


async def test_pods_of_nodes_count_as_items_of_a_message() -> None:
    node = si_pb2.NodeInfo(nodeID="n", existingAllocations=[si_pb2.Allocation(allocationKey="k")] * 99)
    message = si_pb2.NodeRequest(rmID="rm", nodes=[node])
    assert len(await batches([message] * 4)) == 2
