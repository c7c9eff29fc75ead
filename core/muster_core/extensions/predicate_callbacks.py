"""Predicate callbacks: the resource manager confirms placements and preemptions before they are committed.

Muster's operator declares none. A plan is parked while its callback is open; nodes that the resource manager refused
are filtered for a while.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final, assert_never

import numpy as np

from muster_core.model.decisions import PlaceholderReplacement, Placement, Preemption
from muster_core.model.effects import PlacementsProposed, VictimsProposed
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import CallbacksDeclared, PlacementsEvaluated, Timer, TimerKind, VictimsEvaluated
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, RmId
from muster_core.model.records import Notice
from muster_core.placement import node_search
from muster_core.placement.node_search import pod_refusal
from muster_core.placement.plugins.hooks import PREDICATES, CallbackEvent, Confirm, RefusedRows
from muster_core.scheduling.commit import commit
from muster_core.state.applications import Application
from muster_core.state.columns import BoolColumn
from muster_core.state.nodes import NodeTable
from muster_core.state.reservations import PendingCallback
from muster_core.state.scheduler_state import Partition, SchedulerState
from muster_core.state.snapshot import RequestShape, Snapshot, shape_of

#: Filter that is not applied to a callback result, because it is that result.
_NOT_ASKED: Final = frozenset({PREDICATES})

#: Filters whose result depends on the other pods.
_OF_OTHERS: Final = _NOT_ASKED | {
    "NodePorts",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "PodTopologySpread",
    "InterPodAffinity",
    "PlacementConstraint",
}

#: A request and its planned node.
Place = tuple[AllocationKey, NodeId]


def still_feasible(nodes: NodeTable, app: Application, replacement: PlaceholderReplacement) -> bool:
    """Whether the real request may still run on the node of its replacement.

    Filters that depend on other pods are skipped, because the placeholders of the gang are there too.
    `placement/replacement.py` handles them.
    """
    ask = app.asks.get(replacement.ask)
    if ask is None or replacement.node not in nodes:
        return False
    snapshot, shape = Snapshot(nodes), shape_of(ask.kind)
    is_refused = (
        bool(pod_refusal(snapshot, shape))
        or not node_search.allowed(snapshot, shape, _OF_OTHERS)[nodes.rows.row(replacement.node)]
    )
    return not is_refused


def remaining_placements(nodes: NodeTable, app: Application, decision: Placement) -> tuple[Place, ...]:
    """Returns the placements of a decision that the filters still allow.

    Each is checked together with all others and alone, because the order in which they were planned is not known any
    more.
    """
    bare, row = Snapshot(nodes), nodes.rows.row
    known = [(key, node) for key, node in decision.places if key in app.asks and node in nodes]
    shapes = {key: shape_of(app.asks[key].kind) for key, _ in known}
    known = [(key, node) for key, node in known if not pod_refusal(bare, shapes[key])]
    full = bare.fork()
    for key, node in known:
        node_search.charge(full, shapes[key], row(node))
    allowed: dict[tuple[RequestShape, NodeId], bool] = {}
    for key, node in known:
        shape = shapes[key]
        if (shape, node) not in allowed:
            node_search.charge(full, shape, row(node), -1)
            views = (node_search.allowed(snapshot, shape, _NOT_ASKED)[row(node)] for snapshot in (full, bare))
            allowed[shape, node] = any(views)
            if allowed[shape, node]:
                node_search.charge(full, shape, row(node))
    return tuple((key, node) for key, node in known if allowed[shapes[key], node])


#: Time after which a refused node is proposed again.
REFUSED_NS: Final = 10 * 1_000_000_000

#: Timeout of a callback.
LOST_NS: Final = 30 * 1_000_000_000

#: Reason of a refusal without a reason.
REFUSED: Final = "node(s) were refused by the resource manager"

#: Maximum length of a reason, in characters.
_REASON_LIMIT: Final = 256


def apply(scheduler_state: SchedulerState, event: CallbackEvent, confirm: Confirm, now_ns: int) -> None:
    """Handles a declaration of callbacks or the result of one. `confirm` commits a preemption that is still valid."""
    match event:
        case CallbacksDeclared():
            _declare(scheduler_state, event)
        case PlacementsEvaluated():
            _placements_evaluated(scheduler_state, event, now_ns)
        case VictimsEvaluated():
            _victims_evaluated(scheduler_state, event, confirm, now_ns)
        case _:
            assert_never(event)


def on_timer(partition: Partition, timer: Timer) -> None:
    """Handles the timeout of a callback, or the end of the time for which refused nodes are filtered."""
    if timer.kind is TimerKind.INQUIRY:
        _lose_callback(partition, timer)
    else:
        _forget_refusals(partition)


def _declare(scheduler_state: SchedulerState, event: CallbacksDeclared) -> None:
    """Sets which callbacks the resource manager wants. Callbacks in progress are not affected."""
    manager = scheduler_state.managers.get(event.rm)
    if manager is not None:
        manager.pending_callbacks.places, manager.pending_callbacks.victims = event.places, event.victims


def propose_placements(
    partition: Partition, app: ApplicationId, decisions: Sequence[Placement | PlaceholderReplacement], now_ns: int
) -> None:
    """Parks the decisions, and sends all their placements in one callback."""
    inquiry = PendingCallback(partition.id, app, tuple(decisions))
    number = partition.pending_callbacks.add(inquiry)
    partition.set_timer(TimerKind.INQUIRY, number, now_ns + LOST_NS, app)
    partition.outbox.put(PlacementsProposed(partition.rm, number, tuple(_places(inquiry))))


def propose_victims(partition: Partition, decision: Preemption, now_ns: int) -> None:
    """Parks a preemption, and sends one callback per placement.

    Each callback asks whether the pod fits once the victims on the node have ended.
    """
    inquiry = PendingCallback(partition.id, decision.application, (decision,))
    for place, (key, node) in enumerate(decision.places):
        number = partition.pending_callbacks.add(inquiry, place)
        partition.set_timer(TimerKind.INQUIRY, number, now_ns + LOST_NS, decision.application)
        victims = tuple(
            allocation.spec.key
            for app, identity in decision.victims
            if (allocation := partition.applications[app].allocations[identity]).node == node
            and not allocation.spec.is_virtual
        )
        partition.outbox.put(VictimsProposed(partition.rm, number, key, node, victims))


def _placements_evaluated(scheduler_state: SchedulerState, event: PlacementsEvaluated, now_ns: int) -> None:
    """Commits the accepted placements, and avoids the refused nodes for a while."""
    found = _close(scheduler_state, event.rm, event.number)
    if found is None:
        scheduler_state.ignore("response to an unknown request")
        return
    partition, inquiry = found
    asked = list(_places(inquiry))
    # A missing verdict counts as a refusal.
    answers = [*event.refusals, *([REFUSED] * (len(asked) - len(event.refusals)))]
    refused = {place: why for place, why in zip(asked, answers, strict=False) if why}
    for (key, node), why in refused.items():
        _refuse(partition, inquiry.application, key, node, why, now_ns)
    for decision in inquiry.decisions:
        if not isinstance(decision, Preemption):
            _commit(partition, decision, refused, now_ns)
    _wake(partition, inquiry.application)


def _victims_evaluated(scheduler_state: SchedulerState, event: VictimsEvaluated, confirm: Confirm, now_ns: int) -> None:
    """Handles the result for one placement of a preemption.

    When all are accepted, the preemption is planned again and committed if it is still valid. The first refusal drops
    it.
    """
    found = _close(scheduler_state, event.rm, event.number)
    if found is None:
        scheduler_state.ignore("response to an unknown request")
        return
    partition, inquiry = found
    place = inquiry.questions.pop(event.number)
    [decision] = inquiry.decisions
    if not isinstance(decision, Preemption):
        return
    if not event.success:
        for number in list(inquiry.questions):
            partition.pending_callbacks.close(number)
        key, node = decision.places[place]
        _refuse(partition, inquiry.application, key, node, REFUSED, now_ns)
    elif inquiry.questions:
        return
    elif not confirm(partition, decision, now_ns):
        _note(partition, inquiry, "the preemption was dropped: nodes, queues or victims changed before the answer")
    _wake(partition, inquiry.application)


def _lose_callback(partition: Partition, timer: Timer) -> None:
    """Handles the timeout of a callback: the plan is created again."""
    inquiry = partition.pending_callbacks.close(timer.generation)
    if inquiry is None:
        return
    for number in [number for number in inquiry.questions if number != timer.generation]:
        partition.pending_callbacks.close(number)
    _note(partition, inquiry, f"the resource manager did not answer within {LOST_NS // 1_000_000_000} s")
    _wake(partition, inquiry.application)


def _forget_refusals(partition: Partition) -> None:
    """Forgets all refusals, so that the nodes are proposed again."""
    if partition.nodes.refused:
        partition.nodes.refused.clear()
        partition.nodes.wake_up_nodes.note_anywhere()


def _places(inquiry: PendingCallback) -> Iterator[Place]:
    for decision in inquiry.decisions:
        if isinstance(decision, PlaceholderReplacement):
            yield decision.ask, decision.node
        else:
            yield from decision.places


def _commit(
    partition: Partition, decision: Placement | PlaceholderReplacement, refused: Container[Place], now_ns: int
) -> None:
    """Commits the rest of a decision without refused and invalid placements."""
    app = partition.applications.get(decision.application)
    if app is None:
        return
    left: Placement | PlaceholderReplacement = decision
    if isinstance(decision, PlaceholderReplacement):
        if (decision.ask, decision.node) in refused or not still_feasible(partition.nodes, app, decision):
            return
    else:
        places = tuple(place for place in decision.places if place not in refused)
        places = remaining_placements(partition.nodes, app, replace(decision, places=places))
        if not places:
            return
        left = replace(decision, places=places)
    with suppress(BrokenDecision):  # the resources were used meanwhile, so it is planned again
        commit(partition, left, now_ns)


def _refuse(partition: Partition, app: ApplicationId, key: AllocationKey, node: NodeId, why: str, now_ns: int) -> None:
    """Makes all requests of the same shape avoid the node for a while."""
    owner = partition.applications.get(app)
    ask = owner.asks.get(key) if owner is not None else None
    if ask is None:
        return
    is_first = not partition.nodes.refused
    partition.nodes.refused.setdefault(shape_of(ask.kind), {})[node] = why[:_REASON_LIMIT]
    if is_first:
        partition.set_timer(TimerKind.REFUSED, 0, now_ns + REFUSED_NS, app)


def _close(scheduler_state: SchedulerState, rm: RmId, number: int) -> tuple[Partition, PendingCallback] | None:
    manager = scheduler_state.managers.get(rm)
    inquiry = manager.pending_callbacks.close(number) if manager is not None else None
    partition = scheduler_state.partitions.get(inquiry.partition) if inquiry is not None else None
    return None if inquiry is None or partition is None else (partition, inquiry)


def _wake(partition: Partition, name: ApplicationId) -> None:
    app = partition.applications.get(name)
    if app is not None:
        partition.scheduling.requeue(app)


def _note(partition: Partition, inquiry: PendingCallback, message: str) -> None:
    partition.note(Notice.APPLICATION, inquiry.application, message=message)


def refused_nodes_filter(snapshot: Snapshot, refused: Mapping[NodeId, str]) -> RefusedRows:
    """Creates the filter of nodes that the callback refused, by reason."""
    rows, reasons = snapshot.nodes.rows, dict[str, BoolColumn]()
    for node, why in refused.items():
        if node in rows:
            reasons.setdefault(why, np.zeros(snapshot.size, dtype=np.bool_))[rows.row(node)] = True
    return RefusedRows(snapshot, list(reasons.items()))
