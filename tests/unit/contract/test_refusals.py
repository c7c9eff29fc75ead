"""A rejected call has a reason. A rejected message ends the session and reports the reason once."""

import pytest

from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused, SessionLost
from tests.unit.contract.conftest import SETTINGS, Socket, Wire
from tests.unit.contract.peers import ResourceManager, a_registration, an_ask, asks, keys_of


@pytest.mark.parametrize("code", list(RefusalCode))
async def test_a_refused_configuration_keeps_code_and_reason_and_the_session(wire: Wire, code: RefusalCode) -> None:
    client, rm = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    wire.scheduler.refusal = Refused(code, "queues.yaml, line 3: \u201cmaxx\u201d is no field of a queue")
    with pytest.raises(Refused) as refused:
        await client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID="rm", config="?"))
    assert (refused.value.code, refused.value.reason) == (code, wire.scheduler.refusal.reason)
    wire.scheduler.refusal = None
    await client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID="rm", config="queues"))
    assert [request.config for request in wire.scheduler.configurations.items] == ["queues"]
    assert rm.ends.items == []


async def test_a_rejected_message_ends_the_session_with_its_reason(wire: Wire) -> None:
    client, rm = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    wire.scheduler.refusal = Refused(RefusalCode.INVALID_ARGUMENT, "the ask \u201ca\u201d has no partition")
    await client.update_allocation(asks("a"))
    (reason,) = await rm.ends.first()
    assert reason == "INVALID_ARGUMENT: the ask \u201ca\u201d has no partition"
    with pytest.raises(SessionLost, match="has no partition"):
        await client.update_node(si_pb2.NodeRequest(rmID="rm"))
    ((lost, _),) = await wire.scheduler.lost.first()
    assert lost == "rm"
    assert len(rm.ends.items) == 1


@pytest.mark.parametrize(
    "given, reason",
    [
        ("", "INVALID_ARGUMENT: AllocationRequest.rmID is missing"),
        ("other", "INVALID_ARGUMENT: AllocationRequest.rmID is 'other', but this session belongs to 'rm'"),
    ],
)
async def test_a_message_with_a_missing_or_foreign_rm_id_ends_the_session(wire: Wire, given: str, reason: str) -> None:
    client, rm = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    await client.update_allocation(asks("a", rm_id=given))
    assert await rm.ends.first() == [reason]
    assert wire.scheduler.allocations.items == []


async def test_an_answer_with_a_foreign_rm_id_ends_the_session(wire: Wire) -> None:
    client, rm = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    await client.answer("other", muster_pb2.Answer())
    (reason,) = await rm.ends.first()
    assert reason == "INVALID_ARGUMENT: Answer.rmID is 'other', but this session belongs to 'rm'"


async def test_a_call_with_a_foreign_rm_id_is_rejected_and_the_session_continues(wire: Wire) -> None:
    client, rm = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    with pytest.raises(Refused, match=r"UnregisterRequest\.rmID is 'other'"):
        await client.unregister(muster_pb2.UnregisterRequest(rmID="other"))
    with pytest.raises(Refused, match=r"BarrierRequest\.rmID is missing"):
        await client.barrier(muster_pb2.BarrierRequest())
    await client.update_allocation(asks("a"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["a"]


async def test_a_very_long_reason_is_truncated(socket: Socket) -> None:
    client, rm = socket.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    socket.scheduler.refusal = Refused(RefusalCode.INVALID_ARGUMENT, "ü" * 100_000)
    await client.update_allocation(asks("a"))
    (reason,) = await rm.ends.first()
    assert reason.startswith("INVALID_ARGUMENT: üüü")
    assert reason.endswith("…")


async def test_a_message_over_the_limit_is_rejected_before_it_is_sent(socket: Socket) -> None:
    client, rm = socket.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    with pytest.raises(Refused) as refused:
        await client.update_allocation(asks("big", padding=300_000))
    assert refused.value.code is RefusalCode.RESOURCE_EXHAUSTED
    assert "AllocationRequest of 300" in refused.value.reason
    assert f"over the limit of {SETTINGS.max_message_bytes}: send it in parts" in refused.value.reason
    await client.update_allocation(asks("small"))
    assert keys_of(await socket.scheduler.allocations.first()) == ["small"]
    assert rm.ends.items == []


async def test_a_response_over_the_limit_ends_the_session_and_reports_its_size(socket: Socket) -> None:
    client, rm = socket.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    huge = si_pb2.Allocation(allocationKey="a", allocationTags=an_ask("a", 300_000).tags)
    socket.scheduler.present["rm"].update_allocation(si_pb2.AllocationResponse(new=[huge]))
    (reason,) = await rm.ends.first()
    assert "RESOURCE_EXHAUSTED: a AllocationResponse of 300" in reason
    assert [callback.WhichOneof("kind") for callback in rm.callbacks.items] == ["reregister"]


async def test_an_exception_in_the_scheduler_ends_the_session_and_is_reported(
    socket: Socket, reported: list[str]
) -> None:
    client, rm = socket.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    socket.scheduler.bug = ZeroDivisionError("a ledger")
    await client.update_node(si_pb2.NodeRequest(rmID="rm"))
    (reason,) = await rm.ends.first()
    assert reason == ("INTERNAL: the scheduler failed on a request of UpdateNode: ZeroDivisionError('a ledger')")
    assert reported == ["the scheduler failed on a request of UpdateNode"]
