"""A registration opens a session, a newer one ends it, and streams need a session."""

import pytest

from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused, SessionLost
from tests.unit.contract.conftest import Wire
from tests.unit.contract.peers import ResourceManager, a_registration, asks, keys_of


async def test_registration_reaches_the_scheduler_with_a_callback(wire: Wire) -> None:
    rm = ResourceManager()
    await wire.connect().register_resource_manager(a_registration("cluster-ü"), rm)
    wire.scheduler.present["cluster-ü"].update_node(si_pb2.NodeResponse(accepted=[si_pb2.AcceptedNode(nodeID="n1")]))
    (response,) = await rm.nodes.first()
    assert response.accepted[0].nodeID == "n1"


async def test_a_rejected_registration_reports_the_reason_and_opens_no_session(wire: Wire) -> None:
    client, rm = wire.connect(), ResourceManager()
    with pytest.raises(Refused) as refused:
        await client.register_resource_manager(a_registration(version="2.0.0"), rm)
    assert refused.value.code is RefusalCode.FAILED_PRECONDITION
    assert refused.value.reason == "version 2.0.0 does not go with 1.0.0"
    with pytest.raises(Refused, match="RegisterResourceManager first"):
        await client.update_allocation(asks("a"))
    assert rm.ends.items == []


async def test_a_rejected_registration_keeps_the_earlier_session(wire: Wire) -> None:
    client, rm = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration(), rm)
    with pytest.raises(Refused):
        await client.register_resource_manager(a_registration(version="2.0.0"), ResourceManager())
    await client.update_allocation(asks("a"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["a"]


async def test_a_registration_without_rm_id_is_rejected_with_the_field_name(wire: Wire) -> None:
    with pytest.raises(Refused) as refused:
        await wire.connect().register_resource_manager(a_registration(""), ResourceManager())
    assert refused.value.code is RefusalCode.INVALID_ARGUMENT
    assert refused.value.reason == "RegisterResourceManagerRequest.rmID is missing"


async def test_every_call_before_registration_is_rejected_with_a_remedy(wire: Wire) -> None:
    client = wire.connect()
    calls = [
        client.update_allocation(asks("a")),
        client.update_application(si_pb2.ApplicationRequest(rmID="rm")),
        client.update_node(si_pb2.NodeRequest(rmID="rm")),
        client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID="rm")),
        client.answer("rm", muster_pb2.Answer()),
        client.barrier(muster_pb2.BarrierRequest(rmID="rm")),
        client.unregister(muster_pb2.UnregisterRequest(rmID="rm")),
    ]
    for call in calls:
        with pytest.raises(Refused, match=r"FAILED_PRECONDITION: .*RegisterResourceManager first"):
            await call


async def test_registering_again_elsewhere_closes_the_older_session_with_the_schedulers_reason(
    wire: Wire,
) -> None:
    older, newer = wire.connect(), wire.connect()
    first, second = ResourceManager(), ResourceManager()
    await older.register_resource_manager(a_registration(), first)
    await newer.register_resource_manager(a_registration(), second)
    (reason,) = await first.ends.first()
    assert "registered again" in reason
    with pytest.raises(SessionLost, match="registered again"):
        await older.update_allocation(asks("late"))
    await newer.update_allocation(asks("present"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["present"]
    assert second.ends.items == []
    assert wire.scheduler.lost.items == []


async def test_registering_again_on_the_same_object_replaces_its_session(wire: Wire) -> None:
    client, first, second = wire.connect(), ResourceManager(), ResourceManager()
    await client.register_resource_manager(a_registration(), first)
    await client.register_resource_manager(a_registration(), second)
    assert len(await first.ends.first()) == 1
    wire.scheduler.present["rm"].update_allocation(
        si_pb2.AllocationResponse(new=[si_pb2.Allocation(allocationKey="a")])
    )
    await second.allocations.first()
    assert first.allocations.items == []
    assert second.ends.items == []


async def test_registering_the_same_object_under_another_name_loses_the_older_one(wire: Wire) -> None:
    client, first = wire.connect(), ResourceManager()
    await client.register_resource_manager(a_registration("one"), first)
    await client.register_resource_manager(a_registration("two"), ResourceManager())
    assert len(first.ends.items) == 1
    ((lost, _),) = await wire.scheduler.lost.first()
    assert lost == "one"
    assert set(wire.scheduler.present) == {"two"}


async def test_two_resource_managers_do_not_disturb_each_other(wire: Wire) -> None:
    one, two = wire.connect(), wire.connect()
    first, second = ResourceManager(), ResourceManager()
    await one.register_resource_manager(a_registration("one"), first)
    await two.register_resource_manager(a_registration("two"), second)
    await one.unregister(muster_pb2.UnregisterRequest(rmID="one"))
    await two.update_allocation(asks("a", rm_id="two"))
    assert keys_of(await wire.scheduler.allocations.first()) == ["a"]
    assert second.ends.items == []
