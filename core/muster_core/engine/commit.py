"""Carries out decisions: the one place where a plan becomes a fact.

Each function re-checks its decision against the world and raises
BrokenDecision before its first write; after that it writes the whole of it
(style 15). Returns what is to be said.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from muster_core.engine import gangs, holds, ledger, lifecycle, notes, reservations, taking_back
from muster_core.model.decisions import Decision, Eviction, Placement, Pledge, Swap
from muster_core.model.effects import (
    AllocationAnswer,
    ClockSet,
    Effect,
    NewAllocation,
    Release,
    SchedulingState,
    SchedulingStateChanged,
)
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import ClockKind
from muster_core.model.facts import NO_FACTS
from muster_core.model.ids import AllocationKey, NodeId
from muster_core.model.notes import EventNoted, Notice
from muster_core.model.release import Termination
from muster_core.model.resources import NOTHING, Resources
from muster_core.model.specs import AskSpec
from muster_core.model.states import ApplicationState
from muster_core.model.storage import NO_CHOICE, Choice
from muster_core.world.applications import Allocation, Application, Ask, lacking
from muster_core.world.classes import AskClass
from muster_core.world.world import Partition


def commit(partition: Partition, decision: Decision, now_ns: int) -> list[Effect]:
    """Carry out one decision whole. Raises BrokenDecision if it no longer holds."""
    app = partition.applications.get(decision.application)
    if app is None:
        raise BrokenDecision(repr(decision), "the application is gone")
    match decision:
        case Placement():
            return _place(partition, app, decision, now_ns)
        case Swap():
            return _swap(partition, app, decision, now_ns)
        case Eviction():
            return _evict(partition, app, decision, now_ns)
        case Pledge():
            ledger.set_pledge(partition, app, decision.amount, backed=decision.backed)
            return []
        case _:
            assert_never(decision)


@dataclass(slots=True)
class _Batch:
    """What a placement makes, and what is to be said of it."""

    volumes: Mapping[str, str]
    made: list[Allocation] = field(default_factory=list)
    new: list[NewAllocation] = field(default_factory=list)
    clocks: list[Effect] = field(default_factory=list)
    told: list[SchedulingStateChanged] = field(default_factory=list)

    def tell(self, said: list[SchedulingStateChanged]) -> None:
        """What was not just said: all places of a task group without pods speak with one voice."""
        self.told += [one for one in said if one not in self.told[-1:]]


def _place(partition: Partition, app: Application, decision: Placement, now_ns: int) -> list[Effect]:
    wanted = _check_placement(partition, app, decision)
    had_placeholder = bool(app.gang.reserved)
    for resources, counts in wanted.items():
        partition.nodes.take_all(counts, resources)
    batch = _Batch(dict(decision.volumes))
    totals: dict[tuple[bool, Resources], tuple[AskSpec, int]] = {}
    for spec, places in _runs(app, decision):
        for ask, node in places:
            _make(partition, app, ask, node, now_ns, batch)
        shape = (spec.placeholder, spec.resources)
        first, count = totals.get(shape, (spec, 0))
        totals[shape] = (first, count + len(places))
    for spec, count in totals.values():
        ledger.count_in(partition, app, spec, count)
        ledger.count_pending(app, spec.resources, -count)
    ledger.note_waiting(partition, app)
    notes.places_came(partition, app, batch.made, asked=True)
    effects: list[Effect] = [AllocationAnswer(partition.rm, new=tuple(batch.new))] if batch.new else []
    effects += [*batch.clocks, *batch.told]
    return effects + _after_placement(partition, app, now_ns, had_placeholder=had_placeholder)


def _runs(app: Application, decision: Placement) -> list[tuple[AskSpec, list[tuple[Ask, NodeId]]]]:
    """The places of a decision by what follows each other of one class, with the first spec of each: what is the same
    for all of them is then done once.
    """
    runs: list[tuple[AskSpec, list[tuple[Ask, NodeId]]]] = []
    kind: AskClass | None = None
    for key, node in decision.places:
        ask = app.asks[key]
        if ask.kind is not kind:
            kind = ask.kind
            runs.append((ask.spec, []))
        runs[-1][1].append((ask, node))
    return runs


def _make(partition: Partition, app: Application, ask: Ask, node: NodeId, now_ns: int, batch: _Batch) -> None:
    """One allocation; its sums are the batch's."""
    spec = ask.spec
    if ask.said is not None:
        batch.tell(say_found(partition, app, ask, SchedulingState.SCHEDULED, node))
    if partition.reservations and _use_hold(partition, app, spec.key, node):
        batch.clocks += reservations.watch(partition, app, now_ns)
    allocation = Allocation(spec, ledger.next_id(app, ask), node, now_ns)
    ledger.count_made(app, ask)
    ledger.book(partition, app, allocation)
    batch.made.append(allocation)
    choice = ledger.assume(partition, spec, node, batch.volumes) if spec.facts is not NO_FACTS else NO_CHOICE
    if not spec.podless:
        batch.new.append(NewAllocation(spec, allocation.id, node, choice))
    if spec.timeout_ns:
        batch.clocks.append(run_clock(partition, app, allocation, now_ns))


