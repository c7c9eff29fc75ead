"""Wake-up conditions: which waiting applications are tried again after a change.

An unschedulable application waits for its blocking reasons. A change of a node, a queue or a limit makes only those
applications active whose reason it may have removed, the first ones in order.
"""

from __future__ import annotations

from collections.abc import Container
from typing import Final

import numpy as np

from muster_core.gangs import takeover
from muster_core.model.ids import NodeId
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.placement import node_search
from muster_core.placement.filters import node_properties, resources
from muster_core.placement.snapshot import Snapshot, shape_of
from muster_core.state import ordering
from muster_core.state.applications import Application, lacking
from muster_core.state.columns import IntColumn
from muster_core.state.nodes import ANY_CLAIM, NodeTable
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass, UnschedulableClass
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MaxApplicationsReached, QueuedBehindGang
from muster_core.state.users import Account, LimitSubject, LimitSubjectKind


def fix_key(app: Application, priority: int) -> None:
    """Fix the gang's key when its first request arrives; the key never changes."""
    if app.gang.key is None and app.spec.is_gang:
        seen = priority
        for queue in app.queue.path_up()[:-1]:
            seen = ordering.risen(queue, seen)
        app.gang.key = (-seen, app.submitted_ns, app.id)


def note_short(partition: Partition, app: Application) -> None:
    """Mark the gang due for a takeover: free resources do not suffice for its missing members."""
    if app.is_reserving and _has_all(app) and not app.gang.impossible and not app.gang.exceeds_nodes:
        partition.contention.due[app.id] = None


def note_holding(partition: Partition, app: Application) -> None:
    """Record that an incomplete gang holds reservations, and wake earlier gangs without a takeover candidate."""
    contention, key = partition.contention, app.gang.key
    if key is None or not app.is_reserving or not (app.gang.reserved or app.gang.quota_reservation):
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
                partition.requeue_one(other)


def waits_for_any_growth(partition: Partition, app: Application, now_ns: int) -> bool:
    """Whether resources that are too few for the gang alone may be enough for a take-over."""
    return app.is_reserving and now_ns >= app.gang.takeover_at_ns and takeover.has_competing_gangs(partition, app)


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
    return partition.nodes.node_reserved(node) - holds


def _has_all(app: Application) -> bool:
    """Whether every missing member of the gang is asked for."""
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
            partition.requeue_one(loser)


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
        partition.requeue_one(partition.applications[name])


_ANY: Final = 1 << 40


def absorb(partition: Partition) -> None:
    """Nodes gained: open the lines of the classes that may have room there now."""
    inter_pod, partition.nodes.gains.inter_pod = partition.nodes.gains.inter_pod, False
    claims, partition.nodes.gains.claims = partition.nodes.gains.claims, {}
    gains = partition.nodes.gains.take(partition.nodes.epoch)
    if gains is None:
        _open_all(partition)
        return
    if gains:
        _absorb_nodes(partition, gains)
    lines = [line for node in gains for line in partition.blocking_reasons.by_node.get(node, {}).values()]
    if inter_pod or claims:
        for kind in dict.fromkeys((*partition.unschedulable_classes, *partition.blocking_reasons.by_kind)):
            if (inter_pod and kind.depends_on_others) or _is_concerned(kind, claims):
                _look_anew(partition, kind)
    if gains or inter_pod or claims:
        lines += partition.blocking_reasons.together.values()
    for line in lines:
        partition.open(line)


def room_grew(partition: Partition, holder: LimitSubject, limit: Limit, taken: Queue | Account) -> None:
    """A holder has more room: reservations of others are ignored, the planner evaluates them."""
    lines = partition.blocking_reasons.by_holder.get(holder)
    if not lines:
        return
    left = limit.room(taken.allocated)
    for blocking_reason, line in lines.items():
        if not line.is_open and left.allows(blocking_reason.amount):
            partition.open(line)


def path_grew(partition: Partition, app: Application) -> None:
    """The application gave something back, or was promised less: its queues, its user and its group have more room."""
    partition.contention.growths += 1
    if not partition.blocking_reasons.by_holder:
        return
    for queue in app.queue.path_up():
        room_grew(partition, LimitSubject(LimitSubjectKind.QUEUE, "", queue.path), queue.max, queue)
    for holder, limit, account in partition.users.limits(app):
        room_grew(partition, holder, limit.max, account)


def path_shrank(partition: Partition, app: Application) -> None:
    """What is there already has more of the application's queues than before, and took it without asking: gangs to
    whom it was promised look again.
    """
    if any(queue.reserved_quota for queue in app.queue.path_up()):
        for other in partition.applications.values():
            if other.gang.granted:
                partition.requeue_one(other)


def start_freed(partition: Partition, holder: LimitSubject) -> None:
    """One application less counts as running."""
    partition.contention.growths += 1
    partition.open(partition.blocking_reasons.lines.get(MaxApplicationsReached(holder)))


