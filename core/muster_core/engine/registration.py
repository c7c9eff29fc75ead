"""Resource managers come, are lost, come back, and leave (seed 003, "Status of RM in scheduler").

Registering drops what was known of that resource manager: it tells everything
anew (semantics 7, 19).
"""

from __future__ import annotations

from muster_core.engine import clocks, podless, queues
from muster_core.model.effects import ClockSet
from muster_core.model.events import Clock, ClockKind, ManagerRegistered
from muster_core.model.ids import AllocationKey, ApplicationId, PartitionId, RmId, partition_id
from muster_core.model.states import MANAGER, ManagerEvent, ManagerState, follow
from muster_core.world.inquiries import Inquiries
from muster_core.world.world import Manager, World, make_partition


def register(world: World, event: ManagerRegistered, now_ns: int) -> None:
    """Open an empty world for this resource manager."""
    _drop_partitions(world, event.rm)
    known = world.managers.get(event.rm)
    manager = known or Manager(event.rm, event.configuration)
    manager.configuration = event.configuration
    manager.state = follow(MANAGER, manager.state, ManagerEvent.REGISTER)
    manager.fence_up = event.fenced
    manager.overdue.clear()
    manager.inquiries = Inquiries(sequence=manager.inquiries.sequence)  # no answer of an earlier session is one to this
    manager.generation += 1
    world.managers[event.rm] = manager
    for config in event.configuration.partitions:
        name = partition_id(event.rm, config.name)
        partition = make_partition(world, name, manager, config)
        partition.since_ns = now_ns
        queues.note_tree(partition)
        world.partitions[name] = partition


def pass_fence(world: World, rm: RmId, now_ns: int) -> None:
    """Everything has been told: scheduling may begin, and clocks that came before it ring again, each by itself."""
    manager = world.managers.get(rm)
    if manager is None:
        return
    manager.fence_up = False
    for partition in world.partitions.values():
        if partition.rm == rm:
            partition.stir_all()
            partition.returning.extend(podless.returning(partition))
    overdue, manager.overdue = manager.overdue, []
    for clock in overdue:
        world.outbox.put(ClockSet(clock, now_ns))


def hear(world: World, clock: Clock, now_ns: int) -> None:
    """A deadline came. Behind the fence nothing is decided: what would be too late may
    only not have been told yet (semantics 19).
    """
    if clock.kind is ClockKind.MANAGER:
        time_out(world, clock)
        return
    partition = world.partitions.get(clock.partition)
    if partition is None:
        return
    manager = world.managers[partition.rm]
    if manager.fence_up:
        manager.overdue.append(clock)
    else:
        clocks.ring(partition, clock, now_ns)


def lose(world: World, rm: RmId, now_ns: int) -> None:
    """Pause: nothing is scheduled for it, its world is kept until the clock rings."""
    manager = world.managers.get(rm)
    if manager is None or manager.state is not ManagerState.RUNNING:
        world.ignore("connection lost of a resource manager that is not running")
        return
    manager.state = follow(MANAGER, manager.state, ManagerEvent.LOSE_CONNECTION)
    clock = Clock(ClockKind.MANAGER, rm, PartitionId(""), ApplicationId(""), AllocationKey(""), manager.generation)
    world.outbox.put(ClockSet(clock, now_ns + manager.configuration.timing.manager_timeout_ns))


def time_out(world: World, clock: Clock) -> None:
    """It did not come back in time: stopped."""
    manager = world.managers.get(clock.rm)
    if manager is None or manager.state is not ManagerState.PAUSED or manager.generation != clock.generation:
        return
    _stop(world, manager, ManagerEvent.TIME_OUT)


def leave(world: World, rm: RmId) -> None:
    """It said goodbye: stopped."""
    manager = world.managers.get(rm)
    if manager is None or manager.state is ManagerState.STOPPED:
        world.ignore("goodbye of a resource manager that is not there")
        return
    _stop(world, manager, ManagerEvent.LEAVE)


def _stop(world: World, manager: Manager, event: ManagerEvent) -> None:
    manager.state = follow(MANAGER, manager.state, event)
    _drop_partitions(world, manager.id)


def _drop_partitions(world: World, rm: RmId) -> None:
    for name in [name for name, partition in world.partitions.items() if partition.rm == rm]:
        del world.partitions[name]
