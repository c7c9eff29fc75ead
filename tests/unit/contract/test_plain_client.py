"""A client that knows only the Scheduler Interface is served: without metadata, the rmID of the first request
identifies its streams."""

from collections.abc import AsyncIterator
from typing import TypeVar

import grpc
import pytest

from muster_si import muster_pb2, muster_pb2_grpc, si_pb2, si_pb2_grpc
from tests.unit.contract.conftest import Socket
from tests.unit.contract.peers import SETTINGS, ResourceManager, a_registration, asks, keys_of

Request = TypeVar("Request")
Response = TypeVar("Response")


@pytest.fixture
async def channel(socket: Socket) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"unix:{socket.path}") as channel:
        yield channel


async def status_of(stream: grpc.aio.StreamStreamCall[Request, Response]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as ended:
        await stream.read()
    return ended.value.code(), str(ended.value.details())


async def test_the_three_specified_streams_work_without_metadata(socket: Socket, channel: grpc.aio.Channel) -> None:
    stub = si_pb2_grpc.SchedulerStub(channel)
    await stub.RegisterResourceManager(a_registration())
    allocations, applications, nodes = stub.UpdateAllocation(), stub.UpdateApplication(), stub.UpdateNode()
    await allocations.write(asks("a"))
    await applications.write(si_pb2.ApplicationRequest(rmID="rm"))
    await nodes.write(si_pb2.NodeRequest(rmID="rm"))
    await socket.scheduler.allocations.first()
    await socket.scheduler.applications.first()
    await socket.scheduler.nodes.first()
    callback = socket.scheduler.present["rm"]
    callback.update_allocation(si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey="a")]))
    callback.update_application(si_pb2.ApplicationResponse(accepted=[si_pb2.AcceptedApplication(applicationID="app")]))
    callback.update_node(si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="n1")]))
    assert (await anext(aiter(allocations))).new[0].allocationKey == "a"
    assert (await anext(aiter(applications))).accepted[0].applicationID == "app"
    assert (await anext(aiter(nodes))).accepted[0].nodeID == "n1"


async def test_a_client_that_closed_its_sending_side_still_receives_responses(
    socket: Socket, channel: grpc.aio.Channel
) -> None:
    stub = si_pb2_grpc.SchedulerStub(channel)
    await stub.RegisterResourceManager(a_registration())
    stream = stub.UpdateAllocation()
    await stream.write(asks("a"))
    await stream.done_writing()
    await socket.scheduler.allocations.first()
    socket.scheduler.present["rm"].update_allocation(
        si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey="a")])
    )
    assert (await anext(aiter(stream))).new[0].allocationKey == "a"


async def test_a_cancelled_stream_is_a_lost_connection(socket: Socket, channel: grpc.aio.Channel) -> None:
    stub = si_pb2_grpc.SchedulerStub(channel)
    await stub.RegisterResourceManager(a_registration())
    stream = stub.UpdateAllocation()
    await stream.write(asks("a"))
    await socket.scheduler.allocations.first()
    stream.cancel()
    ((lost, _),) = await socket.scheduler.lost.first()
    assert lost == "rm"


async def test_a_stream_without_registration_is_rejected_with_a_remedy(
    channel: grpc.aio.Channel,
) -> None:
    stream = si_pb2_grpc.SchedulerStub(channel).UpdateAllocation()
    await stream.write(asks("a", rm_id="nobody"))
    code, reason = await status_of(stream)
    assert code is grpc.StatusCode.FAILED_PRECONDITION
    assert reason == "no session exists for resource manager 'nobody': call RegisterResourceManager first"


async def test_a_stream_of_an_older_session_is_refused(socket: Socket, channel: grpc.aio.Channel) -> None:
    await socket.connect().register_resource_manager(a_registration(), ResourceManager())
    metadata = (("muster-session", "an older one"), ("muster-rm-id-bin", b"rm"))
    stream = si_pb2_grpc.SchedulerStub(channel).UpdateAllocation(metadata=metadata)
    code, _ = await status_of(stream)
    assert code is grpc.StatusCode.FAILED_PRECONDITION


