"""The real core over both transports: registration, rejections, status, barrier, allocation, release."""

import pytest

from muster_core.model.states import ManagerState
from muster_si import muster_pb2, si_pb2
from muster_si.errors import RefusalCode, Refused, SessionLost
from tests.unit.contract.cores import RM, CoreWire, Talk, awaits_barrier
from tests.unit.contract.peers import ResourceManager


async def with_a_node(talk: Talk, vcore: int = 4000) -> None:
    await talk.node("n1", vcore=vcore)
    await talk.rm.nodes.first()


async def test_a_registered_resource_manager_is_running(core_wire: CoreWire, talk: Talk) -> None:
    await talk.barrier()
    assert core_wire.state() is ManagerState.RUNNING


@pytest.mark.parametrize("version", ["", "2.0.0", "0.9", "banana"])
async def test_another_major_version_is_rejected_with_both_versions(core_wire: CoreWire, version: str) -> None:
    request = si_pb2.RegisterResourceManagerRequest(rmID=RM, version=version)
    with pytest.raises(Refused) as refused:
        await core_wire.connect().register_resource_manager(request, ResourceManager())
    assert refused.value.code is RefusalCode.FAILED_PRECONDITION
    assert repr(version) in refused.value.reason
    assert "'1.0.0'" in refused.value.reason


async def test_an_unreadable_configuration_is_rejected_with_the_reason(core_wire: CoreWire) -> None:
    request = si_pb2.RegisterResourceManagerRequest(rmID=RM, version="1.0.0", config="partitions: 7")
    with pytest.raises(Refused, match="partitions") as refused:
        await core_wire.connect().register_resource_manager(request, ResourceManager())
    assert refused.value.code is RefusalCode.INVALID_ARGUMENT


async def test_a_refused_configuration_leaves_the_old_one_in_force(core_wire: CoreWire, talk: Talk) -> None:
    with pytest.raises(Refused):
        await talk.client.update_configuration(si_pb2.UpdateConfigurationRequest(rmID=RM, config="partitions: 7"))
    await talk.application()
    await talk.accepted()


async def test_registering_again_clears_the_state_and_ends_the_older_session(core_wire: CoreWire, talk: Talk) -> None:
    await with_a_node(talk)
    await talk.application()
    await talk.accepted()
    await talk.ask("p1")
    await talk.allocated("p1")
    again = Talk(core_wire.connect())
    await again.register()
    await again.barrier()
    assert await talk.rm.ends.first()
    [partition] = core_wire.core.loop.scheduler_state.partitions.values()
    assert (len(partition.nodes), len(partition.applications)) == (0, 0)
    await with_a_node(again)
    await again.application()
    await again.accepted()
    await again.ask("p1")
    await again.allocated("p1")
    assert len(again.allocations()) == 1


async def test_a_malformed_message_is_refused_with_a_status_and_ends_the_session(
    core_wire: CoreWire, talk: Talk
) -> None:
    await talk.client.update_allocation(si_pb2.AllocationRequest(rmID="x" * 300))
    [reason] = await talk.rm.ends.first()
    assert "rmID" in reason
    with pytest.raises((SessionLost, Refused)):
        await talk.barrier()


async def test_a_malformed_item_is_refused_and_the_session_continues(core_wire: CoreWire, talk: Talk) -> None:
    await with_a_node(talk)
    await talk.application()
    await talk.accepted()
    await talk.ask("bad", maxAllocations=0)
    refusal = await talk.refused()
    assert (refusal.allocationKey, refusal.applicationID) == ("bad", "app")
    assert "maxAllocations" in refusal.reason
    await talk.ask("good")
    await talk.allocated("good")


async def test_a_lost_connection_pauses_and_registering_again_runs(core_wire: CoreWire, talk: Talk) -> None:
    await talk.barrier()
    await talk.client.aclose()
    other = Talk(core_wire.connect())
    request = si_pb2.RegisterResourceManagerRequest(rmID="other", version="1.0.0")
    await other.client.register_resource_manager(request, other.rm)
    await other.client.barrier(muster_pb2.BarrierRequest(rmID="other"))
    assert core_wire.state() is ManagerState.PAUSED
    back = Talk(core_wire.connect())
    await back.register()
    await back.barrier()
    assert core_wire.state() is ManagerState.RUNNING


async def test_unregistering_stops_the_resource_manager_and_clears_its_state(core_wire: CoreWire, talk: Talk) -> None:
    await with_a_node(talk)
    await talk.client.unregister(muster_pb2.UnregisterRequest(rmID=RM))
    other = Talk(core_wire.connect())
    request = si_pb2.RegisterResourceManagerRequest(rmID="other", version="1.0.0")
    await other.client.register_resource_manager(request, other.rm)
    await other.client.barrier(muster_pb2.BarrierRequest(rmID="other"))
    assert core_wire.state() is ManagerState.STOPPED
    assert [partition.rm for partition in core_wire.core.loop.scheduler_state.partitions.values()] == ["other"]


