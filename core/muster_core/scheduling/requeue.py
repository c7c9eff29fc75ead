"""Wake-up conditions: which waiting applications are tried again after a change.

An unschedulable application waits for its blocking reasons. A change of a node, a queue or a limit makes only those
applications active whose reason it may have removed. `ledger` and the handlers of events call it.
"""

from __future__ import annotations

import sys
from collections.abc import Container, Iterable
from typing import Final

import numpy as np

from muster_core.gangs import takeover
from muster_core.model import messages
from muster_core.model.constraints import Constraints
from muster_core.model.ids import ApplicationId, NodeId
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.placement import node_search
from muster_core.placement.plugins import node_properties, resources
from muster_core.state import ordering
from muster_core.state.applications import Application, lacking
from muster_core.state.columns import BoolColumn, IntColumn
from muster_core.state.nodes import ANY_CLAIM, NodeTable
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass, UnschedulableClass
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import LeafQueue, MaxApplicationsReached, QueuedBehindGang
from muster_core.state.snapshot import Snapshot, shape_of, wanted
from muster_core.state.users import Account, LimitSubject, LimitSubjectKind


def fix_key(app: Application, priority: int) -> None:
    """Sets the gang's key when its first request arrives.

    The key never changes (docs/internals/semantics.md, rule 12).
    """
    if app.gang.key is None and app.spec.is_gang:
        seen = priority
        for queue in app.queue.path_up[:-1]:
            seen = ordering.risen(queue, seen)
        app.gang.key = (-seen, app.submitted_ns, app.id)


def note_short(partition: Partition, app: Application) -> None:
    """Marks the gang due for a takeover if free resources do not suffice for its missing members."""
    if app.is_reserving and _has_all(app) and not app.gang.impossible and not app.gang.exceeds_nodes:
        partition.contention.due[app.id] = None


def note_holding(partition: Partition, app: Application) -> None:
    """Records that an incomplete gang has reservations, and wakes up earlier gangs without a takeover candidate."""
    contention, key = partition.contention, app.gang.rank
    if key is None or not app.is_reserving or not (app.gang.reserved or app.gang.quota_reservation):
        return
    is_new = app.id not in contention.holding
    contention.note_reserving(app.id, key)
    if not is_new or not contention.idle:
        return
    for name in [name for name in contention.idle if name != app.id]:
        other = partition.applications.get(name)
        if other is None or other.gang.rank is None or other.gang.rank < key:
            del contention.idle[name]
            if other is not None:
                partition.requeue_one(other)


def set_exceeds_nodes(partition: Partition, app: Application, *, exceeds: bool) -> None:
    """Records whether the gang would fit on empty nodes. If not, it is the first to lose its reservations."""
    if exceeds == app.gang.exceeds_nodes:
        return
    app.gang.exceeds_nodes = exceeds
    if app.id in partition.contention.holding:
        partition.contention.forget(app.id)
        note_holding(partition, app)


def waits_for_any_change(partition: Partition, app: Application, now_ns: int) -> bool:
    """Whether resources that do not suffice for the gang alone may suffice together with a takeover."""
    return app.is_reserving and now_ns >= app.gang.takeover_at_ns and takeover.has_competing_gangs(partition, app)


def epoch(partition: Partition) -> tuple[int, int]:
    """Returns the number of growths of nodes, and of queues, limits and application slots.

    A failed takeover may succeed when one of them has changed.
    """
    return partition.nodes.epoch, partition.contention.wake_ups


def is_waiting(partition: Partition, app: Application) -> str:
    """Returns why the gang is not planned before a takeover ends; empty = it is planned."""
    if not app.is_reserving:
        return ""
    if app.gang.lost_to:
        return messages.queued_behind_takeover(next(iter(app.gang.lost_to)))
    own = partition.contention.open.get(app.id)
    if own is not None and own.number in partition.preemptions.running:
        return messages.waiting_for_takeover(", ".join(own.losers[:3]))
    return ""


