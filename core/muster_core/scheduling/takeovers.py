"""Takeover of reservations between gangs.

Gangs that reserve have one order, fixed with the first request: priority, creation time, ID. A gang may take over
reservations of later gangs. `muster_core.gangs.takeover` plans this, and the scheduling cycle calls
`resolve_takeovers`. See docs/internals/semantics.md, rule 12.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from muster_core.gangs import takeover
from muster_core.model.decisions import Placement, ReservationTakeover
from muster_core.model.errors import BrokenDecision, CommitFailed, caught
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.limits import MOST_RESTARTS
from muster_core.model.resources import NOTHING, Resources
from muster_core.preemption.guarantees import GuaranteeBalance
from muster_core.scheduling import commit, failures, gangs, ledger, records, requeue, victims
from muster_core.state.applications import Allocation, Application, lacking
from muster_core.state.reservations import Basis, OpenTakeOver, Planning, RunningPreemption
from muster_core.state.scheduler_state import Partition
from muster_core.state.scheduling_queue import MembersDoNotFit

_SECOND: Final = 1_000_000_000

#: How often the backoff of a failed takeover doubles, starting at one second.
_DOUBLED: Final = 4

#: Basis of a plan that has to start again.
_NO_BASIS: Final[Basis] = (-1, ())


# -- attempts ------------------------------------------------------------------


def resolve_takeovers(partition: Partition, now_ns: int, may_go_on: Callable[[], bool]) -> bool:
    """Tries a takeover for each due gang, in the order of keys. Returns whether one was committed.

    It tries at least one gang, even without time budget.
    """
    due = partition.contention.due
    is_any = is_tried = False
    apps = [app for name in due if (app := partition.applications.get(name)) is not None]
    for app in sorted(apps, key=lambda app: (app.gang.rank is None, app.gang.rank, app.sequence)):
        if is_tried and not may_go_on():
            return is_any
        is_tried = True
        due.pop(app.id, None)
        found = caught(partial(_attempt, partition, app, now_ns, may_go_on))
        if isinstance(found, Exception):
            failures.application_failed(partition, app, found, now_ns)
        elif found:
            app.failures = 0
            is_any = True
        if app.id in due:  # its plan continues in the next cycle, before the gangs behind it
            return is_any
    due.clear()
    return is_any


def _attempt(partition: Partition, app: Application, now_ns: int, may_go_on: Callable[[], bool]) -> bool:
    """Tries one takeover. Returns whether it was committed."""
    gang, begun = app.gang, partition.contention.planning.pop(app.id, None)
    if not app.waiting or requeue.is_waiting(partition, app) or app.id in partition.contention.open:
        return False
    if not takeover.has_competing_gangs(partition, app):
        partition.contention.idle[app.id] = None
        return False
    if now_ns < gang.takeover_at_ns or gang.takeover_epoch == requeue.epoch(partition):
        return False
    planning = _planning(partition, app, begun)
    is_over, decision = _advance(planning, may_go_on)
    if not is_over:
        _continue_later(partition, app, planning)
        return False
    if decision is not None:
        try:
            _begin(partition, decision, now_ns)
        except BrokenDecision as broken:
            if planning is begun:  # something changed since the plan started
                planning.basis = _NO_BASIS
                _continue_later(partition, app, planning)
                return False
            records.broken(partition, app.queue.path, broken)
        except Exception as error:
            raise CommitFailed(type(decision).__name__) from error
        else:
            return True
    gang.takeover_at_ns = now_ns + (_SECOND << min(gang.takeover_failures, _DOUBLED))
    gang.takeover_failures += 1
    gang.takeover_epoch = planning.epoch
    partition.set_timer(TimerKind.TAKE_OVER, gang.takeover_failures, gang.takeover_at_ns, app.id)
    return False


def _planning(partition: Partition, app: Application, begun: Planning | None) -> Planning:
    """Returns the plan in progress, or a new one if nodes or the requests of the gang have changed."""
    basis = partition.nodes.facts_epoch, tuple((kind, len(keys)) for kind, keys in app.waiting.items())
    if begun is not None and begun.basis == basis:
        return begun
    restarts = begun.restarts + 1 if begun is not None else 0
    return Planning(takeover.plan_takeover(partition, app), requeue.epoch(partition), basis, restarts)


def _advance(planning: Planning, may_go_on: Callable[[], bool]) -> tuple[bool, ReservationTakeover | None]:
    """Runs steps of the plan until it is done or the time budget ends, at least one step.

    Returns whether the plan is done, and its decision. A plan that restarted `MOST_RESTARTS` times runs to its end.
    """
    while True:
        try:
            next(planning.steps)
        except StopIteration as end:
            return True, end.value
        if not may_go_on() and planning.restarts < MOST_RESTARTS:
            return False, None


def _continue_later(partition: Partition, app: Application, planning: Planning) -> None:
    partition.contention.planning[app.id] = planning
    partition.contention.due[app.id] = None


def on_takeover_timer(partition: Partition, app: Application, timer: Timer) -> None:
    """Tries a failed takeover again after its backoff. Without any growth since then, it waits for the next one."""
    waits = partition.blocking_reasons.find(MembersDoNotFit(app.id))
    if timer.generation == app.gang.takeover_failures and waits is not None:
        partition.scheduling.open(waits)
    elif timer.generation == app.gang.takeover_failures:
        partition.scheduling.requeue(app)


# -- commit --------------------------------------------------------------------


def _begin(partition: Partition, decision: ReservationTakeover, now_ns: int) -> None:
    """Releases the victims and reserves their resources for the gang. Raises BrokenDecision before the first write."""
    app = partition.applications[decision.application]
    gone = [victims.victim_of(partition, name) for name in decision.victims]
    nodes = _check(partition, app, decision, gone)
    app.gang.takeover_failures = app.gang.takeover_at_ns = 0
    for name in decision.losers:
        loser = partition.applications[name]
        ledger.clear_quota_reservation(partition, loser)
        loser.gang.lost_to[app.id] = None
        partition.scheduling.requeue(loser)
    for held in decision.reservations:
        ledger.unreserve(partition, held)
    requeue.release_node_set(partition, app)
    number = partition.next_number()
    partition.contention.open[app.id] = OpenTakeOver(number, decision.losers, nodes, decision.places, decision.chosen)
    partition.contention.count += 1
    for node, amount in nodes.items():
        partition.nodes.reserve(node, amount, 1)
    ledger.set_quota_reservation(partition, app, lacking(app), granted=True)
    requeue.note_holding(partition, app)
    gangs.note_reservation(partition, app, now_ns)
    partition.scheduling.requeue(app)
    if not gone:
        return
    running = RunningPreemption(number, app.queue.path, (), dict.fromkeys(decision.victims), now_ns, gang=app.id)
    victims.notify_victims(partition, running, gone, f"reservation taken over by gang {app.id}", now_ns)
    victims.release_allocations(partition, gone, now_ns)


def _check(
    partition: Partition, app: Application, decision: ReservationTakeover, gone: list[tuple[Application, Allocation]]
) -> dict[NodeId, Resources]:
    """Returns the resources to reserve per node.

    Raises BrokenDecision if they are not free once the victims have ended, or if a queue would fall below its
    guarantee.
    """
    amount, nodes = _amounts(app, decision)
    freed: dict[NodeId, Resources] = {}
    balance = GuaranteeBalance(partition.queues.root, amount, frozenset(queue.path for queue in app.queue.path_up))
    for other, victim in gone:
        if not victim.spec.placeholder or not takeover.candidate(partition, app, other):
            raise BrokenDecision("take-over", f"nothing may be taken from gang {other.id}")
        if not balance.may_release(other.queue, victim.spec.resources):
            raise BrokenDecision("take-over", f"queue {other.queue.path} would fall below its guarantee")
        balance.lose(other.queue, victim.spec.resources)
        freed[victim.node] = freed.get(victim.node, NOTHING) + victim.spec.resources
    for loser in decision.losers:
        if not takeover.candidate(partition, app, partition.applications[loser]):
            raise BrokenDecision("take-over", f"nothing may be taken from gang {loser}")
    for reservation in partition.reservations.of(app.id):
        freed[reservation.node] = freed.get(reservation.node, NOTHING) + reservation.resources
    for node, amount in partition.contention.own_nodes(app.id):
        freed[node] = freed.get(node, NOTHING) + amount
    for name in decision.reservations:
        held = partition.reservations.by_ask[name]
        freed[held.node] = freed.get(held.node, NOTHING) + held.resources
    closed = commit.closed_nodes(partition, app, decision.places)
    for node, wanted in nodes.items():
        if node in closed or not _left(partition, node, freed.get(node, NOTHING)).covers(wanted.on_nodes):
            raise BrokenDecision("take-over", f"node {node} has no room even after the takeover")
    return nodes


def _left(partition: Partition, node: NodeId, freed: Resources) -> Resources:
    return partition.nodes.available(node) - partition.nodes.node_reserved(node) + freed


def _amounts(app: Application, decision: ReservationTakeover) -> tuple[Resources, dict[NodeId, Resources]]:
    counts: dict[tuple[AllocationKey, NodeId], int] = {}
    for place in decision.places:
        counts[place] = counts.get(place, 0) + 1
    total = NOTHING
    nodes: dict[NodeId, Resources] = {}
    for (key, node), count in counts.items():
        ask = app.asks.get(key)
        if ask is None or ask.replacement is not None or ask.left < count:
            raise BrokenDecision("take-over", f"ask {key} does not have that many pending allocations")
        total = total.plus(ask.spec.resources, count)
        nodes[node] = nodes.get(node, NOTHING).plus(ask.spec.resources, count)
    return total, nodes


# -- end -----------------------------------------------------------------------


def finish(partition: Partition, app: Application) -> Placement | None:
    """Ends the reservation of a takeover whose victims have ended. The gang is planned next.

    Returns the placement that the takeover planned, if it is still valid.
    """
    found = partition.contention.open.get(app.id)
    if found is None:
        return None
    requeue.close(partition, app)
    if any(kind.placeholder and kind.depends_on_others for kind in app.waiting):
        return None
    places = tuple((AllocationKey(key), node) for key, node in found.places)
    placement = Placement(partition.id, app.id, places, found.chosen)
    return placement if commit.may_place(partition, app, placement) else None
