"""What is new for a partition that was closed and is gone is refused with a reason (semantics 3).

Partitions that never were are refused where messages are decoded. Called by step.py.
"""

from __future__ import annotations

from typing import Final

from muster_core.model.effects import AllocationAnswer, ApplicationRejected, Effect, NodeRejected, Refusal
from muster_core.model.events import AllocationReported, ApplicationAdded, AskAdded, Event, NodeAdded, NodeUpdated
from muster_core.model.ids import RmId, is_partition_of
from muster_core.model.states import ManagerState
from muster_core.world.world import World

_WHY: Final = "is not configured any more"

_New = ApplicationAdded | NodeAdded | NodeUpdated | AskAdded | AllocationReported


def refuse(world: World, event: Event) -> None:
    """Tell the resource manager; what only ends something there is left without effect."""
    if isinstance(event, _New):
        for rm, manager in world.managers.items():
            if manager.state is ManagerState.RUNNING and is_partition_of(rm, event.spec.partition):
                world.outbox.put(_refusal(rm, event))
                return
    world.ignore("event for a partition that is gone")


def _refusal(rm: RmId, event: _New) -> Effect:
    why = f"partition {event.spec.partition} {_WHY}"
    match event:
        case ApplicationAdded(spec=application):
            return ApplicationRejected(rm, application.id, why)
        case NodeAdded(spec=node) | NodeUpdated(spec=node):
            return NodeRejected(rm, node.id, why)
        case AskAdded(spec=ask):
            return AllocationAnswer(rm, rejected_asks=(Refusal(ask.application, ask.key, why),))
        case AllocationReported(spec=allocation):
            refused = Refusal(allocation.application, allocation.key, why)
            return AllocationAnswer(rm, rejected_allocations=(refused,))