def reserved_on(partition: Partition, app: Application, node: NodeId) -> Resources:
    """Returns the resources that takeovers and sets of nodes of other gangs reserve on a node."""
    if not partition.contention.open and partition.contention.node_set is None:
        return NOTHING
    mine = (amount for name, amount in partition.contention.own_nodes(app.id) if name == node)
    reservations = (reservation.resources for reservation in partition.reservations.on(node))
    return partition.nodes.node_reserved(node) - sum((*mine, *reservations), NOTHING)


def _has_all(app: Application) -> bool:
    """Whether the pending placeholder requests cover all missing members of the gang."""
    if app.spec.uses_virtual_placeholders:
        return bool(app.placeholder_asks)  # their sum is what the gang is missing
    asked = NOTHING
    for kind in app.waiting:
        if kind.placeholder:
            asked = asked.plus(kind.resources, wanted(app, kind, sys.maxsize))
    return bool(asked) and asked.covers(lacking(app))


def close(partition: Partition, app: Application) -> None:
    """Ends the takeover: releases its reservations and requeues the losing gangs."""
    found = partition.contention.open.pop(app.id, None)
    if found is None:
        return
    for node, amount in found.nodes.items():
        if node in partition.nodes:
            partition.nodes.reserve(node, amount, -1)
    for name in found.losers:
        loser = partition.applications.get(name)
        if loser is not None:
            loser.gang.lost_to.pop(app.id, None)
            partition.requeue_one(loser)


def release_node_set(partition: Partition, app: Application) -> None:
    """Releases the set of nodes of the gang, if it has one."""
    found = partition.contention.node_set
    if found is None or found.application != app.id:
        return
    partition.contention.node_set = None
    for node, amount in found.nodes.items():
        if node in partition.nodes:
            partition.nodes.reserve(node, amount, -1)


def leave(partition: Partition, app: Application) -> None:
    """Removes the gang from contention, because it is complete or its reservation has ended."""
    contention = partition.contention
    close(partition, app)
    release_node_set(partition, app)
    contention.forget(app.id)
    contention.due.pop(app.id, None)
    contention.planning.pop(app.id, None)
    contention.idle.pop(app.id, None)


def leave_node(partition: Partition, node: NodeId) -> None:
    """Ends the takeovers that need the node, because it drains, shrinks or is removed. They are planned again.

    A set of nodes that has the node is released, and chosen again.
    """
    node_set = partition.contention.node_set
    if node_set is not None and node in node_set.nodes:
        owner = partition.applications[node_set.application]
        release_node_set(partition, owner)
        partition.contention.node_set_search_ns = 0
        partition.requeue_one(owner)
    for name in [name for name, found in partition.contention.open.items() if node in found.nodes]:
        close(partition, partition.applications[name])
        partition.requeue_one(partition.applications[name])


_ANY: Final = 1 << 40


def absorb(partition: Partition) -> list[Application]:
    """Wakes up the classes that may fit on the nodes that gained resources since the last call.

    If the change may affect any class, wakes up all applications that wait for nodes. Returns the first application of
    each entry whose class fits only without the node reservations of others.
    """
    inter_pod, partition.nodes.wake_up_nodes.inter_pod = partition.nodes.wake_up_nodes.inter_pod, False
    claims, partition.nodes.wake_up_nodes.claims = partition.nodes.wake_up_nodes.claims, {}
    wake_up_nodes = partition.nodes.wake_up_nodes.take(partition.nodes.epoch)
    if wake_up_nodes is None:
        _open_all(partition)
        return []
    blocked_by_reservations = _absorb_nodes(partition, wake_up_nodes) if wake_up_nodes else []
    entries = [
        entry
        for node in wake_up_nodes
        for app, entry in partition.blocking_reasons.by_node.get(node, {}).items()
        if _may_use_reservation(partition, app, node)
    ]
    if inter_pod or claims:
        for kind in dict.fromkeys((*partition.unschedulable_classes, *partition.blocking_reasons.by_kind)):
            if (inter_pod and kind.depends_on_others) or _is_concerned(kind, claims):
                _retry_unschedulable(partition, kind)
    if wake_up_nodes or inter_pod or claims:
        entries += partition.blocking_reasons.together.values()
    for entry in entries:
        partition.open(entry)
    return blocked_by_reservations


