"""Gang life cycle: reservation, timeout, completion and virtual placeholders.

A gang reserves resources for all members before its pods run. The plans are in `gangs`; this module writes what they
decide.
"""

from __future__ import annotations

from dataclasses import replace

from muster_core.model.effects import AskRelease, SchedulingState, SchedulingStateChanged
from muster_core.model.events import TimerKind
from muster_core.model.ids import (
    ApplicationId,
    NodeId,
    TaskGroup,
    Termination,
    virtual_placeholder_key,
    virtual_slot_key,
)
from muster_core.model.records import Detail, Notice
from muster_core.model.resources import NOTHING
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, GangPlacement, GangStyle, Member
from muster_core.model.states import ApplicationEvent, ApplicationState
from muster_core.scheduling import ledger, lifecycle, requeue, selectors, victims
from muster_core.state.applications import Allocation, Application, Ask, lacking
from muster_core.state.request_classes import class_of
from muster_core.state.scheduler_state import Partition, ResponseBuilder

#: Why an application is refused that leaves the core to guess what it is to hold.
UNKNOWN_MEMBERS = "gangPlacement is Direct, but no task groups were sent: the core cannot hold places for them"


def sum_member_asks(spec: ApplicationSpec) -> ApplicationSpec:
    """With a placeholderAsk that is what its members ask for in all, for that is what will be held."""
    if not spec.uses_virtual_placeholders or not spec.members:
        return spec
    total = sum((member.resources.times(member.count) for member in spec.members), NOTHING)
    return replace(spec, placeholder_ask=total)


def direct_gang_refusal(spec: ApplicationSpec) -> str:
    """Why places cannot be held for its members; empty = they can."""
    if not spec.uses_virtual_placeholders:
        return ""
    return "" if spec.members else UNKNOWN_MEMBERS


def ask_virtual_placeholders(partition: Partition, app: Application, now_ns: int) -> None:
    """Ask for the places of all its members."""
    tags = partition.nodes.pods_on_nodes.tags
    for member in app.spec.members:
        spec = _ask_for(app.spec, member)
        selectors.read(partition, spec)
        kind = class_of(spec, as_usual=True, tags=tags.project(spec.tags))
        asked_ns = min(app.submitted_ns, now_ns)
        ledger.add_ask(partition, app, Ask(spec, kind, spec.max_allocations, asked_ns=asked_ns))
    lifecycle.accept(partition, app, now_ns)


def _ask_for(spec: ApplicationSpec, member: Member) -> AskSpec:
    return AskSpec(
        spec.partition,
        spec.id,
        virtual_placeholder_key(spec.id, member.group),
        member.resources,
        constraints=member.constraints,
        group=member.group,
        placeholder=True,
        is_virtual=True,
        priority=member.priority,
        max_allocations=member.count,
        namespace=spec.namespace,
        tags=dict(member.tags),
        facts=member.facts,
        allow_preempt_self=member.allow_preempt_self,
        allow_preempt_other=member.allow_preempt_other,
        created_ns=spec.created_ns,
    )


def release_virtual_placeholders(partition: Partition, app: Application, told: AllocationSpec, now_ns: int) -> None:
    """A pod of a task group has a node already without an ask of its own: one slot less is requested, or reserved.

    A placeholder's pod stands for one that is asked for; one that is held is for the members.
    """
    if not app.spec.uses_virtual_placeholders or not told.group:
        return
    asked = _asked(app, told.group)
    if asked is not None:
        app.gang.groups[told.group].replaced += not told.placeholder
        app.gang.groups[told.group].count -= told.placeholder  # the one with the pod is counted
        _want_less(partition, app, asked)
        return
    held = None if told.placeholder else _held(app, told.group, told.node)
    if held is not None:
        app.gang.groups[told.group].replaced += 1
        app.mark_releasing(held, Termination.PLACEHOLDER_REPLACED, now_ns)
        ledger.drop(partition, app, held, now_ns)