def _check_placement(partition: Partition, app: Application, decision: Placement) -> dict[Resources, dict[NodeId, int]]:
    """How many of each amount go to each node. Raises BrokenDecision."""
    wanted = _counts(app, decision)
    _check_volumes(partition, decision.volumes)
    total = NOTHING
    for resources, counts in wanted.items():
        total = total.plus(resources, sum(counts.values()))
        node = partition.nodes.without_room(counts, resources)
        if node is not None:
            raise BrokenDecision("placement", f"node {node} has no room for {counts[node]} of {resources}")
    _check_part(partition, app, total)
    for queue in app.queue.path_up():
        if queue.max:
            excess = queue.max.excess(queue.allocated + total)
            if any(total[name] for name in excess):
                raise BrokenDecision("placement", f"queue {queue.path} would exceed its maximum by {excess}")
    for holder, limit, account in partition.users.limits(app):
        excess = limit.max.excess(account.allocated + total)
        if any(total[name] for name in excess):
            raise BrokenDecision("placement", f"{holder.kind} {holder.name} would exceed the limit by {excess}")
    return wanted


def _check_part(partition: Partition, app: Application, total: Resources) -> None:
    """One gang at a time may hold a part of its places (semantics 12); another may do so since this was planned."""
    if not app.is_reserving or partition.partial in (None, app.id):
        return
    if any(amount > total[name] for name, amount in lacking(app).items()):
        raise BrokenDecision("placement", f"gang {partition.partial} holds a part of its places already")


def _counts(app: Application, decision: Placement) -> dict[Resources, dict[NodeId, int]]:
    wanted: dict[Resources, dict[NodeId, int]] = {}
    given: dict[AllocationKey, int] = {}
    resources, counts = NOTHING, dict[NodeId, int]()
    for key, node in decision.places:
        ask = app.asks.get(key)
        given[key] = now = given.get(key, 0) + 1
        if ask is None or ask.swap is not None or ask.left < now:
            raise BrokenDecision("placement", f"ask {key} does not wait for that many places")
        if ask.spec.resources is not resources:
            resources = ask.spec.resources
            counts = wanted.setdefault(resources, {})
        counts[node] = counts.get(node, 0) + 1
    return wanted


def _check_volumes(partition: Partition, volumes: Choice) -> None:
    storage = partition.nodes.occupants.attachments.storage
    for claim, volume in volumes:
        if volume and not storage.is_free(volume, claim):
            raise BrokenDecision("choice of volumes", f"volume {volume} is not free for claim {claim} any more")


def _after_placement(partition: Partition, app: Application, now_ns: int, *, had_placeholder: bool) -> list[Effect]:
    effects: list[Effect] = []
    if app.is_reserving:
        # A Direct gang whose members run already goes on by its old clock.
        if not had_placeholder and not (app.spec.is_podless and app.gang.clock):
            effects.append(gangs.start_clock(partition, app, now_ns))
        effects += gangs.after_placing(partition, app, now_ns)
        if app.is_reserving:
            partition.partial = app.id
    elif app.state is ApplicationState.ACCEPTED:
        effects += lifecycle.run(partition, app, now_ns)
    return effects


def _use_hold(partition: Partition, app: Application, key: AllocationKey, node: NodeId) -> bool:
    """What was held for an ask that gets its place is free again, or in its use; whether anything was."""
    hold = partition.reservations.by_ask.get((app.id, key))
    if hold is not None:
        holds.unreserve(partition, hold.ask, used=hold.node == node)
    return hold is not None


def run_clock(partition: Partition, app: Application, allocation: Allocation, now_ns: int) -> ClockSet:
    """The clock of an allocation's run time (semantics 2)."""
    at_ns = now_ns + allocation.spec.timeout_ns
    key = AllocationKey(allocation.id)
    return lifecycle.set_clock(partition, app, ClockKind.ALLOCATION_RUN, app.sequence, at_ns, key)