def room_grew(partition: Partition, holder: LimitSubject, limit: Limit, taken: Queue | Account) -> None:
    """Wakes up the applications whose blocked request may fit below the limit now.

    Quota reservations of others are ignored here; the plan checks them.
    """
    partition.node_demand.grew((holder,))
    entries = partition.blocking_reasons.by_holder.get(holder)
    if not entries:
        return
    left = limit.room(taken.allocated)
    for blocking_reason, entry in entries.items():
        if not entry.is_open and left.allows(blocking_reason.amount):
            partition.open(entry)


def path_grew(partition: Partition, app: Application) -> None:
    """Wakes up applications after usage or a quota reservation of this application decreased.

    Its queues, its user and its group have more available quota.
    """
    partition.contention.wake_ups += 1
    if not partition.blocking_reasons.by_holder and not partition.node_demand.refusing:
        return
    for queue in app.queue.path_up:
        room_grew(partition, LimitSubject(LimitSubjectKind.QUEUE, "", queue.path), queue.max, queue)
    for holder, limit, account in partition.users.limits(app):
        room_grew(partition, holder, limit.max, account)


def path_shrank(partition: Partition, app: Application) -> None:
    """Requeues the gangs with a granted quota reservation after an existing allocation grew.

    Such a growth is not checked against quotas, so the reservations may no longer be covered.
    """
    if any(queue.reserved_quota for queue in app.queue.path_up):
        for name in partition.contention.granted:
            partition.requeue_one(partition.applications[name])


def start_freed(partition: Partition, holder: LimitSubject) -> None:
    """Wakes up the applications that wait for `maxapplications`, because one application fewer counts as running."""
    partition.contention.wake_ups += 1
    partition.open(partition.blocking_reasons.entries.get(MaxApplicationsReached(holder)))


def set_blocking(partition: Partition, app: Application, *, blocks: bool) -> None:
    """Sets whether the application keeps the ones behind it in its leaf from starting.

    An application without pending requests never does: no attempt would reset it.
    """
    app.blocks = blocks and bool(app.waiting)
    blockers = app.queue.blockers
    if app.blocks:
        blockers[app.id] = None
    elif app.id in blockers:
        del blockers[app.id]
        leaf_unblocked(partition, app.queue)


def leaf_unblocked(partition: Partition, leaf: Queue) -> None:
    """Wakes up the applications that are queued behind a gang of the leaf."""
    partition.open(partition.blocking_reasons.entries.get(QueuedBehindGang(leaf.path)))


def _absorb_nodes(partition: Partition, wake_up_nodes: list[NodeId]) -> list[Application]:
    """Wakes up the classes of which one request may fit on the nodes with more resources.

    `count_again` computes how many fit when the first waiting application is tried. Returns the first application of
    each entry whose class fits only without the node reservations of others.
    """
    nodes, unschedulable_classes = partition.nodes, partition.unschedulable_classes
    rows = np.array([nodes.rows.row(node) for node in wake_up_nodes if node in nodes], dtype=np.int64)
    if not len(unschedulable_classes) or not len(rows):
        return []
    unschedulable_classes.gained(rows, nodes.columns().size)
    gained = GainedRows(nodes, rows)
    blocked_by_reservations: list[Application] = []
    for kind in unschedulable_classes.within(gained.most_available):
        entries = partition.blocking_reasons.by_kind.get(kind)
        if entries is None:  # no application waits for it, so the entry is not needed
            unschedulable_classes.drop(kind)
        elif kind.depends_on_others:
            if len(_possible(nodes, rows, kind)):  # its placement may satisfy the affinity of other classes
                _retry_unschedulable(partition, kind)
        elif gained.may_hold(kind, unreserved=_respects_reservations(kind)):
            unschedulable_classes.grow(kind)
            for entry in entries.values():
                partition.open(entry)
        elif gained.may_hold(kind, unreserved=False):
            _wake_repairs(partition, entries.values())
            blocked_by_reservations += [
                app for entry in entries.values() if (app := _first_to_reserve(partition, entry)) is not None
            ]
    return blocked_by_reservations


