"""What becomes of a gang's reservation: reserved, timed out, given up, left over.

Source: seed 000, "Application completion", "Cleanup"; semantics 8-13.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.engine import growth, ledger, lifecycle, podless, taking_back
from muster_core.model.effects import AllocationAnswer, AskRelease, ClockSet, Effect, Release
from muster_core.model.events import ClockKind
from muster_core.model.notes import Detail
from muster_core.model.release import Termination
from muster_core.model.resources import NOTHING
from muster_core.model.specs import GangPlacement, GangStyle
from muster_core.model.states import ApplicationEvent, ApplicationState
from muster_core.world.applications import Application, lacking
from muster_core.world.world import Partition

_EARLY = (ApplicationState.NEW, ApplicationState.ACCEPTED)


def start_clock(partition: Partition, app: Application, since_ns: int) -> ClockSet:
    """The placeholder time-out, from the moment the first placeholder got its node (semantics 10)."""
    app.gang.clock = partition.next_number()
    app.gang.since_ns = since_ns
    span_ns = app.spec.timeout_ns or partition.timing.placeholder_timeout_ns
    return lifecycle.set_clock(partition, app, ClockKind.PLACEHOLDER, app.gang.clock, since_ns + span_ns)


def after_placing(partition: Partition, app: Application, now_ns: int) -> list[Effect]:
    """Placeholders were added: shrink the pledge, and run if that was the last of them."""
    if not app.is_reserving:
        return []
    if app.gang.pledge:
        ledger.shrink_pledge(partition, app, lacking(app))
    if is_reserved(app):
        finish(partition, app)
        # A Direct gang may run already: a member that has its node was told of.
        return lifecycle.run(partition, app, now_ns) if app.state is ApplicationState.ACCEPTED else []
    return []


def is_reserved(app: Application) -> bool:
    """No placeholder ask is pending and the live placeholders cover the placeholderAsk (semantics 9)."""
    return not app.placeholder_asks and not lacking(app)


def finish(partition: Partition, app: Application) -> None:
    """The reservation is over, however it ended: nothing is promised or held back any more."""
    app.gang.over = True
    ledger.clear_pledge(partition, app)
    _free_slot(partition, app)
    partition.stir_one(app)


def give_up(partition: Partition, app: Application, now_ns: int, why: str) -> list[Effect]:
    """The style's outcome of a gang that did not get its places in time (semantics 8).

    Soft: Resuming, then scheduled as usual. Hard: Failing, then Failed.
    """
    if app.spec.style is GangStyle.HARD:
        return fail(partition, app, now_ns, why)
    finish(partition, app)
    effects: list[Effect] = []
    if app.state is ApplicationState.NEW:
        effects.append(lifecycle.move(partition, app, ApplicationEvent.ACCEPT, now_ns))
    answer = take_back_placeholders(partition, app, why, now_ns)
    effects.append(lifecycle.move(partition, app, ApplicationEvent.RESUME, now_ns, why))
    return [*answer, *effects, *lifecycle.settle(partition, app, now_ns)]


def fail(partition: Partition, app: Application, now_ns: int, why: str) -> list[Effect]:
    """Failing: everything the application has or wants is taken back (TIMEOUT)."""
    finish(partition, app)
    answer = take_back_everything(partition, app, why, now_ns)
    moved = lifecycle.move(partition, app, ApplicationEvent.FAIL, now_ns, why)
    return [*answer, moved, *lifecycle.settle(partition, app, now_ns)]


def make_impossible(partition: Partition, app: Application, now_ns: int, why: str) -> list[Effect]:
    """No moment can give the gang its places any more: it fails; one that runs already goes on without (Direct)."""
    if app.state in _EARLY:
        return fail(partition, app, now_ns, why)
    finish(partition, app)
    return call_off(partition, app, why)


def take_back_everything(partition: Partition, app: Application, why: str, now_ns: int) -> list[Effect]:
    """Release all allocations and asks, as one answer (TIMEOUT); what was told to go already is not told again."""
    for key in app.asks:
        ledger.unlink(partition, app, key)
    taken = [allocation for allocation in app.allocations.values() if allocation.releasing is None]
    releases = taking_back.time_out(partition, app, taken, why, now_ns)
    return _answer(partition, releases, _drop_asks(partition, app, why, placeholders_only=False))


def take_back_placeholders(partition: Partition, app: Application, why: str, now_ns: int) -> list[Effect]:
    """Release live placeholders and pending placeholder asks, as one answer (TIMEOUT).

    Placeholders whose swap is on its way are left to it.
    """
    if app.is_reserving:
        finish(partition, app)
    live = [app.allocations[identity] for group in app.gang.live.values() for identity in group]
    releases = taking_back.time_out(partition, app, live, why, now_ns)
    return _answer(partition, releases, _drop_asks(partition, app, why, placeholders_only=True))


def call_off(partition: Partition, app: Application, why: str) -> list[Effect]:
    """Take pending placeholder asks back (TIMEOUT); placeholders that are there stay."""
    return _answer(partition, (), _drop_asks(partition, app, why, placeholders_only=True))


def time_out(partition: Partition, app: Application, now_ns: int) -> list[Effect]:
    """The placeholder clock rang: the outcome depends on how far the application is (semantics 8)."""
    if app.state in _EARLY:
        if not app.gang.allocated and _all_asked(app):
            app.gang.clock = 0  # it was set for members that were not asked for; they are now
            return []
        return give_up(partition, app, now_ns, "the placeholder time-out ended before the gang had all its places")
    if app.state in (ApplicationState.RUNNING, ApplicationState.COMPLETING):
        answer = take_back_placeholders(partition, app, "left-over placeholder", now_ns)
        if app.gang.allocated:
            return answer
        # They went by themselves, and real pods never came (semantics 13).
        return answer + lifecycle.complete_if_done(partition, app, now_ns)
    return []


def lost_placeholder(partition: Partition, app: Application, was: Termination | None, now_ns: int) -> list[Effect]:
    """A placeholder is gone without a swap: what that means for clocks and state."""
    if app.gang.allocated:
        return []
    if app.is_reserving:
        if app.state in _EARLY:
            app.gang.clock = 0  # nothing is held any more: the clock starts anew with the next one
        stop_claiming(partition, app)
        return await_asks(partition, app, now_ns)
    if was is Termination.TIMEOUT:
        return lifecycle.complete_if_done(partition, app, now_ns)
    return []


def stop_claiming(partition: Partition, app: Application) -> None:
    """A reserving gang that holds nothing needs no partial slot, and no promise if it does not ask either."""
    if app.gang.allocated:
        return
    _free_slot(partition, app)
    if not app.placeholder_asks:
        ledger.clear_pledge(partition, app)


def _free_slot(partition: Partition, app: Application) -> None:
    if partition.partial == app.id:
        growth.slot_freed(partition)


def await_asks(partition: Partition, app: Application, now_ns: int) -> list[Effect]:
    """An Atomic gang holds nothing before all its members were asked for: if some never are, it runs into the clock
    all the same (semantics 9). Where all were by then, the clock means nothing.
    """
    is_atomic = app.spec.gang_placement is GangPlacement.ATOMIC and app.is_reserving
    if not is_atomic or app.gang.allocated or app.gang.clock or not app.placeholder_asks:
        return []
    return [start_clock(partition, app, now_ns)]


def _all_asked(app: Application) -> bool:
    """Whether nothing of the gang is missing but room; one that asks for nothing waits for its resource manager."""
    asked = sum((ask.spec.resources.times(ask.left) for ask in app.asks.values() if ask.spec.placeholder), NOTHING)
    return not asked or asked.covers(lacking(app))


def _drop_asks(partition: Partition, app: Application, why: str, *, placeholders_only: bool) -> list[Effect]:
    gone = [ask for ask in app.asks.values() if ask.spec.placeholder or not placeholders_only]
    effects: list[Effect] = []
    told: list[AskRelease] = []
    for ask in gone:
        if ask.spec.placeholder:
            app.gang.groups[ask.spec.group].timed_out += ask.left
        ledger.remove_ask(partition, app, ask, Detail.REQUEST_TIMEOUT)
        if ask.spec.podless:
            effects += [said for said in podless.withdrawn(partition, app, ask) if said not in effects[-1:]]
        else:
            told.append(AskRelease(partition.id, app.id, ask.spec.key, Termination.TIMEOUT, why))
    return [AllocationAnswer(partition.rm, released_asks=tuple(told)), *effects] if told else effects


def _answer(partition: Partition, releases: tuple[Release, ...], dropped: list[Effect]) -> list[Effect]:
    """One answer for both: a message never tears a decision."""
    if not releases:
        return dropped
    match dropped:
        case [AllocationAnswer() as asks, *rest]:
            return [replace(asks, released=releases), *rest]
        case _:
            return [AllocationAnswer(partition.rm, released=releases), *dropped]