async def test_nothing_is_scheduled_before_the_recovery_barrier(core_wire: CoreWire) -> None:
    talk = Talk(core_wire.connect())
    await talk.register(**awaits_barrier())
    await talk.application()
    await talk.accepted()
    await talk.node("n1", "CREATE_DRAIN")
    await talk.node("n1", "DRAIN_TO_SCHEDULABLE")
    await talk.ask("p1")
    await talk.accepted()
    await talk.rm.nodes.first()
    assert talk.allocations() == []
    await talk.barrier()
    await talk.allocated("p1")


async def test_an_ask_gets_an_allocation_with_its_priority_and_tags(talk: Talk) -> None:
    await with_a_node(talk)
    await talk.application()
    await talk.accepted()
    await talk.ask("p1", priority=3, tags={"a": "b"})
    [allocation] = await talk.allocated("p1")
    assert (allocation.nodeID, allocation.allocationID, allocation.partitionName) == ("n1", "p1-0", "default")
    assert (allocation.priority, dict(allocation.allocationTags)) == (3, {"a": "b"})
    await talk.state("Running")


async def test_a_release_by_the_resource_manager_is_confirmed(talk: Talk) -> None:
    await with_a_node(talk)
    await talk.application()
    await talk.accepted()
    await talk.ask("p1")
    await talk.allocated("p1")
    await talk.release("p1")
    [confirmation] = await talk.released(1)
    assert confirmation.terminationType == si_pb2.STOPPED_BY_RM
    await talk.state("Completing")


@pytest.mark.parametrize("tags", [{}, {"muster/constraints": '{"nodeSelector":{"real":"yes"}}'}], ids=["same", "other"])
async def test_a_gang_is_placed_and_replaced_by_messages_alone(talk: Talk, tags: dict[str, str]) -> None:
    await talk.node("n1", vcore=2000)
    await talk.node("n2", vcore=2000, attributes={"kubernetes.io/label/real": "yes"})
    await talk.application(gang={"vcore": 2000, "pods": 2})
    await talk.accepted()
    await talk.ask("ph-1", "ph-2", taskGroupName="workers", placeholder=True)
    placeholders = {item.allocationKey: item for item in await talk.allocated("ph-1", "ph-2")}
    assert all(item.placeholder and item.taskGroupName == "workers" for item in placeholders.values())
    await talk.state("Running")

    await talk.ask("real", vcore=800, taskGroupName="workers", tags=tags)
    [release] = await talk.released(1)
    assert release.terminationType == si_pb2.PLACEHOLDER_REPLACED
    assert release.allocationKey in placeholders
    assert len(talk.allocations()) == 2  # the real pod is not placed before the placeholder has ended

    await talk.release(release.allocationKey, "PLACEHOLDER_REPLACED", allocationID=release.allocationID)
    real = (await talk.allocated("real"))[-1]
    assert not real.placeholder
    assert real.nodeID == ("n2" if tags else placeholders[release.allocationKey].nodeID)
    await talk.release(release.allocationKey, "PLACEHOLDER_REPLACED", allocationID=release.allocationID)
    await talk.barrier()
    assert len(talk.releases()) == 1  # a confirmation is neither answered nor handled twice


async def test_the_callback_stream_carries_events_and_states(talk: Talk) -> None:
    await with_a_node(talk)
    await talk.application()
    await talk.accepted()
    await talk.ask("too-big", vcore=64_000)
    await talk.rm.callbacks.until(lambda items: any(item.WhichOneof("kind") == "schedulingStates" for item in items))
    [state] = next(
        item.schedulingStates.states for item in talk.rm.callbacks.items if item.HasField("schedulingStates")
    )
    assert (state.allocationKey, state.state) == ("too-big", state.FAILED)
    assert state.reason


async def test_an_unrequested_answer_is_counted_and_ignored(core_wire: CoreWire, talk: Talk) -> None:
    await talk.client.answer(RM, muster_pb2.Answer(predicates=muster_pb2.PredicatesAnswer(id=7)))
    await talk.barrier()
    await talk.application()
    await talk.accepted()
    assert b"predicates, unasked" in core_wire.core.metrics.text()


async def test_nothing_is_scheduled_or_reported_before_the_last_recovery_barrier(
    core_wire: CoreWire,
) -> None:
    """Nodes are created as draining, which must not be reported as a reason."""
    talk = Talk(core_wire.connect())
    await talk.register(**awaits_barrier())
    await talk.node("n1", "CREATE_DRAIN")
    await talk.application()
    await talk.accepted()
    await talk.ask("a")
    barrier = muster_pb2.BarrierRequest(rmID=RM, applicationRequests=1, nodeRequests=1, allocationRequests=1, more=True)
    await talk.client.barrier(barrier)
    await talk.node("n1", "DRAIN_TO_SCHEDULABLE")
    assert talk.allocations() == []
    await talk.client.barrier(muster_pb2.BarrierRequest(rmID=RM, nodeRequests=2, allocationRequests=1))
    await talk.allocated("a")
    messages = [state.reason for each in talk.rm.callbacks.items for state in each.schedulingStates.states]
    messages += [event.message for each in talk.rm.callbacks.items for event in each.events.events]
    assert [sent_items for sent_items in messages if "unschedulable" in sent_items] == []
