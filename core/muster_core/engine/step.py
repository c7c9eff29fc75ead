"""The core's one door: an event comes in, the world changes, effects go out.

`step` takes every event to the module that knows what it means. It is called
by the one task that owns the world, and by tests; same events and times in,
same effects out (style 18). It plans nothing: engine/cycle.py does.
"""

from __future__ import annotations

from functools import partial
from typing import assert_never

from muster_core.engine import (
    allocations,
    applications,
    asks,
    cluster,
    configuration,
    gone,
    inquiries,
    isolation,
    nodes,
    preemption,
    registration,
    utilization,
)
from muster_core.model.effects import Effect
from muster_core.model.events import (
    AllocationReleased,
    AllocationReported,
    ApplicationAdded,
    ApplicationRemoved,
    AskAdded,
    AskReleased,
    Attended,
    ClockRang,
    ConfigurationReplaced,
    ConnectionLost,
    Event,
    FactsTold,
    FencePassed,
    GroupsResolved,
    ManagerLeft,
    ManagerRegistered,
    NodeAdded,
    NodeTold,
    NodeUpdated,
    PlacesJudged,
    UtilizationReported,
    VictimsJudged,
)
from muster_core.world.world import Partition, World

_PlacesEvent = AskAdded | AskReleased | AllocationReported | AllocationReleased
_PartitionEvent = (
    ApplicationAdded
    | ApplicationRemoved
    | GroupsResolved
    | NodeAdded
    | NodeUpdated
    | NodeTold
    | UtilizationReported
    | FactsTold
)


def step(world: World, event: Event, now_ns: int) -> list[Effect]:
    """Take in one event. Returns what it drains from the outbox: notes for observers come last.

    Raises CoreError only where the core itself is wrong; the effects of what was changed before are in the outbox.
    """
    _step(world, event, now_ns)
    configuration.drop_closed(world)
    return world.outbox.drain()


def _step(world: World, event: Event, now_ns: int) -> None:
    match event:  # those of asks and allocations first: all others together are few
        case AskAdded() | AskReleased() | AllocationReleased() | AllocationReported():
            _step_places(world, event, now_ns)
        case ManagerRegistered():
            registration.register(world, event, now_ns)
        case FencePassed():
            registration.pass_fence(world, event.rm, now_ns)
        case ConnectionLost():
            registration.lose(world, event.rm, now_ns)
        case ManagerLeft():
            registration.leave(world, event.rm)
        case ConfigurationReplaced():
            configuration.replace(world, event, now_ns)
        case ClockRang():
            ring = partial(registration.hear, world, event.clock, now_ns)
            isolation.attempt_timer(world, event.clock, now_ns, ring)
        case Attended() | PlacesJudged() | VictimsJudged():
            _step_answer(world, event, now_ns)
        case _:
            _step_partition(world, event, now_ns)


def _step_answer(world: World, event: Attended | PlacesJudged | VictimsJudged, now_ns: int) -> None:
    match event:
        case Attended():
            inquiries.declare(world, event.rm, places=event.places, victims=event.victims)
        case PlacesJudged():
            inquiries.hear_places(world, event, now_ns)
        case VictimsJudged():
            inquiries.hear_victims(world, event, preemption.confirm, now_ns)
        case _:
            assert_never(event)


def _step_partition(world: World, event: _PartitionEvent, now_ns: int) -> None:
    partition = _partition_of(world, event)
    if partition is None:
        gone.refuse(world, event)
        return
    match event:
        case ApplicationAdded():
            applications.add(partition, event.spec, now_ns)
        case ApplicationRemoved():
            applications.remove(world, partition, event, now_ns)
        case GroupsResolved():
            applications.resolve_groups(partition, event, now_ns)
        case NodeAdded():
            nodes.add(partition, event, now_ns)
        case NodeUpdated():
            nodes.update(partition, event, now_ns)
        case NodeTold():
            nodes.tell(partition, event, now_ns)
        case UtilizationReported():
            utilization.report(world, partition, event)
        case FactsTold():
            cluster.tell(partition, event)
        case _:
            assert_never(event)


def _step_places(world: World, event: _PlacesEvent, now_ns: int) -> None:
    partition = _partition_of(world, event)
    if partition is None:
        gone.refuse(world, event)
        return
    match event:
        case AskAdded():
            asks.add(partition, event.spec, now_ns)
        case AskReleased():
            asks.release(world, partition, event, now_ns)
        case AllocationReleased():
            allocations.release(world, partition, event, now_ns)
        case AllocationReported():
            allocations.report(partition, event.spec, now_ns)
        case _:
            assert_never(event)


def _partition_of(world: World, event: _PartitionEvent | _PlacesEvent) -> Partition | None:
    match event:
        case AskAdded() | ApplicationAdded() | AllocationReported() | NodeAdded() | NodeUpdated():
            return world.partitions.get(event.spec.partition)
        case _:
            return world.partitions.get(event.partition)
