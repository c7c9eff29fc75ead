"""The inventory of the core in parts, over both transports (ADR 0015)."""

import pytest

from muster_si import muster_pb2, si_pb2
from muster_si.errors import Refused
from muster_si.sent_items import count_items
from tests.unit.contract.cores import RM, CoreWire, Talk, awaits_barrier

NODES = muster_pb2.InventoryRequest.NODES


@pytest.fixture
async def talk(core_wire: CoreWire) -> Talk:
    talk = Talk(core_wire.connect())
    await talk.register()
    await talk.node("n1", vcore=2000)
    await talk.application()
    await talk.accepted()
    return talk


async def inventory(talk: Talk, beyond: str = "", limit: int = 0) -> muster_pb2.Inventory:
    request = muster_pb2.InventoryRequest(after=muster_pb2.BarrierRequest(rmID=RM), beyond=beyond, limit=limit)
    return await talk.client.take_inventory(request)


async def test_the_inventory_shows_asks_allocations_and_the_message_count(talk: Talk) -> None:
    await talk.ask("a", "b", "c")
    await talk.allocated("a", "b")
    found = await inventory(talk)
    [app] = found.applications
    assert (app.applicationID, list(app.askKeys)) == ("app", ["c"])
    assert sorted((held.allocationKey, held.allocationID, held.nodeID) for held in app.allocations) == [
        ("a", "a-0", "n1"),
        ("b", "b-0", "n1"),
    ]
    assert found.sentItems == 5, "two allocations, and an application that was accepted, is Accepted, is Running"
    assert found.last == ""


async def test_the_inventory_waits_for_the_counted_messages(talk: Talk) -> None:
    """The inventory has the ask without a wait before: one application, one node and one allocation request."""
    await talk.ask("a")
    after = muster_pb2.BarrierRequest(rmID=RM, applicationRequests=1, nodeRequests=1, allocationRequests=1)
    found = await talk.client.take_inventory(muster_pb2.InventoryRequest(after=after))
    assert [*found.applications[0].askKeys, *(held.allocationKey for held in found.applications[0].allocations)] == [
        "a"
    ]


async def test_an_inventory_request_does_not_end_a_recovery(core_wire: CoreWire) -> None:
    talk = Talk(core_wire.connect())
    await talk.register(**awaits_barrier())
    await talk.node("n1", vcore=2000)
    await talk.application()
    await talk.accepted()
    await talk.ask("a")
    after = muster_pb2.BarrierRequest(rmID=RM, applicationRequests=1, nodeRequests=1, allocationRequests=1)
    for _ in range(3):
        found = await talk.client.take_inventory(muster_pb2.InventoryRequest(after=after))
        assert list(found.applications[0].askKeys) == ["a"]
    await talk.barrier()
    await talk.allocated("a")


async def test_parts_are_ordered_by_name(talk: Talk) -> None:
    for name in ("d", "b", "c", "a"):
        await talk.application(name)
        await talk.accepted(name)
    seen, beyond = [], ""
    for _ in range(10):
        found = await inventory(talk, beyond=beyond, limit=2)
        seen += [app.applicationID for app in found.applications]
        beyond = found.last
        if not beyond:
            break
    assert seen == ["a", "app", "b", "c", "d"]


async def test_a_removed_application_is_not_listed(talk: Talk) -> None:
    """It is Completing in REST, and unknown to its resource manager, which would remove it again."""
    await talk.application("other")
    await talk.accepted("other")
    await talk.remove_application()
    after = muster_pb2.BarrierRequest(rmID=RM, applicationRequests=3)
    found = await talk.client.take_inventory(muster_pb2.InventoryRequest(after=after))
    assert [app.applicationID for app in found.applications] == ["other"]


async def test_nodes_are_listed_with_their_foreign_allocations(talk: Talk) -> None:
    foreign = si_pb2.Allocation(allocationKey="dns", nodeID="n1", partitionName="default")
    await talk.node("n0", "CREATE_DRAIN", existingAllocations=[])
    await talk.client.update_allocation(si_pb2.AllocationRequest(rmID=RM, allocations=[foreign]))
    after = muster_pb2.BarrierRequest(rmID=RM, nodeRequests=2, allocationRequests=1)
    found = await talk.client.take_inventory(muster_pb2.InventoryRequest(after=after, part=NODES))
    shown = [(node.nodeID, node.schedulable, list(node.foreignKeys)) for node in found.nodes]
    assert shown == [("n0", False, []), ("n1", True, ["dns"])]


async def test_an_unknown_partition_is_rejected(talk: Talk) -> None:
    request = muster_pb2.InventoryRequest(after=muster_pb2.BarrierRequest(rmID=RM), partitionName="moon")
    with pytest.raises(Refused, match="moon"):
        await talk.client.take_inventory(request)


async def test_a_negative_message_count_is_rejected(talk: Talk) -> None:
    after = muster_pb2.BarrierRequest(rmID=RM, nodeRequests=-1)
    with pytest.raises(Refused, match="must be 0 or more"):
        await talk.client.take_inventory(muster_pb2.InventoryRequest(after=after))


def test_the_message_count_is_the_number_of_items_also_in_merged_messages() -> None:
    one = si_pb2.AllocationResponse(
        new=[si_pb2.Allocation()], released=[si_pb2.AllocationRelease()], releasedAsks=[si_pb2.AllocationAskRelease()]
    )
    other = si_pb2.AllocationResponse(
        rejected=[si_pb2.RejectedAllocationAsk()], rejectedAllocations=[si_pb2.RejectedAllocation()]
    )
    merged = si_pb2.AllocationResponse.FromString(one.SerializeToString() + other.SerializeToString())
    assert count_items(merged) == count_items(one) + count_items(other) == 5
    ended = si_pb2.ApplicationResponse(
        rejected=[si_pb2.RejectedApplication()],
        accepted=[si_pb2.AcceptedApplication()],
        updated=[si_pb2.UpdatedApplication()],
    )
    assert count_items(ended) == 3
