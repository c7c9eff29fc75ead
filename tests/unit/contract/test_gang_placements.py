"""Messages about Direct and Auto gangs over both transports (ADR 0020)."""

from typing import Any

import orjson

from muster_si import keys, muster_pb2, si_pb2
from tests.unit.contract.cores import RM, CoreWire, Talk, a_resource, awaits_barrier


async def submit(talk: Talk, members: int, placement: str, *, forced: bool = False) -> None:
    """Submit a gang of members with 1 core each in the task group `workers`."""
    each = {"vcore": 1000, "pods": 1}
    tags = {
        keys.APP_TAG_NAMESPACE: "default",
        keys.APP_TAG_GANG_PLACEMENT: placement,
        keys.APP_TAG_MEMBERS: orjson.dumps([{"name": "workers", "minMember": members, "resource": each}]).decode(),
        keys.APP_TAG_CREATE_FORCE: str(forced).lower(),
    }
    talk.sent["application"] += 1
    new = si_pb2.AddApplicationRequest(
        applicationID="app",
        queueName="root.default",
        partitionName="default",
        placeholderAsk=a_resource({name: members * amount for name, amount in each.items()}),
        gangSchedulingStyle="Soft",
        tags=tags,
    )
    await talk.client.update_application(si_pb2.ApplicationRequest(rmID=RM, new=[new]))


async def wait_for_state(talk: Talk, state: str) -> None:
    """Wait until the core reports this state of the application."""
    await talk.rm.applications.until(
        lambda items: any(one.state == state for response in items for one in response.updated)
    )


async def inventory(talk: Talk) -> muster_pb2.ApplicationInventory:
    await talk.barrier()
    request = muster_pb2.InventoryRequest(after=muster_pb2.BarrierRequest(rmID=RM))
    [app] = (await talk.client.take_inventory(request)).applications
    return app


def scheduling_states(talk: Talk) -> list[tuple[str, int]]:
    callbacks = (one for one in talk.rm.callbacks.items if one.HasField("schedulingStates"))
    return [(state.allocationKey, state.state) for one in callbacks for state in one.schedulingStates.states]


WORKERS: dict[str, Any] = {"taskGroupName": "workers"}


async def test_members_of_a_direct_gang_use_its_reservation_without_placeholder_releases(talk: Talk) -> None:
    await talk.node("n1", vcore=4000)
    await submit(talk, 3, keys.PLACEMENT_DIRECT)
    await wait_for_state(talk, keys.APP_RUNNING)
    assert talk.rm.allocations.items == []
    assert (await inventory(talk)).allocations == []
    await talk.ask("driver", **WORKERS)
    [driver] = await talk.allocated("driver")
    assert (driver.placeholder, driver.nodeID) == (False, "n1")
    await talk.ask("e1", "e2", **WORKERS)
    await talk.allocated("e1", "e2")
    assert talk.releases() == []
    app = await inventory(talk)
    assert sorted(held.allocationKey for held in app.allocations) == ["driver", "e1", "e2"]
    assert list(app.askKeys) == []


async def test_the_reason_why_a_direct_gang_waits_is_reported_for_its_task_group(talk: Talk) -> None:
    await talk.node("n1", vcore=2000)
    await submit(talk, 3, keys.PLACEMENT_DIRECT)
    await talk.rm.callbacks.until(lambda _: bool(scheduling_states(talk)))
    failed = si_pb2.UpdateContainerSchedulingStateRequest.FAILED
    assert scheduling_states(talk) == [("app/workers", failed)]
    assert list((await inventory(talk)).askKeys) == []
    await talk.node("n2", vcore=2000)
    await wait_for_state(talk, keys.APP_RUNNING)
    scheduled = si_pb2.UpdateContainerSchedulingStateRequest.SCHEDULED
    await talk.rm.callbacks.until(lambda _: ("app/workers", scheduled) in scheduling_states(talk))


async def test_placeholder_pods_of_an_auto_gang_get_the_nodes_of_their_slots(talk: Talk) -> None:
    await talk.node("n1", vcore=4000)
    await submit(talk, 3, keys.PLACEMENT_AUTO)
    await wait_for_state(talk, keys.APP_RUNNING)
    await talk.ask("driver", **WORKERS)
    await talk.allocated("driver")
    await talk.ask("p1", "p2", placeholder=True, **WORKERS)
    found = {one.allocationKey: (one.placeholder, one.nodeID) for one in await talk.allocated("driver", "p1", "p2")}
    assert found == {"driver": (False, "n1"), "p1": (True, "n1"), "p2": (True, "n1")}
    await talk.ask("surplus", placeholder=True, **WORKERS)
    await talk.rm.allocations.until(lambda items: any(answer.releasedAsks for answer in items))
    assert sorted(held.allocationKey for held in (await inventory(talk)).allocations) == ["driver", "p1", "p2"]


async def test_a_removed_direct_gang_releases_only_its_members(talk: Talk) -> None:
    await talk.node("n1", vcore=4000)
    await submit(talk, 3, keys.PLACEMENT_DIRECT)
    await wait_for_state(talk, keys.APP_RUNNING)
    await talk.ask("driver", **WORKERS)
    await talk.allocated("driver")
    await talk.remove_application()
    [gone] = await talk.released(1)
    assert gone.allocationKey == "driver"


async def test_after_a_restart_a_direct_gang_keeps_the_reservation_of_its_missing_members(core_wire: CoreWire) -> None:
    talk = Talk(core_wire.connect())
    await talk.register(**awaits_barrier())
    await submit(talk, 3, keys.PLACEMENT_DIRECT, forced=True)
    await wait_for_state(talk, keys.APP_ACCEPTED)
    bound = si_pb2.Allocation(
        allocationKey="driver",
        applicationID="app",
        partitionName="default",
        nodeID="n1",
        taskGroupName="workers",
        resourcePerAlloc=a_resource({"vcore": 1000, "pods": 1}),
    )
    await talk.node("n1", "CREATE_DRAIN", vcore=4000, existingAllocations=[bound])
    await wait_for_state(talk, keys.APP_RUNNING)
    await talk.barrier()
    await talk.node("n1", "DRAIN_TO_SCHEDULABLE")
    await talk.ask("e1", "e2", **WORKERS)
    await talk.allocated("e1", "e2")
    [partition] = core_wire.core.loop.scheduler_state.partitions.values()
    [app] = partition.applications.values()
    assert app.gang.groups["workers"].replaced == 3  # type: ignore[index]  # a task group


async def test_placeholders_of_an_auto_gang_are_sent_in_one_message(talk: Talk) -> None:
    await talk.node("n1", vcore=2000)
    await submit(talk, 3, keys.PLACEMENT_AUTO)
    await talk.accepted()
    await talk.ask("p1", "p2", "p3", placeholder=True, **WORKERS)
    await talk.barrier()
    assert talk.allocations() == []
    await talk.node("n2", vcore=2000)
    await talk.allocated("p1", "p2", "p3")
    [answer] = talk.rm.allocations.items
    assert len(answer.new) == 3


async def test_an_unknown_placement_is_rejected_with_the_valid_names(talk: Talk) -> None:
    await submit(talk, 3, "Sideways")
    await talk.rm.applications.until(lambda items: any(response.rejected for response in items))
    [refused] = [one for response in talk.rm.applications.items for one in response.rejected]
    assert "'Sideways', not one of Reserve, Direct, Auto" in refused.reason
