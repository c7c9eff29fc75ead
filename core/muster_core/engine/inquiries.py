"""A resource manager that declared it is asked before its pods get places, or make others go (seed 003, semantics 24).

The plan does not wait: what it decided is parked under the number of a
question, its application is not tried meanwhile, others are. The answer comes
as an event; what may be is committed if filters still allow it, with the checks
of every commit, for the room may be gone. What may not be is kept in mind for a while, so that the
next plan looks elsewhere; a gang that is to have all its places has none.
A question that is not answered in time is asked anew.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Final

from muster_core.engine.commit import commit
from muster_core.model.decisions import Placement, Preemption, Swap
from muster_core.model.effects import ClockSet, PlacesAsked, VictimsAsked
from muster_core.model.errors import BrokenDecision
from muster_core.model.events import Clock, ClockKind, PlacesJudged, VictimsJudged
from muster_core.model.ids import AllocationKey, ApplicationId, NodeId, RmId
from muster_core.model.notes import Notice
from muster_core.plan import judging
from muster_core.plan.judging import Place
from muster_core.plan.outline import shape_of
from muster_core.world.inquiries import Inquiry
from muster_core.world.world import Partition, World

#: What a resource manager refused is asked again after this time: it does not say when its mind changes.
REFUSED_NS: Final = 10 * 1_000_000_000
#: A question without an answer counts as lost after this time.
LOST_NS: Final = 30 * 1_000_000_000
#: Why, where it gave no reason.
REFUSED: Final = "node(s) were refused by the resource manager"
#: Characters of a reason that are kept.
_REASON_LIMIT: Final = 256

Confirm = Callable[[Partition, Preemption, int], bool]


def declare(world: World, rm: RmId, *, places: bool, victims: bool) -> None:
    """From now on it is asked, or (both false) not any more; what is open stays so."""
    manager = world.managers.get(rm)
    if manager is not None:
        manager.inquiries.places, manager.inquiries.victims = places, victims


def ask_places(partition: Partition, app: ApplicationId, decisions: Sequence[Placement | Swap], now_ns: int) -> None:
    """Park them, and ask about all their places at once."""
    inquiry = Inquiry(partition.id, app, tuple(decisions))
    number = partition.inquiries.add(inquiry)
    _set_clock(partition, app, number, now_ns)
    partition.outbox.put(PlacesAsked(partition.rm, number, tuple(_places(inquiry))))


def ask_victims(partition: Partition, decision: Preemption, now_ns: int) -> None:
    """Park it, and ask for each of its places whether it would do with the victims on its node gone."""
    inquiry = Inquiry(partition.id, decision.application, (decision,))
    for place, (key, node) in enumerate(decision.places):
        number = partition.inquiries.add(inquiry, place)
        _set_clock(partition, decision.application, number, now_ns)
        victims = tuple(
            allocation.spec.key
            for app, identity in decision.victims
            if (allocation := partition.applications[app].allocations[identity]).node == node
            and not allocation.spec.podless
        )
        partition.outbox.put(VictimsAsked(partition.rm, number, key, node, victims))


def hear_places(world: World, event: PlacesJudged, now_ns: int) -> None:
    """Commit what may be, keep in mind what may not."""
    found = _close(world, event.rm, event.number)
    if found is None:
        world.ignore("answer to a question that is not open")
        return
    partition, inquiry = found
    asked = list(_places(inquiry))
    # Too few verdicts are no verdict: what was not judged is not done.
    verdicts = [*event.refusals, *([REFUSED] * (len(asked) - len(event.refusals)))]
    refused = {place: why for place, why in zip(asked, verdicts, strict=False) if why}
    app = partition.applications.get(inquiry.application)
    is_whole = app is not None and app.is_reserving and app.spec.is_whole
    for (key, node), why in refused.items():
        _refuse(partition, inquiry.application, key, node, why, now_ns)
    for decision in inquiry.decisions:
        if not isinstance(decision, Preemption) and not (refused and is_whole):
            _commit(partition, decision, refused, now_ns, is_whole=is_whole)
    _wake(partition, inquiry.application)


def hear_victims(world: World, event: VictimsJudged, confirm: Confirm, now_ns: int) -> None:
    """Once all places of a preemption are found good, it is planned again and carried
    out if it still holds; with the first that is not, it is dropped."""
    found = _close(world, event.rm, event.number)
    if found is None:
        world.ignore("answer to a question that is not open")
        return
    partition, inquiry = found
    place = inquiry.questions.pop(event.number)
    [decision] = inquiry.decisions
    if not isinstance(decision, Preemption):
        return
    if not event.success:
        for number in list(inquiry.questions):
            partition.inquiries.close(number)
        key, node = decision.places[place]
        _refuse(partition, inquiry.application, key, node, REFUSED, now_ns)
    elif inquiry.questions:
        return
    elif not confirm(partition, decision, now_ns):
        _note(partition, inquiry, "the preemption was dropped: nodes, queues or victims changed before the answer")
    _wake(partition, inquiry.application)


def lose(partition: Partition, clock: Clock) -> None:
    """No answer came in time: the plan is made anew."""
    inquiry = partition.inquiries.close(clock.generation)
    if inquiry is None:
        return
    for number in [number for number in inquiry.questions if number != clock.generation]:
        partition.inquiries.close(number)
    _note(partition, inquiry, f"the resource manager did not answer within {LOST_NS // 1_000_000_000} s")
    _wake(partition, inquiry.application)


def forget(partition: Partition) -> None:
    """What was refused may be asked again: anybody may find a place anywhere."""
    if partition.nodes.refused:
        partition.nodes.refused.clear()
        partition.nodes.epoch += 1


def _places(inquiry: Inquiry) -> Iterator[Place]:
    for decision in inquiry.decisions:
        if isinstance(decision, Swap):
            yield decision.ask, decision.node
        else:
            yield from decision.places


def _commit(
    partition: Partition, decision: Placement | Swap, refused: Container[Place], now_ns: int, *, is_whole: bool
) -> None:
    """What is left of it without the refused places, and those that hold no longer; `is_whole`: all or nothing."""
    app = partition.applications.get(decision.application)
    if app is None:
        return
    left: Placement | Swap = decision
    if isinstance(decision, Swap):
        if (decision.ask, decision.node) in refused or not judging.holds(partition.nodes, app, decision):
            return
    else:
        places = tuple(place for place in decision.places if place not in refused)
        places = judging.left_of(partition.nodes, app, replace(decision, places=places))
        if not places or (is_whole and places != decision.places):
            return
        left = replace(decision, places=places)
    with suppress(BrokenDecision):  # the room was given away meanwhile: it is planned anew
        commit(partition, left, now_ns)


def _refuse(partition: Partition, app: ApplicationId, key: AllocationKey, node: NodeId, why: str, now_ns: int) -> None:
    """The class of the ask keeps off the node for a while; what it is asked about is its facts, not its name."""
    owner = partition.applications.get(app)
    ask = owner.asks.get(key) if owner is not None else None
    if ask is None:
        return
    is_first = not partition.nodes.refused
    partition.nodes.refused.setdefault(shape_of(ask.kind), {})[node] = why[:_REASON_LIMIT]
    if is_first:
        clock = Clock(ClockKind.REFUSED, partition.rm, partition.id, app, AllocationKey(""), 0)
        partition.outbox.put(ClockSet(clock, now_ns + REFUSED_NS))


def _close(world: World, rm: RmId, number: int) -> tuple[Partition, Inquiry] | None:
    manager = world.managers.get(rm)
    inquiry = manager.inquiries.close(number) if manager is not None else None
    partition = world.partitions.get(inquiry.partition) if inquiry is not None else None
    return None if inquiry is None or partition is None else (partition, inquiry)


def _wake(partition: Partition, name: ApplicationId) -> None:
    app = partition.applications.get(name)
    if app is not None:
        partition.stir_one(app)


def _note(partition: Partition, inquiry: Inquiry, message: str) -> None:
    partition.note(Notice.APPLICATION, inquiry.application, message=message)


def _set_clock(partition: Partition, app: ApplicationId, number: int, now_ns: int) -> None:
    clock = Clock(ClockKind.INQUIRY, partition.rm, partition.id, app, AllocationKey(""), number)
    partition.outbox.put(ClockSet(clock, now_ns + LOST_NS))