def returning_placeholders(partition: Partition) -> list[ApplicationId]:
    """Gangs of whom some members are bound and others have their places no more, for the core started again."""
    apps = [app for app in partition.applications.values() if app.spec.uses_virtual_placeholders and app.is_reserving]
    found = [app for app in apps if app.state is ApplicationState.RUNNING]
    return [app.id for app in sorted(found, key=lambda app: (app.submitted_ns, app.sequence))]


def split_virtual_placeholders(partition: Partition, app: Application) -> None:
    """Ask for each place alone: preemption holds room for one place of an ask."""
    for asked in [ask for ask in app.asks.values() if ask.spec.is_virtual and ask.left > 1]:
        spec = asked.spec
        for ordinal in range(asked.left):
            one = replace(spec, key=virtual_slot_key(spec.key, ordinal), max_allocations=1)
            ledger.add_ask(partition, app, replace(asked, spec=one, left=1, made=0, attempts=None))
        app.gang.groups[spec.group].count -= asked.left
        ledger.remove_ask(partition, app, asked, Detail.APP_REQUEST)


def _asked(app: Application, group: TaskGroup) -> Ask | None:
    """The last ask for places of the group; None = all are held, or wanted no longer."""
    for kind, keys in app.waiting.items():
        if kind.placeholder and kind.group == group:
            found = app.asks[next(reversed(keys))]
            return found if found.spec.is_virtual else None
    return None


def _want_less(partition: Partition, app: Application, asked: Ask) -> None:
    if asked.left == 1:
        ledger.remove_ask(partition, app, asked, Detail.REQUEST_ALLOC)
        # Where each place is asked for alone, others of the group may still be waited for.
        if _asked(app, asked.spec.group) is None:
            report_withdrawn(partition, app, asked)
    else:
        asked.left -= 1
        ledger.count_pending(partition, app, asked.spec.resources, -1)
        partition.requeue_one(app)
    if app.gang.quota_reservation:
        left = lacking(app)
        ledger.set_quota_reservation(partition, app, left, granted=app.gang.granted and bool(left))


def _held(app: Application, group: TaskGroup, node: NodeId) -> Allocation | None:
    """The slot that a pod on this node most likely has: one there, else the newest."""
    places = [app.allocations[identity] for identity in app.gang.live.get(group, ())]
    is_virtual = [place for place in places if place.spec.is_virtual]
    return next((place for place in is_virtual if place.node == node), is_virtual[-1] if is_virtual else None)


def report_withdrawn(partition: Partition, app: Application, asked: Ask) -> None:
    """If the reason of the gang was reported, report that it waits for nothing any more."""
    if asked.said is not None:
        text = "places are held for it no longer, nor waited for"
        said = SchedulingStateChanged(partition.rm, app.id, asked.spec.report_key, SchedulingState.SCHEDULED, text)
        partition.outbox.state(said)


_EARLY = (ApplicationState.NEW, ApplicationState.ACCEPTED)


def start_timer(partition: Partition, app: Application, since_ns: int, *, is_early: bool = False) -> None:
    """Start the placeholder timer, or continue it after a pause (semantics 10). `is_early`: nothing is reserved yet."""
    gang = app.gang
    number = partition.next_number()
    timing = partition.timing
    span_ns = min(app.spec.timeout_ns or timing.placeholder_timeout_ns, timing.max_placeholder_timeout_ns)
    at_ns = since_ns + max(span_ns - gang.elapsed_ns, 0)
    lifecycle.set_clock(partition, app, TimerKind.PLACEHOLDER, number, at_ns)
    gang.clock, gang.since_ns, gang.is_early, gang.is_paused = number, since_ns, is_early, False


def note_reservation(partition: Partition, app: Application, now_ns: int) -> None:
    """The gang holds something now: its timer runs from the first time on, and never starts from zero again."""
    if not app.gang.clock or app.gang.is_early:
        start_timer(partition, app, now_ns)


def pause_timer(app: Application, now_ns: int) -> None:
    """Pause the timer: other gangs or a preemption took all reservations of the gang."""
    if app.gang.clock:
        app.gang.elapsed_ns += 0 if app.gang.is_early else now_ns - app.gang.since_ns
        _stop_timer(app)
        app.gang.is_paused = True


