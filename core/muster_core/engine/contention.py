"""Contention of gangs: incomplete gangs with reservations, and reservations for takeovers (semantics 12).

A part of the ledger: called by commit, gangs, lifecycle, nodes and the scheduling attempts. takeovers.py decides.
"""

from __future__ import annotations

from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Resources
from muster_core.plan import takeover
from muster_core.world import priorities
from muster_core.world.applications import Application, lacking
from muster_core.world.world import Partition


def fix_key(app: Application, priority: int) -> None:
    """Fix the gang's key when its first request arrives; the key never changes."""
    if app.gang.key is None and app.spec.is_gang:
        seen = priority
        for queue in app.queue.path_up()[:-1]:
            seen = priorities.risen(queue, seen)
        app.gang.key = (-seen, app.submitted_ns, app.id)


def note_short(partition: Partition, app: Application) -> None:
    """Mark the gang due for a takeover: free resources do not suffice for its missing members."""
    if app.is_reserving and _has_all(app) and not app.gang.impossible and not app.gang.exceeds_nodes:
        partition.contention.due[app.id] = None


def note_holding(partition: Partition, app: Application) -> None:
    """Record that an incomplete gang holds reservations, and wake earlier gangs without a takeover candidate."""
    contention, key = partition.contention, app.gang.key
    if key is None or not app.is_reserving or not (app.gang.reserved or app.gang.pledge):
        return
    is_new = app.id not in contention.holding
    contention.hold(app.id, key)
    if not is_new or not contention.idle:
        return
    for name in [name for name in contention.idle if name != app.id]:
        other = partition.applications.get(name)
        if other is None or other.gang.key is None or other.gang.key < key:
            del contention.idle[name]
            if other is not None:
                partition.stir_one(other)


def waits_for_any_growth(partition: Partition, app: Application, now_ns: int) -> bool:
    """Whether resources that are too few for the gang alone may be enough for a take-over."""
    return app.is_reserving and now_ns >= app.gang.takeover_at_ns and takeover.has_rivals(partition, app)


def epoch(partition: Partition) -> tuple[int, int]:
    """Changes after which a failed take-over may succeed: growths of nodes, and of queues, limits and slots."""
    return partition.nodes.epoch, partition.contention.growths


def is_waiting(partition: Partition, app: Application) -> str:
    """Why the gang is not planned until a take-over is over; empty = it is planned."""
    if not app.is_reserving:
        return ""
    if app.gang.lost_to:
        return f"queued behind gang {next(iter(app.gang.lost_to))}, which took over reservations of this gang"
    own = partition.contention.open.get(app.id)
    if own is not None and own.number in partition.preemptions.running:
        names = ", ".join(own.losers[:3])
        return f"waiting for the release of reservations taken over from {names}"
    return ""


def reserved_on(partition: Partition, app: Application, node: NodeId) -> Resources:
    """What the take-overs of other gangs reserve on a node."""
    if not partition.contention.open:
        return NOTHING
    own = partition.contention.open.get(app.id)
    mine = own.nodes.get(node, NOTHING) if own is not None else NOTHING
    holds = sum((hold.resources for hold in partition.reservations.on(node)), mine)
    return partition.nodes.claimed(node) - holds


def _has_all(app: Application) -> bool:
    """Whether every member that the gang lacks is asked for."""
    asked = sum((ask.spec.resources.times(ask.left) for ask in app.asks.values() if ask.spec.placeholder), NOTHING)
    return bool(asked) and asked.covers(lacking(app))


def close(partition: Partition, app: Application) -> None:
    """End the takeover: release its reservations, and plan the losing gangs again."""
    found = partition.contention.open.pop(app.id, None)
    if found is None:
        return
    for node, amount in found.nodes.items():
        if node in partition.nodes:
            partition.nodes.claim(node, amount, -1)
    for name in found.losers:
        loser = partition.applications.get(name)
        if loser is not None:
            loser.gang.lost_to.pop(app.id, None)
            partition.stir_one(loser)


def leave(partition: Partition, app: Application) -> None:
    """The gang is complete or its reservation is over."""
    contention = partition.contention
    close(partition, app)
    contention.forget(app.id)
    contention.due.pop(app.id, None)
    contention.planning.pop(app.id, None)
    contention.idle.pop(app.id, None)


def leave_node(partition: Partition, node: NodeId) -> None:
    """The node drains, goes or shrinks: take-overs that need it are planned again."""
    for name in [name for name, found in partition.contention.open.items() if node in found.nodes]:
        close(partition, partition.applications[name])
        partition.stir_one(partition.applications[name])
