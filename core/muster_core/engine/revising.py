"""An allocation that is there is told anew: its pod was resized in place, or labelled otherwise (semantics 3).

Application, queues, user and node change as one. It needs no room: like one that was told of for the first time, it
has what it has, also where that is over a maximum or over the node. Where it was, and of which group, stays.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.engine import affinity, gangs, ledger, quota
from muster_core.model.ids import AllocationId
from muster_core.model.specs import AllocationSpec, AskSpec
from muster_core.world.applications import Allocation, Application, lacking
from muster_core.world.world import Partition


def revise(partition: Partition, app: Application, allocation: Allocation, told: AllocationSpec, now_ns: int) -> None:
    """Put what is told of an application's allocation in the place of what was; the same once more changes nothing."""
    old = allocation.spec
    new = replace(
        old,
        resources=told.resources,
        tags=told.tags,
        common={},
        facts=told.facts,
        priority=told.priority,
        allow_preempt_self=told.allow_preempt_self,
        allow_preempt_other=told.allow_preempt_other,
    )
    if new == old:
        return
    affinity.read(partition, new)
    ledger.retell(partition, allocation, new)
    if new.resources != old.resources:
        _resize(partition, app, allocation, old, now_ns)


def _resize(partition: Partition, app: Application, allocation: Allocation, old: AskSpec, now_ns: int) -> None:
    ledger.resize(partition, app, allocation, old, now_ns)
    for queue in app.queue.path_up():
        quota.went_over(partition, queue, now_ns)
    if not allocation.spec.placeholder or not app.is_reserving:
        return
    left = lacking(app)
    if app.gang.pledge:
        ledger.set_pledge(partition, app, left, backed=app.gang.backed and bool(left))
    gangs.after_placing(partition, app, now_ns)
    partition.stir_one(app)  # it lacks another amount, which may fit where the one that it waits for does not


def revise_foreign(partition: Partition, identity: AllocationId, told: AllocationSpec) -> None:
    """The same of one that belongs to no application: its node has to give more room to it, or less."""
    old = partition.foreign[identity]
    affinity.read(partition, told)
    ledger.enter(partition, told.node, told)  # first: what both use is in use all the time
    ledger.leave(partition, old.node, old)
    partition.foreign[identity] = told
    affinity.join(partition, told)
    affinity.part(partition, old)
    if told.resources != old.resources:
        partition.nodes.take(told.node, told.resources, foreign=True)
        partition.nodes.give_back(told.node, old.resources, foreign=True)
