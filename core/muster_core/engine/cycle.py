"""One pass over what waits: ask plan/, commit, say. Runs when something changed, never by a tick.

Leaves with something on their agenda are taken in the order of their shares,
each for a bounded number of places, so that one queue never keeps the others
waiting and the owner of the world can yield between turns (`may_go_on`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from muster_core.engine import growth, preemption, recommendations
from muster_core.engine.steps import Lap, Step, untimed
from muster_core.engine.turn import Turn
from muster_core.model.effects import Effect
from muster_core.model.policies import ApplicationOrder
from muster_core.model.states import ManagerState
from muster_core.plan.pace import FREELY
from muster_core.plan.turns import Turns
from muster_core.world.queues import Queue
from muster_core.world.world import Partition, World

#: Places a leaf gets before another leaf (or, in a FAIR leaf, application) has its turn.
_TURN: Final = 64
#: The same while nobody else waits; bounds the time of one turn.
_TURN_ALONE: Final = 250


@dataclass(slots=True)
class CycleResult:
    """`more`: the pass stopped because its time was up; call again."""

    effects: list[Effect] = field(default_factory=list)
    more: bool = False


def cycle(world: World, now_ns: int, may_go_on: Callable[[], bool], lap: Lap = untimed) -> CycleResult:
    """Try everything that may have changed since the last pass; what was noted comes last.

    `lap` is told after each step which one it was.
    """
    result = CycleResult()
    for partition in world.partitions.values():
        if _is_open(world, partition) and not result.more:
            _pass(partition, now_ns, may_go_on, lap, result)
    result.effects += world.take_notes()
    return result


def _pass(partition: Partition, now_ns: int, may_go_on: Callable[[], bool], lap: Lap, result: CycleResult) -> None:
    growth.absorb(partition)
    while partition.returning:
        if not may_go_on():
            result.more = True
            return
        app = partition.applications.get(partition.returning.popleft())
        if app is not None and app.is_reserving:
            turn = Turn(partition, app.queue, FREELY, _TURN_ALONE, now_ns, may_go_on, lap, only=app)
            result.effects += turn.take()
            growth.absorb(partition)
    turns = Turns(partition)
    while (leaf := turns.next_leaf()) is not None:
        if not may_go_on():
            result.more = True
            return
        lap(Step.QUEUE)
        places = _TURN_ALONE if _is_alone(partition, leaf) else _TURN
        result.effects += Turn(partition, leaf, turns.pace(leaf), places, now_ns, may_go_on, lap).take()
        turns.moved(leaf)
        growth.absorb(partition)
    result.effects += preemption.watch_shrunk(partition, now_ns)
    result.effects += recommendations.node_to_empty(partition, now_ns)


def _is_open(world: World, partition: Partition) -> bool:
    manager = world.managers[partition.rm]
    return manager.state is ManagerState.RUNNING and not manager.fence_up


def _is_alone(partition: Partition, leaf: Queue) -> bool:
    return len(partition.stirred) == 1 and leaf.policies.order is ApplicationOrder.FIFO