async def test_a_second_stream_of_a_kind_is_refused_and_the_first_continues(
    socket: Socket, channel: grpc.aio.Channel
) -> None:
    client = socket.connect()
    await client.register_resource_manager(a_registration(), ResourceManager())
    stream = si_pb2_grpc.SchedulerStub(channel).UpdateNode()
    await stream.write(si_pb2.NodeRequest(rmID="rm"))
    assert await status_of(stream) == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "this session has its UpdateNode stream already",
    )
    await client.update_allocation(asks("a"))
    assert keys_of(await socket.scheduler.allocations.first()) == ["a"]


@pytest.mark.parametrize("first", [b"", b"\xff\xff\xff", b"\x1a\x02\xff\xfe"])
async def test_a_first_message_without_rm_id_is_rejected(channel: grpc.aio.Channel, first: bytes) -> None:
    method: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    method = channel.stream_stream("/si.v1.Scheduler/UpdateAllocation")
    stream = method()
    await stream.write(first)
    code, reason = await status_of(stream)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "rmID is missing" in reason or "are no si.v1.AllocationRequest" in reason


async def test_an_invalid_message_ends_the_session_with_the_reason(socket: Socket, channel: grpc.aio.Channel) -> None:
    await si_pb2_grpc.SchedulerStub(channel).RegisterResourceManager(a_registration())
    method: grpc.aio.StreamStreamMultiCallable[bytes, bytes]
    method = channel.stream_stream("/si.v1.Scheduler/UpdateNode")
    stream = method()
    await stream.write(si_pb2.NodeRequest(rmID="rm").SerializeToString())
    await stream.write(b"\xff\xff\xff")
    code, reason = await status_of(stream)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert reason.startswith("these 3 bytes are no si.v1.NodeRequest")
    await socket.scheduler.lost.first()


async def test_an_invalid_registration_message_is_rejected(channel: grpc.aio.Channel) -> None:
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
    method = channel.unary_unary("/si.v1.Scheduler/RegisterResourceManager")
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await method(b"\xff\xff\xff")
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert "are no si.v1.RegisterResourceManagerRequest" in str(refused.value.details())


async def test_a_request_over_the_limit_ends_the_session_and_reports_the_limit(
    socket: Socket, channel: grpc.aio.Channel
) -> None:
    stub = si_pb2_grpc.SchedulerStub(channel)
    await stub.RegisterResourceManager(a_registration())
    stream = stub.UpdateAllocation()
    await stream.write(asks("a"))
    await socket.scheduler.allocations.first()
    await stream.write(asks("big", padding=300_000))
    code, reason = await status_of(stream)
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert str(SETTINGS.max_message_bytes) in reason
    await socket.scheduler.lost.first()
    assert keys_of(socket.scheduler.allocations.items) == ["a"]


async def test_attending_needs_the_session_in_the_metadata(socket: Socket, channel: grpc.aio.Channel) -> None:
    stub = muster_pb2_grpc.SessionStub(channel)
    await si_pb2_grpc.SchedulerStub(channel).RegisterResourceManager(a_registration())
    nameless = stub.Attend()
    await nameless.write(muster_pb2.Answer())
    code, _ = await status_of(nameless)
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    named = stub.Attend(metadata=(("muster-rm-id-bin", b"rm"),))
    await named.write(muster_pb2.Answer(attendance=muster_pb2.Attendance(predicates=True)))
    ((rm_id, _),) = await socket.scheduler.answers.first()
    assert rm_id == "rm"


async def test_a_voluntary_unregistration_needs_no_metadata(socket: Socket, channel: grpc.aio.Channel) -> None:
    await si_pb2_grpc.SchedulerStub(channel).RegisterResourceManager(a_registration())
    stub = muster_pb2_grpc.SessionStub(channel)
    await stub.Unregister(muster_pb2.UnregisterRequest(rmID="rm"))
    assert socket.scheduler.left.items == ["rm"]
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Unregister(muster_pb2.UnregisterRequest(rmID="rm"))
    assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
