"""Wake-up conditions: which waiting applications are tried again after a change.

An unschedulable application waits for its blocking reasons. A change of a node, a queue or a limit makes only those
applications active whose reason it may have removed. `ledger` and the handlers of events call it.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Collection, Container, Hashable
from functools import partial
from itertools import islice
from typing import Final

import numpy as np

from muster_core.gangs import takeover
from muster_core.model import messages
from muster_core.model.ids import ApplicationId, NodeId
from muster_core.model.limits import LOOKS_PER_ATTEMPT
from muster_core.model.resources import NOTHING, Limit, Resources
from muster_core.model.specs import AskSpec, Topology
from muster_core.placement import node_search
from muster_core.placement.devices.filter import Concern
from muster_core.queues import quota
from muster_core.state import ordering
from muster_core.state.applications import Application, lacking
from muster_core.state.columns import IntColumn, value_of
from muster_core.state.nodes import ANY_CLAIM, NodeTable
from muster_core.state.queues import Queue
from muster_core.state.request_classes import AskClass, label_mark
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import (
    BlockingReason,
    MaxApplicationsReached,
    NodeNotReserved,
    NoNodeFits,
    QueuedBehindGang,
)
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
                partition.scheduling.requeue(other)


def set_exceeds_nodes(partition: Partition, app: Application, *, exceeds: bool) -> None:
    """Records whether the gang would fit on empty nodes. If not, it is the first to lose its reservations."""
    if exceeds == app.gang.exceeds_nodes:
        return
    app.gang.exceeds_nodes = exceeds
    if app.id in partition.contention.holding:
        partition.contention.forget(app.id)
        note_holding(partition, app)


def waits_for_any_change(partition: Partition, app: Application) -> bool:
    """Whether resources that do not suffice for the gang alone may suffice together with a takeover."""
    return app.is_reserving and takeover.has_competing_gangs(partition, app)


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
    return partition.nodes.node_reserved(node) - sum((*mine, *reservations), NOTHING).on_nodes


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
            partition.scheduling.requeue(loser)


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
        partition.scheduling.requeue(owner)
    for name in [name for name, found in partition.contention.open.items() if node in found.nodes]:
        close(partition, partition.applications[name])
        partition.scheduling.requeue(partition.applications[name])


def enter_domain(partition: Partition, app: Application, topology: Topology, spec: AskSpec, node: NodeId) -> None:
    """Keeps later members of a gang that requires one topology domain in that of its first member, or before it has
    one, of its first placeholder. `spec`, `node`: a new member or placeholder.
    """
    is_first = not spec.placeholder and sum(app.gang.members.values()) == 1
    if app.id in partition.nodes.homes and not is_first:
        return
    value = value_of(partition.nodes.record(node).spec, topology.keys[0])
    if value and topology.required and (app.is_reserving or app.gang.was_complete):
        partition.nodes.homes[app.id] = topology.keys[0], value


def settle_domains(partition: Partition) -> None:
    """Call it at the end of a recovery: later members of a gang join the domain that most of its members have.

    The first one that was reported does not decide. Of domains with equally many members the first by name is used.
    """
    homes, nodes = partition.nodes.homes, partition.nodes
    for name, (key, _) in homes.items():
        members = (
            one
            for one in partition.applications[name].allocations.values()
            if one.spec.group and not one.spec.placeholder
        )
        counts = Counter(filter(None, (value_of(nodes.record(one.node).spec, key) for one in members)))
        if counts:
            homes[name] = key, min(counts, key=lambda value: (-counts[value], value))


def leave_domain(partition: Partition, app: Application) -> None:
    """Lets the members use any topology domain again, because the last member has ended."""
    if partition.nodes.homes.pop(app.id, None) is not None:
        for kind in app.waiting:
            partition.unschedulable_classes.drop(kind)
        partition.scheduling.requeue(app)


_ANY: Final = 1 << 40

#: Nodes whose labels are compared with those that classes require.
_LABELLED: Final = 64


def absorb(partition: Partition) -> None:
    """Wakes what may fit into the quotas, or on the nodes, that grew since the last call.

    If the change may affect any class, wakes all that waits for nodes. `open_some` has the applications tried. Quota
    reservations of others are ignored here; the plan checks them.
    """
    nodes, known, reasons = partition.nodes, partition.unschedulable_classes, partition.blocking_reasons
    partition.scheduling.has_woken = True
    _wake_amounts(partition)
    wake_ups = nodes.wake_up_nodes
    if not wake_ups:
        return
    inter_pod, gained = wake_ups.inter_pod, list(wake_ups.nodes)
    known.offer(nodes.capacity_total)
    anywhere = _most_available(nodes, slice(None))
    if wake_ups.is_anywhere:
        known.independent.wake(anywhere)
        gained = list(dict.fromkeys(one.node for one, _ in reasons if isinstance(one, NodeNotReserved)))
        inter_pod = True
    elif gained:
        _wake_classes(partition, [node for node in gained if node in nodes])
    if inter_pod:
        known.dependent.wake(anywhere)
    concern = Concern(nodes.pods_on_nodes.devices, wake_ups.devices) if wake_ups.has_devices else None
    for kind in known if wake_ups.claims or concern is not None else ():
        if _is_concerned(kind, wake_ups.claims, concern):
            known.set_woken(kind, value=True)
    for node in gained:
        for reason, entry in reasons.about(node).items():
            if isinstance(reason, NodeNotReserved) and _may_use_reservation(partition, reason.app, node):
                partition.scheduling.open(entry, is_certain=True)
    reasons.wake_gangs()
    wake_ups.clear()


def _wake_amounts(partition: Partition) -> None:
    """Wakes the amounts that may fit into the quotas that grew."""
    reasons = partition.blocking_reasons
    grown, partition.grown = partition.grown, {}
    for holder, (limit, taken) in grown.items():
        if reasons.about(holder):
            reasons.wake_amounts(holder, limit.room(taken.allocated))


def _wake_classes(partition: Partition, gained: list[NodeId]) -> None:
    """Wakes the classes of which one request may fit on these nodes."""
    nodes, known = partition.nodes, partition.unschedulable_classes
    if not gained or not len(known):
        return
    most = _most_available(nodes, np.array([nodes.rows.row(node) for node in gained], dtype=np.int64))
    labels = {pair for node in gained[:_LABELLED] for pair in nodes.record(node).spec.labels.items()}
    pools = [label_mark(*pair) for pair in labels] if len(gained) <= _LABELLED else None
    known.independent.wake(most, pools)
    known.dependent.wake(most, pools)


def _most_available(nodes: NodeTable, rows: IntColumn | slice) -> Callable[[str], int]:
    """Returns the largest available amount of a resource on one of these rows."""
    columns = nodes.columns()

    def most(name: str) -> int:
        column = columns.availables.column(name, columns.size)
        return 0 if column is None or not columns.size else int(np.max(column[rows]))

    return most


def open_some(partition: Partition) -> list[Application]:
    """Evaluates some of the reasons that were woken, and has the applications tried that may be scheduled now.

    Returns the first application of each class that fits only without the node reservations of others.
    """
    scheduling, known, reasons = partition.scheduling, partition.unschedulable_classes, partition.blocking_reasons
    looks = scheduling.backoff.looks
    if not looks:
        return []
    for entry in reasons.take_woken(looks):
        partition.scheduling.open(entry)
    kinds = known.take(looks)
    found = [app for kind in kinds for app in _evaluate(partition, kind)]
    scheduling.backoff.looked(sum(kind not in known.grown for kind in kinds))
    scheduling.has_woken = bool(reasons.woken_gangs) or reasons.amounts.is_any_woken or known.is_any_woken
    return found


def _evaluate(partition: Partition, kind: AskClass) -> list[Application]:
    """Counts how many requests of the class fit next to the pods on the nodes, and opens its sets accordingly.

    Other pods and node reservations may restrict it further. Returns as `open_some`.
    """
    known, nodes = partition.unschedulable_classes, partition.nodes
    cached, entries = known.get(kind), partition.blocking_reasons.about(kind)
    if cached is None or not entries:  # no application waits for it, so the entry is not needed
        known.drop(kind)
        return []
    room = _count(nodes, kind, unreserved=_respects_reservations(kind))
    if kind.depends_on_others and room:
        known.drop(kind)
        room = _ANY
    elif not kind.depends_on_others:
        cached.room = room
        known.grown[kind] = None
    for reason, entry in list(entries.items()):
        if isinstance(reason, NoNodeFits) and reason.count <= room:
            partition.scheduling.open(entry)
        else:
            partition.scheduling.close(entry)
    if room:
        return []
    known.grown.pop(kind, None)
    if not any(nodes.columns().node_reserved) or not _count(nodes, kind, unreserved=False):
        return []
    for entry in entries.values():
        if entry.repairs:  # it may precede the node reservations of others
            partition.scheduling.open(entry)
    firsts = map(partition.scheduling.first_of, entries.values())
    return [app for app in firsts if app is not None]


def _count(nodes: NodeTable, kind: AskClass, *, unreserved: bool) -> int:
    """Returns how many requests of the class fit on the nodes that its constraints allow.

    `unreserved`: next to the node reservations.
    """
    rows = np.flatnonzero(node_search.on_facts(Snapshot(nodes), shape_of(kind)))
    found = np.full(len(rows), _ANY, dtype=np.int64)
    columns = nodes.columns()
    for name, amount in kind.resources.on_nodes.items():
        column = columns.availables.column(name, columns.size)
        reserved = columns.node_reserved.column(name, columns.size) if unreserved else None
        left = 0 if column is None else column[rows]
        np.minimum(found, (left if reserved is None else left - reserved[rows]) // amount, out=found)
    return int(np.maximum(found, 0).sum())


def room_grew(partition: Partition, holder: LimitSubject, limit: Limit, taken: Queue | Account) -> None:
    """Records that usage below a limit decreased. `absorb` wakes up the applications whose request may fit now."""
    partition.node_demand.grew((holder,))
    if partition.blocking_reasons.about(holder):
        partition.grown[holder] = (limit, taken)


def path_grew(partition: Partition, app: Application) -> None:
    """Wakes up applications after usage or a quota reservation of this application decreased.

    Its queues, its user and its group have more available quota.
    """
    partition.contention.wake_ups += 1
    if not len(partition.blocking_reasons.amounts) and not partition.node_demand.refusing:
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
        for gang in [partition.applications[name] for name in partition.contention.holding]:
            if gang.gang.granted:
                partition.scheduling.requeue(gang)


def start_freed(partition: Partition, holder: LimitSubject) -> None:
    """Wakes up the applications that wait for `maxapplications`, because one application fewer counts as running."""
    partition.contention.wake_ups += 1
    partition.scheduling.open(partition.blocking_reasons.find(MaxApplicationsReached(holder)), is_certain=True)


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
    partition.scheduling.open(partition.blocking_reasons.find(QueuedBehindGang(leaf.path)), is_certain=True)


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


def evaluate(partition: Partition, app: Application, heads: Collection[BlockingReason] = ()) -> None:
    """Evaluates some classes of the application that were woken, or of which some may fit, before it is planned.

    `heads`: the reasons because of which it is active; only their classes are evaluated if it has many. Applications
    that need more wait again. This application stays active if any of its classes may fit.
    """
    known, kinds = partition.unschedulable_classes, iter(app.waiting)
    if heads and len(app.waiting) > LOOKS_PER_ATTEMPT:
        kinds = (reason.kind for reason in heads if isinstance(reason, NoNodeFits))
    stale = (kind for kind in kinds if kind in known.grown or known.is_woken(kind))
    for kind in list(islice(stale, LOOKS_PER_ATTEMPT)):
        known.set_woken(kind, value=False)
        _evaluate(partition, kind)


def requeue_some(partition: Partition) -> None:
    """Makes a part of the applications active that are due after a change of all."""
    partition.scheduling.requeue_some(partial(_waits_for_nodes, partition, {}))


def _waits_for_nodes(partition: Partition, known: dict[Hashable, bool], app: Application) -> bool:
    """Whether an application only waits for nodes, and the present maximums allow all that it asks for.

    `known`: by what the maximums are about.
    """
    reasons = partition.blocking_reasons.blocked.get(app.id)
    if not reasons or app.spec.is_gang:
        return False
    key = quota.subject(app), app.state, app.counted, bool(app.allocations), *reasons
    if key not in known:
        known[key] = quota.start_refusal(partition, app) is None and all(
            isinstance(one, NoNodeFits)
            and not one.kind.required_node
            and quota.quota_refusal(partition, app, one.kind.resources) is None
            for one in reasons
        )
    return known[key]


def _is_concerned(kind: AskClass, claims: Container[str], concern: Concern | None) -> bool:
    """Whether requests of the class use claims that changed, or may use devices that did.

    With ANY_CLAIM, whether they use any attached volume.
    """
    facts = kind.pod_on_node.facts
    if facts.devices and concern is not None and concern.has(facts.devices):
        return True
    volumes = facts.volumes
    if ANY_CLAIM in claims:
        return bool(volumes.claims or volumes.attached)
    return any(claim in claims for claim in volumes.claims)