def _wake_repairs(partition: Partition, entries: Iterable[LeafQueue]) -> None:
    """Wakes up the gangs that may precede the node reservations of others (`repair`)."""
    repairs = partition.scheduling.repairs
    for name in [name for entry in entries for name in repairs.waiting.get(entry, ())]:
        partition.requeue_one(partition.applications[name])


#: Amounts and constraints that one change evaluates per row. Further ones count as satisfied.
_EVALUATED: Final = 64


class GainedRows:
    """Rows that gained resources, and which classes they may hold."""

    __slots__ = ("_allowed", "_fitting", "_is_any_reserved", "_nodes", "_rows")

    def __init__(self, nodes: NodeTable, rows: IntColumn) -> None:
        self._nodes, self._rows = nodes, rows
        self._is_any_reserved = any(nodes.columns().node_reserved)
        self._fitting: dict[tuple[Resources, bool], BoolColumn] = {}
        self._allowed: dict[Constraints, BoolColumn] = {}

    def most_available(self, name: str) -> int:
        """Returns the largest available amount of a resource among the rows."""
        return int(np.max(self._available(name, unreserved=False)))

    def may_hold(self, kind: AskClass, *, unreserved: bool) -> bool:
        """Whether one of the rows may hold a request of the class. False = certainly not.

        `unreserved`: next to the node reservations.
        """
        unreserved = unreserved and self._is_any_reserved
        key = (kind.resources, unreserved)
        fitting = self._fitting.get(key)
        if fitting is None:
            if len(self._fitting) >= _EVALUATED:
                return True
            fitting = self._fitting[key] = self._fit(kind.resources, unreserved=unreserved)
        if not fitting.any():
            return False
        allowed = self._allowed.get(kind.constraints)
        if allowed is None:
            if len(self._allowed) >= _EVALUATED:
                return True
            allowed = node_properties.allowed(kind.constraints, self._nodes)[self._rows]
            self._allowed[kind.constraints] = allowed
        return bool((fitting & allowed).any())

    def _fit(self, amounts: Resources, *, unreserved: bool) -> BoolColumn:
        found = np.ones(len(self._rows), dtype=np.bool_)
        for name, amount in amounts.items():
            found &= self._available(name, unreserved=unreserved) >= amount
        return found

    def _available(self, name: str, *, unreserved: bool) -> IntColumn:
        columns = self._nodes.columns()
        column = columns.availables.column(name, columns.size)
        reserved = columns.node_reserved.column(name, columns.size) if unreserved else None
        found = np.zeros(len(self._rows), dtype=np.int64) if column is None else column[self._rows]
        return found if reserved is None else found - reserved[self._rows]


def _first_to_reserve(partition: Partition, entry: LeafQueue) -> Application | None:
    """Returns the first application of the entry. None = the one of the last call still waits for its timer.

    Each application that was refused later has set the timer of its leaf by itself.
    """
    known = partition.applications.get(entry.to_reserve) if entry.to_reserve is not None else None
    if known is not None and known.queue.reservation_timer and entry.has(known):
        return None
    first = partition.scheduling.first_of(entry)
    entry.to_reserve = first.id if first is not None else None
    return first


def _may_use_reservation(partition: Partition, name: ApplicationId, node: NodeId) -> bool:
    """Whether the application may fit on the node that is reserved for one of its requests. False = certainly not."""
    app, nodes = partition.applications.get(name), partition.nodes
    reservations = [reservation for reservation in partition.reservations.on(node) if reservation.application == name]
    if app is None or app.is_reserving or node not in nodes or len(reservations) != 1:
        return True  # a gang may use the reservations of all its members together
    [reservation] = reservations
    left = nodes.available(node) - nodes.node_reserved(node) + reservation.resources
    return reservation.required or reservation.preempted or left.covers(reservation.resources)


