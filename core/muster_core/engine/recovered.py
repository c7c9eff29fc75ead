"""Applications in the recovery queue: what they hold is counted, their requests wait until they have a queue again.

A resource manager that is back submits applications with bound pods by force. One that no placement rule admits goes to
the recovery queue, which has neither quota nor access list, so nothing new is given there: only placeholders that it
holds already are replaced by their real pods. After a reload it moves to the queue that the rules then choose.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.engine import growth, ledger, notes, queues, user_groups
from muster_core.model.ids import RECOVERY, QueuePath
from muster_core.plan.placement import Chosen, GroupsNeeded, choose_queue
from muster_core.world import priorities
from muster_core.world.applications import Application, enter_queue
from muster_core.world.queues import Queue
from muster_core.world.world import Partition


def withhold(partition: Partition, app: Application) -> None:
    """Update whether new requests of the application wait: it has no queue, or the groups of its user are unknown."""
    reason = _reason(partition, app)
    if reason != app.withheld:
        app.withheld = reason
        partition.stir_one(app)


def place_again(partition: Partition) -> None:
    """Other rules or queues are in force: move applications out of the recovery queue that have another one now.

    One of which something is being preempted stays until the next change: its queue counts that.
    """
    recovery = partition.queues.get(RECOVERY)
    if recovery is None:
        return
    for app in [partition.applications[name] for name in recovery.applications]:
        chosen = _choice(partition, app)
        if isinstance(chosen, Chosen) and not any(each.preemption for each in app.allocations.values()):
            on_demand = queues.leaf_on_demand(partition.queues, chosen.path, app.spec.quota)
            _move(partition, app, queues.open_leaf(partition, chosen, on_demand))
        withhold(partition, app)


def _reason(partition: Partition, app: Application) -> str:
    """Why new requests wait; empty = they need not."""
    groups = user_groups.reason(app.spec, user_groups.reader(partition, app.spec, app.queue))
    if groups or not app.queue.is_recovery:
        return groups
    named = app.spec.queue
    if named and partition.queues.get(QueuePath(named.lower())) is None:
        return f"queue {named} does not exist"
    chosen = _choice(partition, app)
    return chosen if isinstance(chosen, str) else "waiting for a queue"


def _choice(partition: Partition, app: Application) -> Chosen | GroupsNeeded | str:
    return choose_queue(partition.queues, partition.config.rules, replace(app.spec, forced=False))


def _move(partition: Partition, app: Application, leaf: Queue) -> None:
    """Count the application with all it has and wants in another leaf."""
    old, held, wanted = app.queue, app.allocated + app.gang.allocated, app.pending
    ledger.clear_pledge(partition, app)
    ledger.stop_waiting(partition, app)
    priorities.leave(app)
    ledger.count_pending(partition, app, wanted, -1)
    ledger.charge(partition, app, held, -1)
    ledger.set_counted(partition, app, counts=False)
    notes.queue_left(partition, app)
    enter_queue(app, leaf)
    notes.queue_entered(partition, app)
    ledger.count_pending(partition, app, wanted, 1)
    ledger.charge(partition, app, held, 1)
    ledger.tolerate(app, held)
    growth.path_shrank(partition, app)
    ledger.note_waiting(partition, app)
    partition.stir_one(app)
    queues.settle(partition, old)
