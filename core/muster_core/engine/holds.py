"""Room that is held for asks, and allocations that go for them: the writes of reservations and preemptions.

A part of the ledger: node, application and queues change as one. Called by
ledger.py, reservations.py, victims.py and commit.py; decides nothing.
"""

from __future__ import annotations

from muster_core.engine import growth, notes
from muster_core.model.notes import Change
from muster_core.model.release import Termination
from muster_core.model.resources import Resources
from muster_core.model.shortfall import Lack
from muster_core.world.applications import Allocation, Application, Ask
from muster_core.world.preemptions import Running
from muster_core.world.reservations import AskId, Hold
from muster_core.world.world import Partition


def reserve(partition: Partition, app: Application, ask: Ask, hold: Hold) -> None:
    """Hold room on a node for an ask that waits; for victims' room, head room in its queues too."""
    partition.reservations.add(hold)
    partition.nodes.claim(hold.node, hold.resources, 1)
    if hold.preempted:
        claim(app, hold.resources, 1)
    else:
        app.queue.node_reservations += 1
    partition.stir_one(app)
    notes.reserved(partition, hold.node, ask.spec, Change.ADD)


def unreserve(partition: Partition, name: AskId, *, used: bool = False) -> None:
    """Hold nothing for this ask any more, if anything was; `used`: it takes that room now, so nobody gains by it."""
    hold = partition.reservations.by_ask.get(name)
    if hold is None:
        return
    app = partition.applications[hold.application]
    ask = app.asks[hold.key]
    partition.reservations.remove(hold)
    partition.nodes.claim(hold.node, hold.resources, -1, grows=not used)
    partition.preemptions.epoch += 1
    if hold.preempted:
        claim(app, hold.resources, -1)
        growth.path_grew(partition, app)
    else:
        app.queue.node_reservations -= 1
    if ask.said is Lack.RESERVED:
        ask.said = None
        app.unheld[hold.key] = None
    notes.reserved(partition, hold.node, ask.spec, Change.REMOVE)


def claim(app: Application, amount: Resources, times: int) -> None:
    """Hold head room of its queues for an application's asks, or (-1) no longer."""
    app.claimed = app.claimed.plus(amount, times)
    for queue in app.queue.path_up():
        queue.claimed = queue.claimed.plus(amount, times)


def mark_preempted(app: Application, allocation: Allocation, number: int, now_ns: int) -> None:
    """The allocation was told to go by that preemption; it counts as going on every queue of the path."""
    app.mark_releasing(allocation, Termination.PREEMPTED_BY_SCHEDULER, now_ns)
    allocation.preemption = number
    for queue in app.queue.path_up():
        queue.preempting += allocation.spec.resources


def end_preemption(partition: Partition, app: Application, victim: Allocation) -> None:
    """A victim is gone, however that came; with the last one its preemption is over."""
    running = partition.preemptions.running[victim.preemption]
    _count_no_longer(app, victim)
    del running.victims[app.id, victim.id]
    if not running.victims:
        forget_preemption(partition, running)


def _count_no_longer(app: Application, victim: Allocation) -> None:
    """The victim does not count as going any more."""
    victim.preemption = 0
    for queue in app.queue.path_up():
        queue.preempting -= victim.spec.resources


def forget_preemption(partition: Partition, running: Running) -> None:
    """The preemption has ended: the last victim went, or their time is over. Those that are still there count as
    allocated like any other, for they may never go.
    """
    del partition.preemptions.running[running.number]
    partition.preemptions.epoch += 1
    for name, identity in running.victims:
        app = partition.applications[name]
        _count_no_longer(app, app.allocations[identity])
    winner = partition.applications.get(running.gang) if running.gang is not None else None
    if winner is not None:
        partition.stir_one(winner)
    over = partition.queues.get(running.queue)
    if over is not None and over.quota_running == running.number:
        over.quota_running = 0
    for name, key in running.asks:
        owner = partition.applications.get(name)
        ask = owner.asks.get(key) if owner is not None else None
        if ask is not None and ask.preemption == running.number:
            ask.preemption = 0