def _respects_reservations(kind: AskClass) -> bool:
    """Whether each request of the class may use only its own node reservation.

    An application with a reservation waits for its node (`NodeNotReserved`). A gang may use the reservations of all its
    members, and a request that requires a node may use those of others.
    """
    return not (kind.placeholder or kind.required_node)


def count_again(partition: Partition, app: Application) -> None:
    """Computes how many more requests of the application's classes fit on the nodes that gained resources.

    Applications that need more than that wait again. This application stays active if any of its classes may fit.
    """
    unschedulable_classes = partition.unschedulable_classes
    for kind in app.waiting:
        unschedulable_class = unschedulable_classes.grown.get(kind)
        if unschedulable_class is None:
            continue
        _count_again(partition, kind, unschedulable_class)
        for count, entry in partition.blocking_reasons.by_kind.get(kind, {}).items():
            if count > unschedulable_class.room:
                partition.scheduling.close(entry)


def _is_concerned(kind: AskClass, claims: Container[str]) -> bool:
    """Whether requests of the class use one of the claims. With ANY_CLAIM, whether they use any claim."""
    used = kind.pod_on_node.facts.volumes.claims
    return bool(used) and (ANY_CLAIM in claims or any(claim in claims for claim in used))


def _retry_unschedulable(partition: Partition, kind: AskClass) -> None:
    partition.unschedulable_classes.drop(kind)
    for entry in list(partition.blocking_reasons.by_kind.get(kind, {}).values()):
        partition.open(entry)


def _count_again(partition: Partition, kind: AskClass, unschedulable_class: UnschedulableClass) -> None:
    """Counts how many more requests fit on the nodes that gained resources than at the last search."""
    nodes = partition.nodes
    rows = _possible(nodes, partition.unschedulable_classes.since(unschedulable_class), kind)
    more = np.maximum(_counts(nodes, rows, kind), 0)
    if unschedulable_class.then is not None:
        known = rows < len(unschedulable_class.then)
        more[known] = np.maximum(more[known] - unschedulable_class.then[rows[known]], 0)
    partition.unschedulable_classes.counted(kind, rows[more > 0], int(more.sum()))


def _possible(nodes: NodeTable, rows: IntColumn, kind: AskClass) -> IntColumn:
    """Returns the rows that satisfy the constraints of the class on node properties."""
    rows = rows[rows < nodes.columns().size]
    found = rows[node_properties.allowed(kind.constraints, nodes)[rows]]
    avoided = [nodes.rows.row(node) for node in kind.avoid if node in nodes]
    return found[~np.isin(found, avoided)] if avoided else found


def _counts(nodes: NodeTable, rows: IntColumn, kind: AskClass) -> IntColumn:
    """Returns how many requests of the class fit per row; 0 or less = none."""
    found = np.full(len(rows), _ANY, dtype=np.int64)
    columns = nodes.columns()
    for name, amount in kind.resources.items():
        column = columns.availables.column(name, columns.size)
        reserved = columns.node_reserved.column(name, columns.size) if _respects_reservations(kind) else None
        left = 0 if column is None else column[rows]
        np.minimum(found, (left if reserved is None else left - reserved[rows]) // amount, out=found)
    return found


def held_by_nodes(partition: Partition, app: Application, kind: AskClass) -> IntColumn | None:
    """Returns how many requests of the class fit per row now.

    Returns None if that number depends on more than resources. A gang that fits only in part is tried again when a node
    exceeds this number, not after each change of the node.
    """
    if kind.depends_on_others or app.spec.topology is not None or partition.pending_callbacks.places:
        return None
    snapshot, shape = Snapshot(partition.nodes), shape_of(kind)
    return resources.counts(snapshot.available, kind.resources, node_search.on_facts(snapshot, shape), _ANY)


def _open_all(partition: Partition) -> None:
    partition.unschedulable_classes.clear()
    for entry in list(partition.blocking_reasons.before_nodes()):
        partition.open(entry)
