"""Messages of a stream arrive once and in order, with any batching."""

from muster_si import muster_pb2, si_pb2
from muster_si.transport.inprocess import InProcessClient
from tests.unit.contract.conftest import Wire
from tests.unit.contract.peers import ResourceManager, Scheduler, a_registration, asks, keys_of

MANY = 10_000


async def test_ten_thousand_asks_of_mixed_size_arrive_in_order(wire: Wire) -> None:
    client = wire.connect()
    await client.register_resource_manager(a_registration(), ResourceManager())
    for number in range(MANY):
        padding = 20_000 if number % 500 == 0 else number * 37 % 200
        await client.update_allocation(asks(str(number), padding=padding))
    await client.barrier(muster_pb2.BarrierRequest(rmID="rm", allocationRequests=MANY))
    got = wire.scheduler.allocations.items
    assert keys_of(got) == [str(number) for number in range(MANY)]


async def test_ten_thousand_allocations_and_releases_come_back_in_order(wire: Wire) -> None:
    rm = ResourceManager()
    await wire.connect().register_resource_manager(a_registration(), rm)
    callback = wire.scheduler.present["rm"]
    order: list[tuple[str, str]] = []
    for number in range(MANY):
        key = f"{number % 50}"
        if number * 7 % 10 < 3:
            order.append(("released", key))
            callback.update_allocation(
                si_pb2.AllocationResponse(released=[si_pb2.AllocationRelease(allocationKey=key)])
            )
        else:
            order.append(("new", key))
            callback.update_allocation(si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey=key)]))

    callback.update_allocation(si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey="end")]))
    got = applied(await rm.allocations.until(lambda items: last_key_is(items, "end")))
    assert got.pop() == ("new", "end")
    assert got == order


def last_key_is(responses: list[si_pb2.AllocationResponse], key: str) -> bool:
    return bool(responses and responses[-1].new and responses[-1].new[-1].allocationKey == key)


def applied(responses: list[si_pb2.AllocationResponse]) -> list[tuple[str, str]]:
    """Return the items in the order in which the operator applies them: releases, then allocations."""
    return [
        fact
        for response in responses
        for fact in (
            *(("released", release.allocationKey) for release in response.released),
            *(("new", allocation.allocationKey) for allocation in response.new),
        )
    ]


async def test_an_ask_and_its_release_keep_their_order(wire: Wire) -> None:
    client = wire.connect()
    await client.register_resource_manager(a_registration(), ResourceManager())
    release = si_pb2.AllocationReleasesRequest(allocationAsksToRelease=[si_pb2.AllocationAskRelease(allocationKey="a")])
    for _ in range(100):
        await client.update_allocation(asks("a"))
        await client.update_allocation(si_pb2.AllocationRequest(rmID="rm", releases=release))
    got = await wire.scheduler.allocations.first(200)
    kinds = ["ask" if request.asks else "release" for request in got]
    assert kinds == ["ask", "release"] * 100


async def test_the_recovery_barrier_waits_for_all_messages_sent_before_it(wire: Wire) -> None:
    client = wire.connect()
    await client.register_resource_manager(a_registration(), ResourceManager())
    for number in range(1000):
        await client.update_allocation(asks(str(number)))
    for number in range(3):
        await client.update_node(si_pb2.NodeRequest(rmID="rm", nodes=[si_pb2.NodeInfo(nodeID=str(number))]))
    await client.barrier(muster_pb2.BarrierRequest(rmID="rm", allocationRequests=1000, nodeRequests=3))
    assert len(keys_of(wire.scheduler.allocations.items)) == 1000
    assert sum(len(request.nodes) for request in wire.scheduler.nodes.items) == 3


async def test_in_process_calls_pass_the_same_objects() -> None:
    scheduler, request = Scheduler(), asks("a")
    client = InProcessClient(scheduler)
    await client.register_resource_manager(a_registration(), ResourceManager())
    await client.update_allocation(request)
    assert scheduler.allocations.items[0] is request