def set_blocking(partition: Partition, app: Application, *, blocks: bool) -> None:
    """Whether the application keeps those behind it in its leaf from starting."""
    app.blocks = blocks
    blockers = app.queue.blockers
    if blocks:
        blockers[app.id] = None
    elif app.id in blockers:
        del blockers[app.id]
        turn_freed(partition, app.queue)


def turn_freed(partition: Partition, leaf: Queue) -> None:
    """Applications that waited behind a gang of the leaf may not do that now."""
    partition.open(partition.blocking_reasons.lines.get(QueuedBehindGang(leaf.path)))


def _absorb_nodes(partition: Partition, gains: list[NodeId]) -> None:
    """Open the lines of classes of which one may fit into what some of the nodes have left. How many really do is
    counted when the first who is there is next (`count_again`).
    """
    nodes, unschedulable_classes = partition.nodes, partition.unschedulable_classes
    rows = np.array([nodes.rows.row(node) for node in gains if node in nodes], dtype=np.int64)
    if not len(unschedulable_classes) or not len(rows):
        return
    columns = nodes.columns()
    unschedulable_classes.gained(rows, columns.size)

    def most(name: str) -> int:
        column = columns.availables.column(name, columns.size)
        return 0 if column is None else int(column[rows].max())

    for kind in unschedulable_classes.within(most):
        lines = partition.blocking_reasons.by_kind.get(kind)
        if lines is None:  # nobody waits for it: it is not worth remembering
            unschedulable_classes.drop(kind)
        elif not kind.depends_on_others:
            unschedulable_classes.grow(kind)
            for line in lines.values():
                partition.open(line)
        elif len(_possible(nodes, rows, kind)):  # one that finds a place here may open others
            _look_anew(partition, kind)


def count_again(partition: Partition, app: Application) -> None:
    """Count what the classes of the application that gained may have now, and close the lines before those that still
    have too little. The application stays active if anything is left to try it for.
    """
    unschedulable_classes = partition.unschedulable_classes
    for kind in app.waiting:
        unschedulable_class = unschedulable_classes.grown.get(kind)
        if unschedulable_class is None:
            continue
        more = _count_again(partition, kind, unschedulable_class)
        unschedulable_class.room = unschedulable_class.known + more
        if not more:
            del unschedulable_classes.grown[kind]
        for count, line in partition.blocking_reasons.by_kind.get(kind, {}).items():
            if count > unschedulable_class.room:
                partition.scheduling.close(line)


def _is_concerned(kind: AskClass, claims: Container[str]) -> bool:
    """Whether asks of the class use one of the claims; or any, where anything may have changed."""
    used = kind.pod_on_node.facts.volumes.claims
    return bool(used) and (ANY_CLAIM in claims or any(claim in claims for claim in used))


def _look_anew(partition: Partition, kind: AskClass) -> None:
    partition.unschedulable_classes.drop(kind)
    for line in list(partition.blocking_reasons.by_kind.get(kind, {}).values()):
        partition.open(line)


def _count_again(partition: Partition, kind: AskClass, unschedulable_class: UnschedulableClass) -> int:
    """How many more the nodes that gained hold than when places were looked for."""
    nodes = partition.nodes
    rows = _possible(nodes, partition.unschedulable_classes.since(unschedulable_class), kind)
    more = np.maximum(_counts(nodes, rows, kind), 0)
    if unschedulable_class.then is not None:
        known = rows < len(unschedulable_class.then)
        more[known] = np.maximum(more[known] - unschedulable_class.then[rows[known]], 0)
    return int(more.sum())


def _possible(nodes: NodeTable, rows: IntColumn, kind: AskClass) -> IntColumn:
    """Those of the rows on which the class may run."""
    rows = rows[rows < nodes.columns().size]
    found = rows[node_properties.allowed(kind.constraints, nodes)[rows]]
    avoided = [nodes.rows.row(node) for node in kind.avoid if node in nodes]
    return found[~np.isin(found, avoided)] if avoided else found


def _counts(nodes: NodeTable, rows: IntColumn, kind: AskClass) -> IntColumn:
    """How many of a class each of the rows holds; 0 or less = none."""
    found = np.full(len(rows), _ANY, dtype=np.int64)
    columns = nodes.columns()
    for name, amount in kind.resources.items():
        column = columns.availables.column(name, columns.size)
        np.minimum(found, 0 if column is None else column[rows] // amount, out=found)
    return found


def held_by_nodes(partition: Partition, app: Application, kind: AskClass) -> IntColumn | None:
    """How many of the class each row holds now, none too many; None where more than room decides, or other ways of
    counting do. So a gang that many nodes hold a part of is asked again when they hold more, and not whenever
    something comes and goes there.
    """
    if kind.depends_on_others or app.spec.topology is not None or partition.pending_callbacks.places:
        return None
    snapshot, shape = Snapshot(partition.nodes), shape_of(kind)
    return resources.counts(snapshot.available, kind.resources, node_search.on_facts(snapshot, shape), _ANY)


def _open_all(partition: Partition) -> None:
    partition.unschedulable_classes.clear()
    for line in list(partition.blocking_reasons.before_nodes()):
        partition.open(line)
