"""One pass over what waits: ask plan/, commit, say. Runs when something changed, never by a tick.

Leaves with active applications are taken in the order of their shares,
each for a bounded number of places, so that one queue never keeps the others
waiting and the owner of the world can yield between turns (`may_go_on`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from muster_core.engine import affinity, growth, isolation, preemption, recommendations, reservation_timer, takeovers
from muster_core.engine.steps import Lap, Step, untimed
from muster_core.engine.turn import Turn
from muster_core.model.effects import Effect
from muster_core.model.policies import ApplicationOrder
from muster_core.model.states import ManagerState
from muster_core.plan.pace import FREELY
from muster_core.world.world import Partition, World

#: Places a leaf gets before another leaf (or, in a FAIR leaf, application) has its turn.
_TURN: Final = 64
#: The same while nobody else waits; bounds the time of one turn.
_TURN_ALONE: Final = 250


@dataclass(slots=True)
class CycleResult:
    """`more`: the pass stopped because its time was up; call again. `effects`: what was drained from the outbox."""

    effects: list[Effect] = field(default_factory=list)
    more: bool = False


def cycle(world: World, now_ns: int, may_go_on: Callable[[], bool], lap: Lap = untimed) -> CycleResult:
    """Try everything that may have changed since the last pass; an application, or a partition, that raises backs off.

    `lap` is told after each step which one it was. Raises UnsoundWorld; effects of before are in the outbox.
    """
    result = CycleResult()
    for partition in _in_turn(world):
        if _is_open(world, partition, now_ns):
            isolation.attempt_partition(partition, now_ns, partial(_pass, partition, now_ns, may_go_on, lap, result))
            result.more |= partition.scheduling.resume()
    result.effects = world.outbox.drain()
    return result


def _pass(partition: Partition, now_ns: int, may_go_on: Callable[[], bool], lap: Lap, result: CycleResult) -> None:
    affinity.tidy(partition)
    growth.absorb(partition)
    is_first = True
    while partition.scheduling.is_due:
        if not is_first and not may_go_on():
            result.more = True
            return
        is_first = False
        partition.scheduling.requeue_some()
    is_first = True
    while partition.returning:
        if not is_first and not may_go_on():
            result.more = True
            return
        is_first = False
        app = partition.applications.get(partition.returning.popleft())
        if app is not None and app.is_reserving:
            turn = Turn(partition, app.queue, FREELY, _TURN_ALONE, now_ns, may_go_on, lap, only=app)
            turn.take()
            growth.absorb(partition)
    is_taken_over = True
    while is_taken_over:
        while (leaf := partition.scheduling.next_leaf()) is not None:
            if not is_first and not may_go_on():
                result.more = True
                return
            is_first = False
            lap(Step.QUEUE)
            is_alone = partition.scheduling.is_alone(leaf)
            places = _TURN_ALONE if is_alone and leaf.policies.order is ApplicationOrder.FIFO else _TURN
            Turn(partition, leaf, FREELY if is_alone else None, places, now_ns, may_go_on, lap).take()
            growth.absorb(partition)
        is_taken_over = takeovers.resolve(partition, now_ns, may_go_on)
        growth.absorb(partition)
        if partition.contention.due:
            result.more = True
            return
    preemption.watch_shrunk(partition, now_ns)
    reservation_timer.watch_nodes(partition, now_ns)
    recommendations.node_to_empty(partition, now_ns)


def _in_turn(world: World) -> list[Partition]:
    """All partitions, another one first in each cycle: each makes at least one attempt, the first ones use the time."""
    partitions = list(world.partitions.values())
    world.cycles += 1
    first = world.cycles % len(partitions) if partitions else 0
    return partitions[first:] + partitions[:first]


def _is_open(world: World, partition: Partition, now_ns: int) -> bool:
    manager = world.managers[partition.rm]
    is_awake = now_ns >= partition.asleep_until_ns
    return manager.state is ManagerState.RUNNING and not manager.fence_up and is_awake