def note_impossible(partition: Partition, app: Application, why: str, now_ns: int) -> None:
    """Whether queues and limits can ever hold the gang. While they cannot it runs into its timeout, which is reported
    once; a Direct gang with members that run continues without the rest.
    """
    gang = app.gang
    if why == gang.impossible:
        return
    gang.impossible = why
    if not why:
        if gang.is_early:
            _stop_timer(app)
        await_asks(partition, app, now_ns)
        return
    partition.note(Notice.APPLICATION, app.id, message=why)
    if app.state not in _EARLY:
        finish(partition, app)
        call_off(partition, app, why)
        return
    requeue.close(partition, app)
    ledger.clear_quota_reservation(partition, app)
    if not gang.clock:
        start_timer(partition, app, now_ns, is_early=True)


def _stop_timer(app: Application) -> None:
    app.gang.clock = 0
    app.gang.is_early = False


def after_placing(partition: Partition, app: Application, now_ns: int) -> None:
    """Placeholders were added: shrink the pledge, and run if that was the last of them."""
    if not app.is_reserving:
        return
    if app.gang.quota_reservation:
        ledger.shrink_quota_reservation(partition, app, lacking(app))
    if is_reserved(app):
        finish(partition, app)
        # A Direct gang may run already: a member that has its node was told of.
        if app.state is ApplicationState.ACCEPTED:
            lifecycle.run(partition, app, now_ns)


def is_reserved(app: Application) -> bool:
    """No placeholder ask is pending and the live placeholders cover the placeholderAsk (semantics 9)."""
    return not app.placeholder_asks and not lacking(app)


def finish(partition: Partition, app: Application) -> None:
    """The reservation is over, however it ended: nothing is promised or held back any more."""
    app.gang.over = True
    ledger.clear_quota_reservation(partition, app)
    requeue.leave(partition, app)
    partition.requeue_one(app)


def give_up(partition: Partition, app: Application, now_ns: int, why: str) -> None:
    """The style's outcome of a gang that did not get its places in time (semantics 8).

    Soft: Resuming, then scheduled as usual. Hard: Failing, then Failed.
    """
    if app.spec.style is GangStyle.HARD:
        fail(partition, app, now_ns, why)
        return
    finish(partition, app)
    if app.state is ApplicationState.NEW:
        lifecycle.change_state(partition, app, ApplicationEvent.ACCEPT, now_ns)
    take_back_placeholders(partition, app, why, now_ns)
    lifecycle.change_state(partition, app, ApplicationEvent.RESUME, now_ns, why)
    lifecycle.settle(partition, app, now_ns)


def fail(partition: Partition, app: Application, now_ns: int, why: str) -> None:
    """Failing: everything the application has or wants is taken back (TIMEOUT)."""
    finish(partition, app)
    take_back_everything(partition, app, why, now_ns)
    lifecycle.change_state(partition, app, ApplicationEvent.FAIL, now_ns, why)
    lifecycle.settle(partition, app, now_ns)


def take_back_everything(partition: Partition, app: Application, why: str, now_ns: int) -> None:
    """Release all allocations and asks, as one answer (TIMEOUT); a release under way is not sent again."""
    for key in app.asks:
        ledger.unlink(partition, app, key)
    taken = [allocation for allocation in app.allocations.values() if allocation.releasing is None]
    answer = partition.outbox.answer(partition.rm)
    victims.release_on_timeout(partition, app, taken, why, now_ns, answer)
    _drop_asks(partition, app, why, answer, placeholders_only=False)


def take_back_placeholders(partition: Partition, app: Application, why: str, now_ns: int) -> None:
    """Release live placeholders and pending placeholder asks, as one answer (TIMEOUT).

    Placeholders whose swap is on its way are left to it.
    """
    if app.is_reserving:
        finish(partition, app)
    live = [app.allocations[identity] for group in app.gang.live.values() for identity in group]
    answer = partition.outbox.answer(partition.rm)
    victims.release_on_timeout(partition, app, live, why, now_ns, answer)
    _drop_asks(partition, app, why, answer, placeholders_only=True)