def _swap(partition: Partition, app: Application, decision: Swap, now_ns: int) -> list[Effect]:
    ask = app.asks.get(decision.ask)
    placeholder = app.allocations.get(decision.placeholder)
    if ask is None or ask.swap is not None or placeholder is None or placeholder.releasing is not None:
        raise BrokenDecision("swap", "the ask or its placeholder is not free any more")
    if not placeholder.spec.resources.covers(ask.spec.resources):
        raise BrokenDecision("swap", f"ask {ask.spec.key} is larger than its placeholder")
    _check_volumes(partition, decision.volumes)
    if not decision.same_node and not partition.nodes.available(decision.node).covers(ask.spec.resources):
        raise BrokenDecision("swap", f"node {decision.node} has no room")
    if placeholder.spec.podless:
        return _take_over(partition, app, placeholder, ask, decision, now_ns)
    if not decision.same_node:
        ledger.hold(partition, app, ask, decision.node)
    ledger.park(partition, app, ask, decision)
    ledger.assume(partition, ask.spec, decision.node, dict(decision.volumes))
    ledger.mark_releasing(app, placeholder, Termination.PLACEHOLDER_REPLACED)
    placeholder.successor = ask.spec.key
    ask.clock = partition.next_number()
    at_ns = now_ns + partition.timing.release_timeout_ns
    release = Release(
        partition.id, app.id, placeholder.spec.key, placeholder.id, Termination.PLACEHOLDER_REPLACED, ask.spec.key
    )
    return [
        AllocationAnswer(partition.rm, released=(release,)),
        lifecycle.set_clock(partition, app, ClockKind.RELEASE, ask.clock, at_ns, ask.spec.key),
        *say_found(partition, app, ask, SchedulingState.RESERVED, decision.node),
    ]


def _take_over(
    partition: Partition, app: Application, placeholder: Allocation, ask: Ask, swap: Swap, now_ns: int
) -> list[Effect]:
    """A place without a pod is the real ask's at once: nobody has to go first (semantics 16)."""
    told = say_found(partition, app, ask, SchedulingState.SCHEDULED, swap.node)
    holds.unreserve(partition, (app.id, ask.spec.key))
    app.gang.groups[placeholder.spec.group].replaced += 1
    allocation = Allocation(ask.spec, ledger.next_id(app, ask), swap.node, now_ns, replaced_placeholder=True)
    ledger.book(partition, app, allocation)
    volumes = ledger.assume(partition, ask.spec, swap.node, dict(swap.volumes))
    notes.places_came(partition, app, (allocation,), asked=True)
    app.mark_releasing(placeholder, Termination.PLACEHOLDER_REPLACED)
    ledger.hand_over(partition, app, placeholder, allocation, now_ns)
    ledger.count_pending(app, ask.spec.resources, -1)
    ledger.count_made(app, ask)
    ledger.note_waiting(partition, app)
    clocks = [run_clock(partition, app, allocation, now_ns)] if ask.spec.timeout_ns else []
    new = NewAllocation(ask.spec, allocation.id, allocation.node, volumes)
    return [AllocationAnswer(partition.rm, new=(new,)), *clocks, *told]


def say_found(
    partition: Partition, app: Application, ask: Ask, state: SchedulingState, node: NodeId
) -> list[SchedulingStateChanged]:
    """An ask that was told "no" before has its place now, or one that is held for it (semantics 6)."""
    if ask.said is None:
        return []
    ask.said = None
    text = "all its places are held" if ask.spec.podless else f"on node {node}"
    return [SchedulingStateChanged(partition.rm, app.id, ask.spec.voice, state, text)]


def confirm_swap(
    partition: Partition, app: Application, placeholder: Allocation, ask: Ask, now_ns: int
) -> list[Effect]:
    """The placeholder is gone: one update of application, queue, user and node (seed 000, "Scheduler logic")."""
    swap = ask.swap
    if swap is None:
        raise BrokenDecision("swap", "the ask is not parked")
    app.gang.groups[placeholder.spec.group].replaced += 1
    allocation = Allocation(ask.spec, ledger.next_id(app, ask), swap.node, now_ns, replaced_placeholder=True)
    # In this order: what is assumed of its claims is forgotten where nobody has a place.
    ledger.book(partition, app, allocation)
    ledger.arrive(partition, app, ask, swap)
    ledger.count_in(partition, app, ask.spec, 1)
    notes.places_came(partition, app, (allocation,), asked=True)
    # Only now: between the two a queue over a lowered maximum would look as if it were within it.
    ledger.drop(partition, app, placeholder, now_ns)
    clocks = [run_clock(partition, app, allocation, now_ns)] if ask.spec.timeout_ns else []
    new = NewAllocation(ask.spec, allocation.id, allocation.node, ledger.assumed(partition, ask.spec))
    ledger.count_pending(app, ask.spec.resources, -1)
    ledger.count_made(app, ask)
    if ask.left:
        ledger.wait_again(partition, app, ask, as_usual=False)
    return [AllocationAnswer(partition.rm, new=(new,)), *clocks]


def _evict(partition: Partition, app: Application, decision: Eviction, now_ns: int) -> list[Effect]:
    ask = app.asks.get(decision.ask)
    placeholder = app.allocations.get(decision.placeholder)
    if ask is None or ask.swap is not None or placeholder is None or placeholder.releasing is not None:
        raise BrokenDecision("eviction", "the ask or its placeholder is not free any more")
    released = taking_back.time_out(partition, app, [placeholder], decision.message, now_ns)
    ledger.wait_again(partition, app, ask, as_usual=True)
    effects: list[Effect] = [AllocationAnswer(partition.rm, released=released)] if released else []
    return [*effects, EventNoted(partition.rm, Notice.REQUEST, ask.spec.key, decision.message, app.id)]
