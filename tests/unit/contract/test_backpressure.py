"""Outboxes have a limit, no message below it is lost, and streams do not wait for each other."""

import asyncio
from collections.abc import AsyncIterable
from typing import TypeVar

import grpc
import pytest

from muster_si import si_pb2, si_pb2_grpc
from muster_si.errors import SessionLost
from tests.unit.contract.conftest import Socket, registered
from tests.unit.contract.peers import SETTINGS, Client, ResourceManager, a_registration, asks, keys_of

T = TypeVar("T")

#: Bytes of an ask. A few hundred of them exceed outbox, socket and stream together.
LARGE = 50_000
MANY = 400


async def send_many(client: Client, sent: list[int]) -> None:
    for number in range(MANY):
        await client.update_allocation(asks(str(number), padding=LARGE))
        sent.append(number)


async def test_a_slow_scheduler_makes_the_client_wait_and_loses_nothing(socket: Socket) -> None:
    client, sent, received = socket.connect(), list[int](), socket.scheduler.allocations.items
    await client.register_resource_manager(a_registration(), ResourceManager())
    sending = asyncio.create_task(send_many(client, sent))
    ahead = 0
    while len(keys_of(received)) < MANY:
        socket.scheduler.gate.clear()
        for _ in range(50):  # iterations of the loop in which only the client progresses
            await asyncio.sleep(0)
        ahead = max(ahead, len(sent) - len(keys_of(received)))
        socket.scheduler.gate.set()
        await socket.scheduler.allocations.first(len(received) + 1)
    await sending
    assert keys_of(received) == [str(number) for number in range(MANY)]
    assert ahead < MANY / 2, "the client took over more than outbox and stream may hold"


async def fill(client: Client) -> None:
    """Send until the session ends."""
    while True:
        await client.update_allocation(asks("a", padding=LARGE))


async def test_other_streams_and_responses_flow_while_one_stream_is_blocked(socket: Socket) -> None:
    client, rm = await registered(socket)
    socket.scheduler.gate.clear()
    blocked = asyncio.create_task(fill(client))
    callback = socket.scheduler.present["rm"]
    callback.update_allocation(si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey="a")]))
    callback.update_node(si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="n1")]))
    await rm.allocations.first()
    await rm.nodes.first()
    callback.session_lost("enough")
    with pytest.raises(SessionLost, match="enough"):
        await blocked
    socket.scheduler.gate.set()


async def read_all(stream: AsyncIterable[T], into: list[T]) -> None:
    async for response in stream:
        into.append(response)  # noqa: PERF401 - what came before the error counts


async def test_a_resource_manager_that_does_not_read_loses_its_session(socket: Socket) -> None:
    async with grpc.aio.insecure_channel(f"unix:{socket.path}") as channel:
        stub = si_pb2_grpc.SchedulerStub(channel)
        await stub.RegisterResourceManager(a_registration())
        stream = stub.UpdateAllocation()
        await stream.write(asks("a"))
        await socket.scheduler.allocations.first()
        callback = socket.scheduler.present["rm"]
        sent_count = 0
        while not socket.scheduler.lost.items:
            assert sent_count * LARGE < 40 * SETTINGS.server_outbox_bytes, "the outbox grows without a limit"
            tags = {"padding": "x" * LARGE}
            new = si_pb2.Allocation(allocationKey=str(sent_count), allocationTags=tags)
            callback.update_allocation(si_pb2.AllocationResponse(new=[new]))
            sent_count += 1
            await asyncio.sleep(0)
        assert [lost for lost, _ in socket.scheduler.lost.items] == ["rm"]
        got: list[si_pb2.AllocationResponse] = []
        with pytest.raises(grpc.aio.AioRpcError) as ended:
            await read_all(stream, got)
        assert ended.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert "wait to be read from UpdateAllocation" in str(ended.value.details())
        assert 0 < len(got) < sent_count


async def test_an_overrun_session_is_asked_to_register_again(socket: Socket) -> None:
    _, rm = await registered(socket)
    callback = socket.scheduler.present["rm"]
    tags = {"padding": "x" * LARGE}
    for number in range(1 + SETTINGS.server_outbox_bytes // LARGE):  # without an await, so that the writer does not run
        new = si_pb2.Allocation(allocationKey=str(number), allocationTags=tags)
        callback.update_allocation(si_pb2.AllocationResponse(new=[new]))
    (reason,) = await rm.ends.first()
    assert reason.startswith("RESOURCE_EXHAUSTED: more than")
    (wish,) = rm.callbacks.items
    assert wish.reregister.reason == reason.removeprefix("RESOURCE_EXHAUSTED: ")
    ((lost, _),) = await socket.scheduler.lost.first()
    assert lost == "rm"
