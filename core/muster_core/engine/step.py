"""The core's one door: an event comes in, the world changes, effects go out.

`step` takes every event to the module that knows what it means. It is called
by the one task that owns the world, and by tests; same events and times in,
same effects out (style 18). It plans nothing: engine/cycle.py does.
"""

from __future__ import annotations

from typing import assert_never

from muster_core.engine import (
    allocations,
    applications,
    asks,
    cluster,
    configuration,
    gone,
    inquiries,
    nodes,
    registration,
    utilization,
    victims,
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
    ApplicationAdded | ApplicationRemoved | NodeAdded | NodeUpdated | NodeTold | UtilizationReported | FactsTold
)


def step(world: World, event: Event, now_ns: int) -> list[Effect]:
    """Take in one event; what was noted comes after what is said.

    Raises CoreError only where the core itself is wrong.
    """
    effects = _step(world, event, now_ns)
    effects += world.take_notes()
    configuration.drop_closed(world)
    return effects


def _step(world: World, event: Event, now_ns: int) -> list[Effect]:
    match event:  # those of asks and allocations first: all others together are few
        case AskAdded() | AskReleased() | AllocationReleased() | AllocationReported():
            return _step_places(world, event, now_ns)
        case ManagerRegistered():
            return registration.register(world, event, now_ns)
        case FencePassed():
            return registration.pass_fence(world, event.rm, now_ns)
        case ConnectionLost():
            return registration.lose(world, event.rm, now_ns)
        case ManagerLeft():
            return registration.leave(world, event.rm)
        case ConfigurationReplaced():
            return configuration.replace(world, event, now_ns)
        case ClockRang():
            return registration.hear(world, event.clock, now_ns)
        case Attended() | PlacesJudged() | VictimsJudged():
            return _step_answer(world, event, now_ns)
        case _:
            return _step_partition(world, event, now_ns)


def _step_answer(world: World, event: Attended | PlacesJudged | VictimsJudged, now_ns: int) -> list[Effect]:
    match event:
        case Attended():
            return inquiries.declare(world, event.rm, places=event.places, victims=event.victims)
        case PlacesJudged():
            return inquiries.hear_places(world, event, now_ns)
        case VictimsJudged():
            return inquiries.hear_victims(world, event, victims.carry_out, now_ns)
        case _:
            assert_never(event)


def _step_partition(world: World, event: _PartitionEvent, now_ns: int) -> list[Effect]:
    partition = _partition_of(world, event)
    if partition is None:
        return gone.refuse(world, event)
    match event:
        case ApplicationAdded():
            return applications.add(partition, event.spec, now_ns)
        case ApplicationRemoved():
            return applications.remove(world, partition, event, now_ns)
        case NodeAdded():
            return nodes.add(partition, event, now_ns)
        case NodeUpdated():
            return nodes.update(partition, event.spec)
        case NodeTold():
            return nodes.tell(partition, event, now_ns)
        case UtilizationReported():
            return utilization.report(world, partition, event)
        case FactsTold():
            return cluster.tell(partition, event)
        case _:
            assert_never(event)


def _step_places(world: World, event: _PlacesEvent, now_ns: int) -> list[Effect]:
    partition = _partition_of(world, event)
    if partition is None:
        return gone.refuse(world, event)
    match event:
        case AskAdded():
            return asks.add(partition, event.spec, now_ns)
        case AskReleased():
            return asks.release(world, partition, event, now_ns)
        case AllocationReleased():
            return allocations.release(world, partition, event, now_ns)
        case AllocationReported():
            return allocations.report(partition, event.spec, now_ns)
        case _:
            assert_never(event)


def _partition_of(world: World, event: _PartitionEvent | _PlacesEvent) -> Partition | None:
    match event:
        case AskAdded() | ApplicationAdded() | AllocationReported() | NodeAdded() | NodeUpdated():
            return world.partitions.get(event.spec.partition)
        case _:
            return world.partitions.get(event.partition)