def call_off(partition: Partition, app: Application, why: str) -> None:
    """Take pending placeholder asks back (TIMEOUT); placeholders that are there stay."""
    _drop_asks(partition, app, why, partition.outbox.answer(partition.rm), placeholders_only=True)


def time_out(partition: Partition, app: Application, now_ns: int) -> None:
    """The placeholder clock rang: the outcome depends on how far the application is (semantics 8)."""
    if app.state in _EARLY:
        if app.gang.is_early and not app.gang.impossible and _all_asked(app):
            _stop_timer(app)  # it was set for members that were not asked for; they are now
            return
        why = app.gang.impossible or "the placeholder time-out ended before the gang had all its places"
        give_up(partition, app, now_ns, why)
    elif app.state in (ApplicationState.RUNNING, ApplicationState.COMPLETING):
        take_back_placeholders(partition, app, "left-over placeholder", now_ns)
        if not app.gang.allocated:  # they went by themselves, and real pods never came (semantics 13)
            lifecycle.complete_if_done(partition, app, now_ns)


def lost_placeholder(partition: Partition, app: Application, was: Termination | None, now_ns: int) -> None:
    """A placeholder ended without a replacement: what that means for timers and state."""
    if app.gang.allocated:
        return
    if app.is_reserving:
        if app.state in _EARLY and was is Termination.PREEMPTED_BY_SCHEDULER:
            pause_timer(app, now_ns)
        stop_claiming(partition, app)
        await_asks(partition, app, now_ns)
    elif was is Termination.TIMEOUT:
        lifecycle.complete_if_done(partition, app, now_ns)


def stop_claiming(partition: Partition, app: Application) -> None:
    """A reserving gang that asks for nothing needs nothing that was taken over for it, and without any allocation no
    quota reservation either.
    """
    if not app.placeholder_asks:
        requeue.close(partition, app)
    if app.gang.allocated:
        return
    if not app.placeholder_asks:
        ledger.clear_quota_reservation(partition, app)
    if not app.gang.quota_reservation:
        partition.contention.forget(app.id)


def await_asks(partition: Partition, app: Application, now_ns: int) -> None:
    """An Atomic gang holds nothing before all its members were asked for: if some never are, it runs into the clock
    all the same (semantics 9). Where all were by then, the clock means nothing.
    """
    is_atomic = app.spec.gang_placement is GangPlacement.ATOMIC and app.is_reserving
    if not is_atomic or app.gang.allocated or app.gang.clock or not app.placeholder_asks:
        return
    start_timer(partition, app, now_ns, is_early=True)


def await_anew(partition: Partition, app: Application, now_ns: int) -> None:
    """Members that were called off may be asked for again: the time for that begins now."""
    if app.gang.is_early and not app.gang.impossible:
        _stop_timer(app)
    await_asks(partition, app, now_ns)


def _all_asked(app: Application) -> bool:
    """Whether nothing of the gang is missing but room; one that asks for nothing waits for its resource manager."""
    asked = sum((ask.spec.resources.times(ask.left) for ask in app.asks.values() if ask.spec.placeholder), NOTHING)
    return not asked or asked.covers(lacking(app))


def _drop_asks(
    partition: Partition, app: Application, why: str, answer: ResponseBuilder, *, placeholders_only: bool
) -> None:
    gone = [ask for ask in app.asks.values() if ask.spec.placeholder or not placeholders_only]
    for ask in gone:
        if ask.spec.placeholder:
            app.gang.groups[ask.spec.group].timed_out += ask.left
        ledger.remove_ask(partition, app, ask, Detail.REQUEST_TIMEOUT)
        if ask.spec.is_virtual:
            report_withdrawn(partition, app, ask)
        else:
            answer.released_asks.append(AskRelease(partition.id, app.id, ask.spec.key, Termination.TIMEOUT, why))
