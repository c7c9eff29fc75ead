"""Handlers for reported, changed and released allocations. Called by `step`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace

from muster_core.model import messages
from muster_core.model.constraints import TERMINATING, TERMINATING_PREEMPTED
from muster_core.model.effects import AllocationResponse, Rejection, Release
from muster_core.model.events import AllocationReleased
from muster_core.model.ids import AllocationId, AllocationKey, NodeId, Termination, allocation_id, is_virtual_key
from muster_core.model.limits import PODS_PER_PART
from muster_core.model.records import Change, Detail, Notice
from muster_core.model.specs import AllocationSpec, AskSpec
from muster_core.model.states import ApplicationState
from muster_core.placement import differences
from muster_core.scheduling import (
    commit,
    failures,
    gangs,
    ledger,
    lifecycle,
    preemption,
    repair,
    requeue,
    selectors,
    slots,
)
from muster_core.state.applications import Allocation, Application, GroupCount, lacking
from muster_core.state.scheduler_state import Partition, SchedulerState, UnfinishedEvent
from muster_si import keys


def update_allocation(
    partition: Partition, app: Application, allocation: Allocation, reported: AllocationSpec, now_ns: int
) -> None:
    """Replaces the reported properties of an allocation. An equal report changes nothing."""
    old = allocation.spec
    new = replace(
        old,
        resources=reported.resources,
        tags=reported.tags,
        common={},
        facts=reported.facts,
        priority=reported.priority,
        allow_preempt_self=reported.allow_preempt_self,
        allow_preempt_other=reported.allow_preempt_other,
    )
    if new == old:
        return
    selectors.read(partition, new)
    ledger.update_spec(partition, allocation, new)
    if new.resources != old.resources:
        _resize(partition, app, allocation, old, now_ns)


def _resize(partition: Partition, app: Application, allocation: Allocation, old: AskSpec, now_ns: int) -> None:
    ledger.resize(partition, app, allocation, old, now_ns)
    for queue in app.queue.path_up:
        preemption.note_excess(partition, queue, now_ns)
    if not allocation.spec.placeholder or not app.is_reserving:
        return
    left = lacking(app)
    if app.gang.quota_reservation:
        ledger.set_quota_reservation(partition, app, left, granted=app.gang.granted and bool(left))
    gangs.after_placing(partition, app, now_ns)
    partition.scheduling.requeue(app)  # the missing amount has changed and may fit now


def update_foreign_allocation(partition: Partition, identity: AllocationId, reported: AllocationSpec) -> None:
    """Like `update_allocation`, for an allocation without an application: only its node is charged."""
    old = partition.foreign[identity]
    selectors.read(partition, reported)
    ledger.enter(partition, reported.node, reported)  # entered first, so that shared volumes stay in use
    ledger.leave(partition, old.node, old)
    partition.foreign[identity] = reported
    selectors.join(partition, reported)
    selectors.part(partition, old)
    if reported.resources != old.resources:
        partition.nodes.take(reported.node, reported.resources, foreign=True)
        partition.nodes.give_back(reported.node, old.resources, foreign=True)


def report_allocation(partition: Partition, spec: AllocationSpec, now_ns: int) -> None:
    """Adds an allocation that exists already, without checking quota or resources.

    A known allocation is updated (docs/internals/semantics.md, rule 3). Raises any internal error; the allocation is
    then counted or rejected.
    """
    try:
        _report_allocation(partition, spec, now_ns)
    except Exception as error:
        app, identity = partition.applications.get(spec.application), _identity(spec)
        if identity not in partition.foreign and (app is None or identity not in app.allocations):
            _reject(partition, spec, failures.describe(error))
        raise


def _report_allocation(partition: Partition, spec: AllocationSpec, now_ns: int) -> None:
    app = partition.applications.get(spec.application)
    if spec.node not in partition.nodes:
        _reject(partition, spec, messages.unknown_node(spec.node))
    elif spec.foreign or not spec.application:
        _report_foreign(partition, spec)
    elif app is None or app.removed:
        _reject(partition, spec, messages.unknown_application(spec.application))
    else:
        _report_own(partition, app, spec, now_ns)


def _report_own(partition: Partition, app: Application, spec: AllocationSpec, now_ns: int) -> None:
    known = app.allocations.get(_identity(spec))
    waiting = app.asks.get(spec.key)
    is_own = app.spec.uses_virtual_placeholders and is_virtual_key(app.id, spec.key) and spec.virtual is None
    if is_own or (known is not None and known.spec.is_virtual):
        _reject(partition, spec, messages.reserved_key(spec.key))
        return
    if known is not None:
        refusal = _contradiction(known.spec.key, known.node, spec)
        if refusal:
            _reject(partition, spec, refusal)
        else:
            update_allocation(partition, app, known, spec, now_ns)
        return
    if waiting is not None:
        ledger.unlink(partition, app, spec.key)
        slots.forget_given_up_replacement(app, waiting)
        slots.request_again(partition, app, waiting.spec)
        ledger.remove_ask(partition, app, waiting, Detail.REQUEST_ALLOC, repeated=True)
    has_slot = gangs.release_virtual_placeholders(partition, app, spec, now_ns)
    _enter(partition, app, spec, now_ns)
    for queue in app.queue.path_up:
        preemption.note_excess(partition, queue, now_ns)
    _after_report(partition, app, spec, now_ns)
    if not has_slot and spec.virtual is None:
        slots.release_surplus(partition, app, app.allocations[_identity(spec)], spec.allocated_ns, now_ns)
    partition.scheduling.requeue(app)  # the gang may need less, or no longer wait for the others


def release_allocation(
    scheduler_state: SchedulerState, partition: Partition, event: AllocationReleased, now_ns: int
) -> None:
    """Handles released allocations: ended on their own, or confirmed after a release of the core."""
    app = partition.applications.get(event.application)
    gone = deque(_meant(app, event) if app is not None else ())
    if app is None or not gone:
        _release_foreign(scheduler_state, partition, event)
        return
    scheduler_state.unfinished = UnfinishedEvent(_release(partition, app, gone, event, now_ns))


def _release(
    partition: Partition, app: Application, gone: deque[Allocation], event: AllocationReleased, now_ns: int
) -> Iterator[None]:
    """Handles released allocations of one application in parts."""
    was, is_success = event.termination, event.message == keys.RELEASE_SUCCEEDED
    if event.key is None and event.id is None:
        _stop_replacements(partition, app)
    while gone:
        answer = partition.outbox.answer(partition.rm)
        for _ in range(min(len(gone), PODS_PER_PART)):
            allocation = gone.popleft()  # freed with its part
            if was is Termination.STOPPED_BY_RM:
                key = allocation.spec.key
                answer.released.append(Release(partition.id, app.id, key, allocation.id, was, event.message))
            end_allocation(partition, app, allocation, now_ns, is_success=is_success)
        if gone:
            yield


def _stop_replacements(partition: Partition, app: Application) -> None:
    """Ends all replacements of the application, because all its allocations are released."""
    for ask in [ask for ask in app.asks.values() if ask.replacement is not None]:
        slots.schedule_individually(partition, app, ask)


def end_allocation(
    partition: Partition,
    app: Application,
    allocation: Allocation,
    now_ns: int,
    *,
    node_removed: bool = False,
    is_success: bool = False,
) -> None:
    """Removes an allocation that has ended. If it is being replaced, its replacement is allocated.

    A placeholder that was resized below its replacement cannot hold it. The replacement is then scheduled like any
    other request.
    """
    ask = app.asks.get(allocation.replaced_by) if allocation.replaced_by else None
    is_smaller = ask is not None and ask.replacement is not None
    if ask is not None and is_smaller:
        if allocation.spec.resources.covers(ask.spec.resources):
            commit.confirm_replacement(partition, app, allocation, ask, now_ns)
            lifecycle.settle(partition, app, now_ns)
            return
        ledger.unlink(partition, app, ask.spec.key)
        ledger.wait_again(partition, app, ask, as_usual=True)
        why = differences.too_large(ask.spec, allocation.spec.resources)
        app.gang.without_reservation[ask.spec.key] = why
        partition.note(Notice.REQUEST, ask.spec.key, reference=app.id, message=why)
    was = allocation.releasing
    slot_ends = slots.end_given_up_replacement(partition, app, allocation) or node_removed or is_smaller
    may_keep_slot = was in (None, Termination.PLACEHOLDER_REPLACED) and not slot_ends
    if may_keep_slot and slots.keep_reserved(partition, app, allocation, now_ns):
        return
    ledger.drop(partition, app, allocation, now_ns, node_removed=node_removed)
    repair.member_ended(partition, app, allocation.spec, now_ns, is_lost=was is None and not is_success)
    if allocation.spec.placeholder:
        slots.request_again(partition, app, allocation.spec)
        if app.is_reserving and app.gang.quota_reservation:
            ledger.set_quota_reservation(partition, app, lacking(app), granted=app.gang.granted)
        gangs.lost_placeholder(partition, app, was, now_ns)
    else:
        lifecycle.complete_if_done(partition, app, now_ns)
    lifecycle.settle(partition, app, now_ns)


def _meant(app: Application, event: AllocationReleased) -> list[Allocation]:
    """Returns the allocations that the release means.

    Virtual placeholders are excluded, because the resource manager has no pods for them.
    """
    if event.key is not None and event.id is None:
        return [app.allocations[identity] for identity in app.ids.get(event.key, ())]
    found = app.allocations.values() if event.id is None else filter(None, [app.allocations.get(event.id)])
    return [allocation for allocation in found if not allocation.spec.is_virtual]


def _identity(spec: AllocationSpec) -> AllocationId:
    return spec.id or allocation_id(spec.key, 0)


def _enter(partition: Partition, app: Application, spec: AllocationSpec, now_ns: int) -> None:
    ask = _ask_of(spec)
    selectors.read(partition, ask)
    allocation = Allocation(ask, _identity(spec), spec.node, spec.allocated_ns or now_ns)
    if ask.placeholder:
        requeue.fix_key(app, ask.priority)
    ledger.note_age(partition, app, ask)
    ledger.book(partition, app, allocation)
    if ask.placeholder:  # after the allocation is stored: a report that raises before is rejected and comes again
        group = app.gang.groups.setdefault(ask.group, GroupCount(ask.resources))
        group.count += 1
    if ask.tags.get(TERMINATING) == TERMINATING_PREEMPTED:
        partition.preemptions.earlier_victims[app.id, allocation.id] = None
    selectors.join(partition, ask)
    ledger.count_in(partition, app, ask, 1)
    partition.note_allocations(app, (allocation,), Change.ADD, Detail.APP_ALLOC)
    partition.nodes.take(spec.node, ask.resources)
    ledger.tolerate(app, ask.resources)
    requeue.path_shrank(partition, app)


def _contradiction(key: AllocationKey, node: NodeId, spec: AllocationSpec) -> str:
    """Returns why the report contradicts the known allocation of the same ID; empty = it does not."""
    if key != spec.key:
        return messages.other_request(spec.id, key)
    if node != spec.node:
        return messages.on_another_node(spec.key, node, spec.node)
    return ""


def _ask_of(spec: AllocationSpec) -> AskSpec:
    """Returns the request that would have led to a recovered allocation."""
    return spec.virtual or AskSpec(
        partition=spec.partition,
        application=spec.application,
        key=spec.key,
        resources=spec.resources,
        group=spec.group,
        placeholder=spec.placeholder,
        originator=spec.originator,
        priority=spec.priority,
        namespace=spec.namespace,
        tags=spec.tags,
        facts=spec.facts,
        required_node=spec.required_node,
        allow_preempt_self=spec.allow_preempt_self,
        allow_preempt_other=spec.allow_preempt_other,
        created_ns=spec.created_ns,
    )


def _after_report(partition: Partition, app: Application, spec: AllocationSpec, now_ns: int) -> None:
    if app.state is ApplicationState.FAILING:
        gangs.release_everything(partition, app, "the application has failed", now_ns)
        return
    if spec.placeholder and (app.state is ApplicationState.RESUMING or app.ending):
        gangs.release_placeholders(partition, app, "the reservation of the application has ended", now_ns)
        return
    if app.state is ApplicationState.NEW:
        lifecycle.accept(partition, app, now_ns)
    since_ns = spec.allocated_ns or now_ns
    if spec.unverified and app.is_reserving:
        return
    if not spec.placeholder:
        _after_real(partition, app, since_ns, now_ns)
        return
    if spec.virtual is None:
        app.gang.recovered[_identity(spec)] = None
    _recover_timer(partition, app, since_ns)
    gangs.after_placing(partition, app, now_ns)
    requeue.note_holding(partition, app)


def _after_real(partition: Partition, app: Application, since_ns: int, now_ns: int) -> None:
    """Updates the application for a bound real member: no more placeholders are created.

    See docs/internals/semantics.md, rule 17.
    """
    app.gang.was_complete = app.gang.was_complete or app.is_reserving
    if app.is_reserving and app.spec.uses_virtual_placeholders:
        _after_member(partition, app, since_ns)
    elif app.is_reserving:
        gangs.finish(partition, app)
        gangs.call_off(partition, app, "a member of the gang is bound already")
    is_earlier = since_ns < (app.started_ns or now_ns + 1)
    if is_earlier:
        app.started_ns = since_ns
    if app.state in (ApplicationState.ACCEPTED, ApplicationState.COMPLETING):
        lifecycle.run(partition, app, now_ns)
    elif is_earlier:
        lifecycle.set_run_timer(partition, app, now_ns)


def _after_member(partition: Partition, app: Application, since_ns: int) -> None:
    """Continues the reservation of a gang with virtual placeholders that was Running before.

    The timer continues too (docs/internals/semantics.md, rule 16).
    """
    _recover_timer(partition, app, since_ns)
    if gangs.is_reserved(app):
        gangs.finish(partition, app)


def _recover_timer(partition: Partition, app: Application, since_ns: int) -> None:
    """Continues the placeholder timer from the earliest recovered placeholder.

    See docs/internals/semantics.md, rule 10.
    """
    gang = app.gang
    if gang.timer and gang.since_ns <= since_ns:
        gang.is_early = False
    else:
        gangs.start_timer(partition, app, since_ns)


def _report_foreign(partition: Partition, spec: AllocationSpec) -> None:
    identity = _identity(spec)
    known = partition.foreign.get(identity)
    if known is not None:
        refusal = _contradiction(known.key, known.node, spec)
        if refusal:
            _reject(partition, spec, refusal)
        else:
            update_foreign_allocation(partition, identity, spec)
        return
    selectors.read(partition, spec)
    partition.foreign[identity] = spec
    selectors.join(partition, spec)
    ledger.enter(partition, spec.node, spec)
    partition.nodes.record(spec.node).foreign_pods[identity] = None
    partition.nodes.take(spec.node, spec.resources, foreign=True)


def _release_foreign(scheduler_state: SchedulerState, partition: Partition, event: AllocationReleased) -> None:
    answer, was = partition.outbox.answer(partition.rm), event.termination
    is_known = False
    for identity in _foreigners_meant(partition, event):
        spec = partition.foreign.pop(identity)
        selectors.part(partition, spec)
        ledger.leave(partition, spec.node, spec)
        partition.nodes.give_back(spec.node, spec.resources, foreign=True)
        del partition.nodes.record(spec.node).foreign_pods[identity]
        is_known = True
        if was is Termination.STOPPED_BY_RM:
            answer.released.append(Release(partition.id, spec.application, spec.key, identity, was, event.message))
    if not is_known:
        scheduler_state.ignore("release of an unknown allocation")


def _foreigners_meant(partition: Partition, event: AllocationReleased) -> list[AllocationId]:
    """Returns the foreign allocations that the release means, by ID or by key. The application must match."""
    foreign = partition.foreign
    identity = event.id or (allocation_id(event.key, 0) if event.key else None)
    if identity in foreign:
        found = [identity]
    elif event.id is None:
        found = [one for one, spec in foreign.items() if spec.key == event.key]
    else:
        found = []
    return [one for one in found if foreign[one].application == event.application]


def _reject(partition: Partition, spec: AllocationSpec, reason: str) -> None:
    refusal = Rejection(spec.application, spec.key, reason)
    partition.outbox.put(AllocationResponse(partition.rm, rejected_allocations=(refusal,)))
