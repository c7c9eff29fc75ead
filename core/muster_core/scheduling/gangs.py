"""Gang life cycle: reservation, timeout, completion and virtual placeholders.

A gang reserves resources for all members before its pods run. `muster_core.gangs` plans the reservation. This module
starts timers, changes states and releases placeholders.

A Direct gang has no placeholder pods. Virtual placeholders, which the core creates itself, hold its reservation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from muster_core.model import messages
from muster_core.model.effects import AskRelease, SchedulingState, SchedulingStateChanged
from muster_core.model.events import TimerKind
from muster_core.model.ids import (
    NO_APPLICATION,
    ApplicationId,
    NodeId,
    TaskGroup,
    Termination,
    virtual_placeholder_key,
    virtual_slot_key,
)
from muster_core.model.records import Detail, Notice
from muster_core.model.resources import NOTHING
from muster_core.model.specs import AllocationSpec, ApplicationSpec, AskSpec, GangStyle, Member
from muster_core.model.states import ApplicationEvent, ApplicationState
from muster_core.scheduling import ledger, lifecycle, repair, requeue, selectors, victims
from muster_core.state.applications import Allocation, Application, Ask, count_slots, lacking
from muster_core.state.request_classes import AskClass, class_of
from muster_core.state.scheduler_state import Partition, ResponseBuilder

#: How long an accepted gang waits for the request of its first member before it is planned.
_FIRST_MEMBER_NS: Final = 1_000_000_000


def sum_member_asks(spec: ApplicationSpec) -> ApplicationSpec:
    """Sets the placeholderAsk of a gang with virtual placeholders to the sum of its members."""
    if not spec.uses_virtual_placeholders or not spec.members:
        return spec
    total = sum((member.resources.times(member.count) for member in spec.members), NOTHING)
    return replace(spec, placeholder_ask=total)


def missing_groups_refusal(spec: ApplicationSpec) -> str:
    """Returns why a gang with virtual placeholders cannot be accepted; empty = it can."""
    if not spec.uses_virtual_placeholders:
        return ""
    return "" if spec.members else messages.no_task_groups(spec.gang_placement)


def ask_virtual_placeholders(partition: Partition, app: Application, now_ns: int) -> None:
    """Creates the placeholder requests of all members."""
    for member in app.spec.members:
        add_virtual_ask(partition, app, virtual_ask(app.spec, member), min(app.submitted_ns, now_ns))
    lifecycle.accept(partition, app, now_ns)
    app.gang.planned_from_ns = now_ns + _FIRST_MEMBER_NS
    partition.set_timer(TimerKind.STARVATION, app.sequence, app.gang.planned_from_ns, app.id)


def awaits_first_member(app: Application, now_ns: int) -> bool:
    """Whether no request of a member has arrived yet, so that the gang is not planned.

    The requests of the present members follow the acceptance of the application. The gang is planned with them, as
    their pods are.
    """
    return not app.had_real and now_ns < app.gang.planned_from_ns


def add_virtual_ask(partition: Partition, app: Application, spec: AskSpec, asked_ns: int) -> None:
    """Adds a request for virtual placeholders."""
    selectors.read(partition, spec)
    kind = class_of(spec, as_usual=True, tags=partition.nodes.pods_on_nodes.tags.project(spec.tags))
    ledger.add_ask(partition, app, Ask(spec, kind, spec.max_allocations, asked_ns))


def virtual_ask(spec: ApplicationSpec, member: Member) -> AskSpec:
    """Returns the request for the virtual placeholders of a task group."""
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
        home=spec.id if requires_domain(spec) else NO_APPLICATION,
    )


def requires_domain(spec: ApplicationSpec) -> bool:
    """Whether all members of the gang must be in one topology domain."""
    return spec.topology is not None and spec.topology.required


def add_slots(partition: Partition, app: Application, kind: AskClass, make: Callable[[], AskSpec], count: int) -> None:
    """Requests `count` more virtual placeholders of this class. `make`: creates their request if there is none yet."""
    known = next((app.asks[key] for key in app.waiting.get(kind, ()) if app.asks[key].spec.is_virtual), None)
    if known is not None and (app.id, known.spec.key) not in partition.reservations.by_ask:
        known.left += count
        count_slots(app, known.spec, count)
        app.has_multiple = True
        app.gang.groups[kind.group].count += count
        partition.node_demand.rise(app, known, count)
        ledger.count_pending(partition, app, known.spec.resources, count)
        return
    spec = make()
    number = partition.next_number()
    add_virtual_ask(
        partition,
        app,
        replace(spec, key=virtual_slot_key(spec.key, number), max_allocations=count),
        app.submitted_ns,
    )


def remove_slots(partition: Partition, app: Application, kind: AskClass, count: int) -> None:
    """Removes `count` requested virtual placeholders of this class, because other ones are requested for them."""
    for key in [key for key in reversed(app.waiting[kind]) if app.asks[key].spec.is_virtual]:
        asked = app.asks[key]
        if asked.left > count:
            _lower(partition, app, asked, count)
            app.gang.groups[kind.group].count -= count
            return
        count -= asked.left
        ledger.remove_ask(partition, app, asked, Detail.APP_REQUEST, repeated=True)
        if not count:
            return


def _lower(partition: Partition, app: Application, asked: Ask, count: int) -> None:
    """Requests `count` fewer allocations."""
    asked.left -= count
    count_slots(app, asked.spec, -count)
    partition.node_demand.lower(app, asked)
    ledger.count_pending(partition, app, asked.spec.resources, -count)


def release_virtual_placeholders(partition: Partition, app: Application, reported: AllocationSpec, now_ns: int) -> bool:
    """Removes one virtual placeholder for a pod that was reported with a node but without a request.

    Returns whether there was one.

    A pending placeholder request is reduced first, else an allocated virtual placeholder is removed. A reported
    placeholder without a bind time has no pod. The resource manager reports it for the slot of a member that it
    releases next, so it replaces only a pending request.
    """
    if not app.spec.uses_virtual_placeholders or not reported.group:
        return False
    asked = last_virtual_ask(app, reported.group)
    if asked is not None:
        app.gang.groups[reported.group].replaced += not reported.placeholder
        app.gang.groups[reported.group].count -= reported.placeholder  # the reported placeholder is counted separately
        drop_virtual_placeholder(partition, app, asked)
        return True
    is_pod = not reported.placeholder or (app.spec.is_auto and reported.allocated_ns > 0 and reported.virtual is None)
    held = _held(app, reported.group, reported.node) if is_pod else None
    if held is not None:
        app.gang.groups[reported.group].replaced += not reported.placeholder
        app.gang.groups[reported.group].count -= reported.placeholder
        app.mark_releasing(held, Termination.PLACEHOLDER_REPLACED, now_ns)
        ledger.drop(partition, app, held, now_ns, replaced=True)
    elif app.spec.is_auto and app.is_reserving and not reported.placeholder:
        app.gang.surplus[reported.group] = app.gang.surplus.get(reported.group, 0) + 1
    return held is not None


def returning_placeholders(partition: Partition) -> list[ApplicationId]:
    """Returns the gangs with virtual placeholders that were complete before a restart of the core and are not now.

    Such a gang has a bound member or a bound placeholder pod. Its missing reservations are planned first, in order of
    submission.
    """
    apps = [app for app in partition.applications.values() if app.spec.uses_virtual_placeholders and app.is_reserving]
    found = [app for app in apps if app.state is ApplicationState.RUNNING or (app.spec.is_auto and app.gang.recovered)]
    return [app.id for app in sorted(found, key=lambda app: (app.submitted_ns, app.sequence))]


def split_virtual_placeholders(partition: Partition, app: Application) -> None:
    """Splits the placeholder requests into one per member.

    Preemption reserves resources for one allocation per request.
    """
    for asked in [ask for ask in app.asks.values() if ask.spec.is_virtual and ask.left > 1]:
        spec = asked.spec
        for _ in range(asked.left):
            one = replace(spec, key=virtual_slot_key(spec.key, partition.next_number()), max_allocations=1)
            ledger.add_ask(partition, app, replace(asked, spec=one, left=1, made=0, attempts=None))
        app.gang.groups[spec.group].count -= asked.left
        ledger.remove_ask(partition, app, asked, Detail.APP_REQUEST)


def last_virtual_ask(app: Application, group: TaskGroup) -> Ask | None:
    """Returns the last virtual placeholder request of the task group; None = all are allocated or removed."""
    keys = app.gang.asked_virtual.get(group)
    return app.asks[next(reversed(keys))] if keys else None


def drop_virtual_placeholder(partition: Partition, app: Application, asked: Ask) -> None:
    """Removes one virtual placeholder from a pending request."""
    if asked.left == 1:
        if len(app.gang.asked_virtual[asked.spec.group]) == 1:  # more after a split
            report_withdrawn(partition, app, asked)
        ledger.remove_ask(partition, app, asked, Detail.REQUEST_ALLOC)
    else:
        _lower(partition, app, asked, 1)
        partition.scheduling.requeue(app)
    if app.gang.quota_reservation:
        left = lacking(app)
        ledger.set_quota_reservation(partition, app, left, granted=app.gang.granted and bool(left))


def _held(app: Application, group: TaskGroup, node: NodeId) -> Allocation | None:
    """Returns the virtual placeholder that a bound member replaces: one on its node, else the newest."""
    held = app.gang.live_virtual.get(group)
    if not held:
        return None
    return app.allocations[next(reversed(app.gang.live_virtual_on[group].get(node, held)))]


def report_withdrawn(partition: Partition, app: Application, asked: Ask) -> None:
    """Reports SCHEDULED for a placeholder request, if a reason for waiting was reported before.

    To be called before the request is removed, because its node reservation, which may be the reason, goes with it.
    """
    if asked.reported_kind is not None:
        text = "no longer waiting for a reservation"
        change = SchedulingStateChanged(partition.rm, app.id, asked.spec.report_key, SchedulingState.SCHEDULED, text)
        partition.outbox.state(change)


def report_slots_over(partition: Partition, app: Application) -> None:
    """Reports that an Auto gang has no slots for absent members any more, so that no placeholder pods are created."""
    for member in app.spec.members if app.spec.is_auto else ():
        key = virtual_placeholder_key(app.id, member.group)
        text = "absent members have no reservation any more"
        scheduled = SchedulingState.SCHEDULED
        change = SchedulingStateChanged(partition.rm, app.id, key, scheduled, text, slots_timed_out=True)
        partition.outbox.state(change)


_EARLY = (ApplicationState.NEW, ApplicationState.ACCEPTED)


def start_timer(partition: Partition, app: Application, since_ns: int, *, is_early: bool = False) -> None:
    """Starts the placeholder timer, or continues it after a pause (docs/internals/semantics.md, rule 10).

    `is_early`: nothing is reserved yet.
    """
    gang = app.gang
    at_ns = since_ns + max(lifecycle.placeholder_timeout_ns(partition, app) - gang.elapsed_ns, 0)
    number = partition.start_timer(TimerKind.PLACEHOLDER, at_ns, app.id)
    gang.timer, gang.since_ns, gang.is_early, gang.is_paused = number, since_ns, is_early, False


def note_reservation(partition: Partition, app: Application, now_ns: int) -> None:
    """Starts the placeholder timer with the first reservation. It never starts from zero again."""
    if not app.gang.timer or app.gang.is_early:
        start_timer(partition, app, now_ns)


def pause_timer(app: Application, now_ns: int) -> None:
    """Pauses the timer, because takeovers or a preemption removed all reservations of the gang."""
    if app.gang.timer:
        app.gang.elapsed_ns += 0 if app.gang.is_early else now_ns - app.gang.since_ns
        _stop_timer(app)
        app.gang.is_paused = True


def note_impossible(partition: Partition, app: Application, why: str, now_ns: int) -> None:
    """Updates whether queues and limits can ever hold the gang. `why`: the reason; empty = they can.

    If they cannot, the placeholder timer runs and the reason is reported once. A Direct gang that runs already
    continues without the other members.
    """
    gang = app.gang
    if why == gang.impossible:
        return
    gang.impossible = why
    if not why:
        _stop_early_timer(app)
        await_first_ask(partition, app, now_ns)
        return
    partition.note(Notice.APPLICATION, app.id, message=why)
    if app.state not in _EARLY:
        finish(partition, app)
        call_off(partition, app, why)
        report_slots_over(partition, app)
        return
    requeue.close(partition, app)
    ledger.clear_quota_reservation(partition, app)
    if not gang.timer:
        start_timer(partition, app, now_ns, is_early=True)


def note_missing_members(partition: Partition, app: Application, why: str, now_ns: int) -> None:
    """Updates why a gang waits for members that nothing creates, as its resource manager reports; empty = it does not.

    The reason is reported once. The placeholder timer runs then, also if the gang holds nothing, unless a wait timeout
    is set. See docs/internals/semantics.md, rule 10.
    """
    gang = app.gang
    if why == gang.members_missing or not app.is_reserving or app.state not in _EARLY:
        return
    gang.members_missing = why
    if not why:
        _stop_early_timer(app)
        await_first_ask(partition, app, now_ns)
        return
    partition.note(Notice.APPLICATION, app.id, message=why)
    if not gang.timer and not lifecycle.wait_timeout_ns(partition, app):
        was_paused = gang.is_paused
        start_timer(partition, app, now_ns, is_early=True)
        gang.is_paused = was_paused


def _stop_early_timer(app: Application) -> None:
    """Stops a timer that ran before anything was reserved, unless the gang can never be complete."""
    if app.gang.is_early and not app.gang.impossible and not app.gang.members_missing:
        _stop_timer(app)


def _stop_timer(app: Application) -> None:
    app.gang.timer = 0
    app.gang.is_early = False


def after_placing(partition: Partition, app: Application, now_ns: int) -> None:
    """Updates a gang after placeholders were added: reduces its quota reservation, and runs it if it is reserved."""
    if not app.is_reserving:
        return
    if app.gang.quota_reservation:
        ledger.shrink_quota_reservation(partition, app, lacking(app))
    if is_reserved(app):
        if not app.gang.was_complete and not app.gang.recovered:
            partition.gang_times.note(app.queue.path, now_ns - app.submitted_ns)
        app.gang.was_complete = True
        finish(partition, app)
        # A Direct gang may be Running already, because a bound member was reported.
        if app.state is ApplicationState.ACCEPTED:
            lifecycle.run(partition, app, now_ns)


def is_reserved(app: Application) -> bool:
    """Whether no placeholder request is pending and the live placeholders cover the placeholderAsk.

    See docs/internals/semantics.md, rule 9.
    """
    return not app.placeholder_asks and not lacking(app)


def finish(partition: Partition, app: Application) -> None:
    """Ends the reservation phase: releases the quota reservation and takeovers of the gang."""
    app.gang.over = True
    ledger.clear_quota_reservation(partition, app)
    requeue.leave(partition, app)
    if app.gang.lost:
        repair.note(partition, app)
    partition.scheduling.requeue(app)


def give_up(partition: Partition, app: Application, now_ns: int, why: str) -> None:
    """Ends a gang that was not reserved in time, as its style defines (docs/internals/semantics.md, rule 8).

    Soft: Resuming, then its pods are scheduled individually. Hard: Failing, then Failed.
    """
    if app.spec.style is GangStyle.HARD:
        fail(partition, app, now_ns, why)
        return
    finish(partition, app)
    if app.state is ApplicationState.NEW:
        lifecycle.change_state(partition, app, ApplicationEvent.ACCEPT, now_ns)
    release_placeholders(partition, app, why, now_ns)
    lifecycle.change_state(partition, app, ApplicationEvent.RESUME, now_ns, why)
    lifecycle.settle(partition, app, now_ns)


def fail(partition: Partition, app: Application, now_ns: int, why: str) -> None:
    """Moves the application to Failing and releases everything it has or requests (TIMEOUT)."""
    finish(partition, app)
    release_everything(partition, app, why, now_ns)
    lifecycle.change_state(partition, app, ApplicationEvent.FAIL, now_ns, why)
    lifecycle.settle(partition, app, now_ns)


def release_everything(partition: Partition, app: Application, why: str, now_ns: int) -> None:
    """Releases all allocations and requests in one response (TIMEOUT).

    Allocations that are being released are not sent again.
    """
    for key in app.asks:
        ledger.unlink(partition, app, key)
    taken = [allocation for allocation in app.allocations.values() if allocation.releasing is None]
    answer = partition.outbox.answer(partition.rm)
    victims.release_on_timeout(partition, app, taken, why, now_ns, answer)
    _drop_asks(partition, app, why, answer, placeholders_only=False)


def release_placeholders(partition: Partition, app: Application, why: str, now_ns: int) -> None:
    """Releases live placeholders and pending placeholder requests in one response (TIMEOUT).

    Placeholders that are being replaced are kept.
    """
    if app.is_reserving:
        finish(partition, app)
    live = [app.allocations[identity] for group in app.gang.live.values() for identity in group]
    answer = partition.outbox.answer(partition.rm)
    victims.release_on_timeout(partition, app, live, why, now_ns, answer)
    _drop_asks(partition, app, why, answer, placeholders_only=True)


def call_off(partition: Partition, app: Application, why: str) -> None:
    """Removes pending placeholder requests (TIMEOUT). Allocated placeholders are kept."""
    _drop_asks(partition, app, why, partition.outbox.answer(partition.rm), placeholders_only=True)


def time_out(partition: Partition, app: Application, now_ns: int) -> None:
    """Handles the placeholder timer.

    The outcome depends on the application state (docs/internals/semantics.md, rule 8).
    """
    if app.state in _EARLY:
        why = app.gang.impossible or app.gang.members_missing or messages.gang_timed_out()
        give_up(partition, app, now_ns, why)
    elif app.state in (ApplicationState.RUNNING, ApplicationState.COMPLETING):
        if missing := _members_without_reservation(app):
            is_hard = app.spec.style is GangStyle.HARD
            then = "the application fails" if is_hard else "pods are scheduled one by one"
            why = messages.gang_without_members(missing, then)
            if is_hard:
                fail(partition, app, now_ns, why)
                return
            partition.note(Notice.APPLICATION, app.id, message=why)
        release_placeholders(partition, app, "unused placeholder", now_ns)
        report_slots_over(partition, app)
        if not app.spec.is_gang:
            _stop_timer(app)  # the next placeholder starts it again
        if not app.gang.allocated:  # real pods never came (docs/internals/semantics.md, rule 13)
            lifecycle.complete_if_done(partition, app, now_ns)


def _members_without_reservation(app: Application) -> int:
    """Returns how many members of a gang that was complete wait because they cannot use their reservations.

    0 if as many members as the gang needs have got a node (docs/internals/semantics.md, rule 15).

    Differs: at the placeholder timeout such a Hard gang fails; YuniKorn runs it without these members.
    """
    if app.is_reserving or not app.spec.is_gang:
        return 0
    waiting = Counter(app.asks[key].spec.group for key in app.gang.without_reservation)
    for kind, keys in app.waiting.items():
        if app.has_placeholder(kind):
            waiting[kind.group] += len(keys)
    placed = Counter(one.spec.group for one in app.allocations.values() if not one.spec.placeholder)
    missing = 0
    for group, count in waiting.items():
        if (of_group := app.gang.groups.get(group)) is not None:
            missing += min(count, max(of_group.count - max(of_group.replaced, placed[group]), 0))
    return missing


def lost_placeholder(partition: Partition, app: Application, was: Termination | None, now_ns: int) -> None:
    """Updates timers and state after a placeholder ended without replacement. `was`: why it was released."""
    if app.gang.allocated:
        return
    if app.is_reserving:
        if app.state in _EARLY and was is Termination.PREEMPTED_BY_SCHEDULER:
            pause_timer(app, now_ns)
        release_unneeded(partition, app)
        await_first_ask(partition, app, now_ns)
    elif was is Termination.TIMEOUT:
        lifecycle.complete_if_done(partition, app, now_ns)


def release_unneeded(partition: Partition, app: Application) -> None:
    """Releases what a reserving gang no longer needs.

    Without placeholder requests, it needs no takeover. Without allocations either, it needs no quota reservation.
    """
    if not app.placeholder_asks:
        requeue.close(partition, app)
    if app.gang.allocated:
        return
    if not app.placeholder_asks:
        ledger.clear_quota_reservation(partition, app)
    if not app.gang.quota_reservation:
        partition.contention.forget(app.id)


def asks_again(app: Application) -> None:
    """Stops the timer of a gang without requests (`await_first_ask`), because a request arrived."""
    _stop_early_timer(app)


def await_first_ask(partition: Partition, app: Application, now_ns: int) -> None:
    """Starts the placeholder timer of a gang that neither holds nor requests anything any more.

    See docs/internals/semantics.md, rule 13.

    Differs: a reserving gang without placeholders and requests ends with its placeholder timer, because its members may
    be requested again; YuniKorn completes it after 30 seconds.
    """
    gang = app.gang
    is_idle = app.is_reserving and app.state is ApplicationState.ACCEPTED and not (app.asks or app.allocations)
    if is_idle and not gang.timer:
        was_paused = gang.is_paused
        start_timer(partition, app, now_ns, is_early=True)
        gang.is_paused = was_paused


def _drop_asks(
    partition: Partition, app: Application, why: str, answer: ResponseBuilder, *, placeholders_only: bool
) -> None:
    gone = [ask for ask in app.asks.values() if ask.spec.placeholder or not placeholders_only]
    given_up = app.gang.given_up
    for ask in gone:
        if ask.spec.placeholder and not given_up:
            app.gang.groups[ask.spec.group].timed_out += ask.left
        if ask.spec.is_virtual:
            report_withdrawn(partition, app, ask)
        ledger.remove_ask(partition, app, ask, Detail.REQUEST_CANCEL if given_up else Detail.REQUEST_TIMEOUT)
        if not ask.spec.is_virtual:
            answer.released_asks.append(AskRelease(partition.id, app.id, ask.spec.key, Termination.TIMEOUT, why))
