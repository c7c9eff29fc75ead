"""Handlers for added and removed applications and requests. Called by `step`."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Final

from muster_core.model import limits, messages
from muster_core.model.config import SORT, QueueConfig
from muster_core.model.constraints import NO_TAGS, Tags
from muster_core.model.effects import (
    AllocationResponse,
    ApplicationAccepted,
    ApplicationRejected,
    AskRelease,
    Rejection,
    Release,
)
from muster_core.model.events import ApplicationRemoved, AskReleased, GroupsResolved
from muster_core.model.ids import NO_APPLICATION, ApplicationId, QueuePath, Termination, is_virtual_key
from muster_core.model.limits import PODS_PER_PART
from muster_core.model.records import Detail, Notice
from muster_core.model.specs import ApplicationSpec, AskSpec, NamespaceQuota
from muster_core.model.states import APPLICATION, ApplicationEvent, ApplicationState, follow
from muster_core.placement.plugins.hooks import HOOKS
from muster_core.queues.placement_rules import Chosen, GroupsNeeded, choose_queue, recovery_queue
from muster_core.queues.quota import configured_bounds, gang_blocking_reason
from muster_core.scheduling import (
    failures,
    gangs,
    ledger,
    lifecycle,
    preemption,
    queues,
    records,
    repair,
    selectors,
    slots,
)
from muster_core.state.applications import Application, Ask, LostMembers
from muster_core.state.queues import Queue, detached_queue
from muster_core.state.request_classes import class_like, class_of
from muster_core.state.scheduler_state import Partition, SchedulerState, UnfinishedEvent

#: How long after its completion an application accepts requests that the resource manager sent before it received the
#: completion.
_MOMENT_NS: Final = 60 * 1_000_000_000
_ENDING = (ApplicationState.FAILING, ApplicationState.FAILED)
#: States that a new request may end.
_WOKEN: Final = (ApplicationState.NEW, ApplicationState.COMPLETING)


def add_ask(partition: Partition, spec: AskSpec, now_ns: int) -> None:
    """Adds a pending request, replacing an earlier one with the same key, or rejects it with a reason.

    Raises any internal error; the request is then pending or rejected.
    """
    found = partition.applications.get(spec.application)
    home = found.id if found is not None and spec.group and gangs.requires_domain(found.spec) else NO_APPLICATION
    if spec.home != home:
        spec = replace(spec, home=home)
    try:
        _add_ask(partition, spec, now_ns)
    except Exception as error:
        app = partition.applications.get(spec.application)
        known = app.asks.get(spec.key) if app is not None else None
        if app is not None and known is not None and known.spec is spec:
            partition.scheduling.requeue(app)
        else:
            _reject_request(partition, spec, failures.describe(error))
        raise


def _add_ask(partition: Partition, spec: AskSpec, now_ns: int) -> None:
    app = partition.applications.get(spec.application)
    if app is None or app.removed:
        _refuse_without_application(partition, app, spec, now_ns)
        return
    if spec.placeholder and _is_late(partition, app, spec):
        # The request is valid. The resource manager may have sent it on another stream before it knew the state.
        _return(partition, spec, messages.placeholder_not_needed(app.name))
        return
    labels = partition.nodes.pods_on_nodes.tags.labels
    has_selectors = labels.is_on and spec.has_selectors  # `step` switches them on before the first selector
    reason = _refusal(app, spec) or (selectors.refusal(partition, spec) if has_selectors else "")
    if reason:
        _reject_request(partition, spec, reason)
        return
    if has_selectors:
        selectors.read(partition, spec)
    tags = labels.project(spec.tags) if labels.is_on else NO_TAGS
    if app.gang.lost:
        repair.expire(app, now_ns)
    known = app.asks.get(spec.key)
    if known is not None:
        if _is_like(known, spec, tags):
            selectors.part(partition, known.spec)
            known.spec = spec
            selectors.join(partition, spec)
            return
        _forget(partition, app, known, Detail.APP_REQUEST)
    if spec.avoid and HOOKS.recommendations is not None:
        HOOKS.recommendations.bind_failed(partition, spec, now_ns)
    if app.state in _WOKEN:
        _wake(partition, app, spec, now_ns)
    kind = app.newest = class_like(app.newest, spec, as_usual=spec.placeholder or not spec.group, tags=tags)
    ask = Ask(spec, kind, spec.max_allocations, min(spec.created_ns or now_ns, now_ns))
    ledger.add_ask(partition, app, ask)
    if spec.placeholder:
        if app.spec.is_auto:
            slots.take(partition, app, ask, now_ns)
        gangs.asks_again(app)


def _refuse_without_application(partition: Partition, removed: Application | None, spec: AskSpec, now_ns: int) -> None:
    """Rejects a request of an unknown application, or returns it if the application has just completed."""
    if removed is not None or _completed_meanwhile(partition, spec.application, now_ns):
        _return(partition, spec, messages.completed_before_request(spec.application))
        return
    is_undecided = spec.application in partition.undecided
    text = messages.undecided_application if is_undecided else messages.unknown_application
    _reject_request(partition, spec, text(spec.application))


def release_ask(scheduler_state: SchedulerState, partition: Partition, event: AskReleased, now_ns: int) -> None:
    """Removes one request, or all of the application.

    STOPPED_BY_RM is confirmed; other terminations are confirmations.
    """
    app = partition.applications.get(event.application)
    if app is None:
        scheduler_state.ignore("release of an ask of an unknown application")
        return
    named = app.asks.values() if event.key is None else filter(None, [app.asks.get(event.key)])
    gone = deque(ask for ask in named if not ask.spec.is_virtual)
    if not gone:
        scheduler_state.ignore("release of an unknown ask")
        return
    scheduler_state.unfinished = UnfinishedEvent(_cancellation(partition, app, gone, event, now_ns))


def _cancellation(
    partition: Partition, app: Application, gone: deque[Ask], event: AskReleased, now_ns: int
) -> Iterator[None]:
    """Removes requests in parts, and confirms them."""
    was, has_real = event.termination, False
    while gone:
        answer = partition.outbox.answer(partition.rm)
        for _ in range(min(len(gone), PODS_PER_PART)):
            ask = gone.popleft()  # freed with its part
            has_real = has_real or not ask.spec.placeholder
            _forget(partition, app, ask, Detail.REQUEST_CANCEL)
            if was is Termination.STOPPED_BY_RM:
                answer.released_asks.append(AskRelease(partition.id, app.id, ask.spec.key, was, event.message))
        if gone:
            yield
    if app.is_reserving:
        # The last missing member may have been cancelled (docs/internals/semantics.md, rule 9).
        gangs.after_placing(partition, app, now_ns)
    if app.is_reserving:
        gangs.release_unneeded(partition, app)
        gangs.await_first_ask(partition, app, now_ns)
    if has_real:
        lifecycle.complete_if_done(partition, app, now_ns)


def _is_late(partition: Partition, app: Application, spec: AskSpec) -> bool:
    """Whether the gang needs no placeholders any more, or no placeholder pods."""
    is_over = app.gang.over or app.spec.uses_virtual_placeholders
    if app.spec.is_auto and (spec.key in app.asks or slots.has_slot(partition, app, spec)):
        return False
    return is_over and app.state not in _ENDING and spec.key not in app.ids


def _is_like(known: Ask, spec: AskSpec, tags: Tags) -> bool:
    """Whether the requests are equal for planning. The request then keeps its position, replacement and reservation."""
    if (spec.max_allocations, spec.created_ns) != (known.spec.max_allocations, known.spec.created_ns):
        return False
    return class_of(spec, as_usual=known.kind.as_usual, tags=tags) == known.kind


def _forget(partition: Partition, app: Application, ask: Ask, why: Detail) -> None:
    """Removes a request.

    If it is in a replacement, its placeholder still ends (docs/internals/semantics.md, rule 14).
    """
    ledger.unlink(partition, app, ask.spec.key)
    slots.forget_given_up_replacement(app, ask)
    slots.request_again(partition, app, ask.spec)
    ledger.remove_ask(partition, app, ask, why, repeated=True)
    partition.scheduling.requeue(app)


def _wake(partition: Partition, app: Application, spec: AskSpec, now_ns: int) -> None:
    if app.state is ApplicationState.NEW:
        lifecycle.accept(partition, app, now_ns)
    elif not (spec.placeholder and app.spec.is_gang):
        lifecycle.run(partition, app, now_ns)


def _refusal(app: Application, spec: AskSpec) -> str:
    if app.state in _ENDING:
        return messages.application_ends(app.name, app.state)
    is_gang = app.spec.is_gang  # the other properties are slower
    if is_gang and app.spec.uses_virtual_placeholders and is_virtual_key(app.id, spec.key):
        return messages.reserved_key(spec.key)
    if spec.key in app.ids:
        return messages.allocated_already(spec.key)
    return slots.refusal(spec) if is_gang and app.spec.is_auto else ""


def _completed_meanwhile(partition: Partition, name: ApplicationId, now_ns: int) -> bool:
    """Whether the application completed so recently that the resource manager may not have known it."""
    app = partition.ended_applications.get(name)
    return app is not None and app.state is ApplicationState.COMPLETED and app.ended_ns >= now_ns - _MOMENT_NS


def _return(partition: Partition, spec: AskSpec, why: str) -> None:
    """Releases a valid request, so that the resource manager sends it again with a new application."""
    gone = AskRelease(partition.id, spec.application, spec.key, Termination.TIMEOUT, why)
    partition.outbox.put(AllocationResponse(partition.rm, released_asks=(gone,)))


def _reject_request(partition: Partition, spec: AskSpec, reason: str) -> None:
    refusal = Rejection(spec.application, spec.key, reason)
    partition.outbox.put(AllocationResponse(partition.rm, rejected_asks=(refusal,)))


def add_application(partition: Partition, spec: ApplicationSpec, now_ns: int) -> None:
    """Accepts an application into its leaf queue, or rejects it with a reason.

    Raises any internal error. An application with bound pods is rejected then, because recovery waits for a response.
    Another application is not, because its resource manager would fail its pods.
    """
    try:
        _add_application(partition, spec, now_ns)
    except Exception as error:
        if spec.forced and not spec.is_renewal and spec.id not in partition.applications:
            _reject_application(partition, spec, now_ns, failures.describe(error))
        raise


def _add_application(partition: Partition, spec: ApplicationSpec, now_ns: int) -> None:
    known = partition.applications.get(spec.id)
    undecided = partition.undecided.get(spec.id)
    if known is not None and known.removed:
        lifecycle.end_removed(partition, known, now_ns)
        known = None
    if spec.is_renewal:
        if undecided is not None:
            partition.undecided[spec.id] = replace(undecided, quota=spec.quota)
        elif known is not None:
            _renew(partition, known, spec, now_ns)
            if spec.is_reserved:
                for group, count, first, resources, until_ns in spec.lost:
                    known.gang.lost[group] = LostMembers(count, first, resources, until_ns)
                    known.gang.was_complete = True  # also if all that is left of it are slots
                gangs.finish(partition, known)
                gangs.call_off(partition, known, "")
            elif spec.given_up and known.is_reserving:
                known.gang.given_up = True
                gangs.fail(partition, known, now_ns, spec.given_up)
            elif spec.members_missing is not None:
                gangs.note_missing_members(partition, known, spec.members_missing, now_ns)
    elif partition.is_closing:
        _reject_application(partition, spec, now_ns, messages.partition_closing(partition.id))
    elif known is not None:
        _reject_application(partition, spec, now_ns, messages.application_exists(spec.name, known.state))
    else:
        if undecided is not None:
            _forget_undecided(partition, undecided)
        _decide(partition, gangs.sum_member_asks(spec), now_ns)


def _decide(partition: Partition, spec: ApplicationSpec, now_ns: int) -> None:
    chosen = choose_queue(partition.queues, partition.config.rules, spec)
    if isinstance(chosen, GroupsNeeded):
        if not spec.forced:
            _put_off(partition, spec, chosen.reader, now_ns)
            return
        chosen = recovery_queue(partition.queues)
    if not isinstance(chosen, Chosen):
        _reject_application(partition, spec, now_ns, chosen)
        return
    on_demand = queues.leaf_on_demand(partition.queues, chosen.path, spec.quota) if chosen.create else None
    reader = lifecycle.reader(partition, spec, queues.nearest(partition.queues, chosen.path))
    if reader and not spec.forced:
        _put_off(partition, spec, reader, now_ns)
    elif reason := _gang_refusal(partition, spec, chosen.path, on_demand):
        _reject_application(partition, spec, now_ns, reason)
    elif on_demand is not None:
        _enter(partition, queues.open_leaf(partition, chosen, on_demand), spec, now_ns)
    else:
        leaf = partition.queues.by_path[chosen.path]
        _enter(partition, leaf, spec, now_ns)
        _retune(partition, leaf, spec.quota, now_ns)


def _enter(partition: Partition, leaf: Queue, spec: ApplicationSpec, now_ns: int) -> None:
    app = Application(spec, leaf, partition.next_number(), spec.created_ns or now_ns)
    app.state_log.append((now_ns, app.state))
    leaf.applications[spec.id] = None
    partition.applications[spec.id] = app
    partition.outbox.put(ApplicationAccepted(partition.rm, spec.id))
    lifecycle.note_unresolved(partition, spec)
    lifecycle.withhold_recovered(partition, app)
    selectors.announce(partition, spec.members, spec.namespace)
    records.application_added(partition, app)
    if spec.is_gang:
        lifecycle.set_wait_timer(partition, app, app.submitted_ns)
    if not spec.uses_virtual_placeholders:
        return
    if gangs.missing_groups_refusal(spec):  # it has bound pods, so it continues without a reservation
        app.gang.over = True
    else:
        gangs.ask_virtual_placeholders(partition, app, now_ns)


def _put_off(partition: Partition, spec: ApplicationSpec, reader: str, now_ns: int) -> None:
    """Postpones the decision about an application until the groups of its user are known."""
    reason = lifecycle.unresolved_reason(spec, reader)
    if len(partition.undecided) >= limits.UNDECIDED_APPLICATIONS:
        _reject_application(
            partition,
            spec,
            now_ns,
            messages.too_many_wait_for_groups(reason, limits.UNDECIDED_APPLICATIONS),
        )
        return
    partition.undecided[spec.id] = spec
    lifecycle.note_unresolved(partition, spec)
    partition.note(Notice.APPLICATION, spec.id, message=reason)


def _forget_undecided(partition: Partition, spec: ApplicationSpec) -> None:
    del partition.undecided[spec.id]
    lifecycle.forget_unresolved(partition, spec.user, spec.id)


def resolve_groups(partition: Partition, event: GroupsResolved, now_ns: int) -> None:
    """Decides on the applications of a user whose groups are known now, and continues withheld requests."""
    for name in partition.unresolved.pop(event.user, {}):
        undecided, app = partition.undecided.pop(name, None), partition.applications.get(name)
        if undecided is not None:
            add_application(partition, replace(undecided, groups=event.groups, groups_unknown=""), now_ns)
        elif app is not None:
            app.spec = replace(app.spec, groups=event.groups, groups_unknown="")
            lifecycle.update_groups(partition, app)
            lifecycle.withhold_recovered(partition, app)
    lifecycle.place_recovered(partition)


def reconsider_groups(partition: Partition, now_ns: int) -> None:
    """Decides again on applications that wait for groups, because rules, access lists or limits have changed.

    They may not depend on the groups any more.
    """
    for name in [name for names in partition.unresolved.values() for name in names]:
        app, undecided = partition.applications.get(name), partition.undecided.get(name)
        if app is not None:
            lifecycle.withhold_recovered(partition, app)
        elif undecided is not None:
            add_application(partition, undecided, now_ns)


def reject_undecided(partition: Partition, reason: str, now_ns: int) -> None:
    """Rejects the applications that wait for groups, because the partition accepts no new applications."""
    for spec in list(partition.undecided.values()):
        _forget_undecided(partition, spec)
        _reject_application(partition, spec, now_ns, reason)


def _renew(partition: Partition, app: Application, spec: ApplicationSpec, now_ns: int) -> None:
    """Applies a changed namespace quota to the leaf of the application.

    A dynamic leaf of this namespace alone gets the values of a new one. A leaf with applications of other namespaces
    keeps the values that this namespace does not set.

    Differs: changes of a namespace quota apply immediately, including removals. YuniKorn applies changes with the next
    application and ignores removals.
    """
    leaf, quota = app.queue, spec.quota
    sharers = (partition.applications[name].spec.namespace for name in leaf.applications)
    if all(namespace == spec.namespace for namespace in sharers):
        fresh = queues.leaf_on_demand(partition.queues, leaf.path, quota)
        quota = NamespaceQuota(max=fresh.max, guaranteed=fresh.guaranteed, max_applications=fresh.max_applications)
    _retune(partition, leaf, quota, now_ns)


def _retune(partition: Partition, leaf: Queue, quota: NamespaceQuota, now_ns: int) -> None:
    """Applies the namespace's quota to the leaf.

    No application fails because of it (docs/internals/semantics.md, rule 11).
    """
    before, was = leaf.max, {leaf.path: preemption.before(partition, leaf)}
    if queues.apply_quota(partition, leaf, quota) and leaf.max != before:
        preemption.reconsider(partition, was, now_ns)


def remove_application(
    scheduler_state: SchedulerState, partition: Partition, event: ApplicationRemoved, now_ns: int
) -> None:
    """Removes an application with all its allocations and requests, and confirms it.

    See docs/internals/semantics.md, rule 4.
    """
    app = partition.applications.get(event.application)
    undecided = partition.undecided.get(event.application)
    if undecided is not None:
        _forget_undecided(partition, undecided)
        return
    if app is None or app.removed:
        scheduler_state.ignore("removal of an unknown application")
        return
    scheduler_state.unfinished = UnfinishedEvent(_removal(partition, app, now_ns))


def _removal(partition: Partition, app: Application, now_ns: int) -> Iterator[None]:
    """Removes an application in parts."""
    why = messages.application_removed()
    while app.allocations:
        answer = partition.outbox.answer(partition.rm)
        for allocation in list(islice(app.allocations.values(), PODS_PER_PART)):
            if allocation.replaced_by:
                ledger.unlink(partition, app, allocation.replaced_by)
            ledger.drop(partition, app, allocation, now_ns)
            if not allocation.spec.is_virtual:
                key = allocation.spec.key
                answer.released.append(
                    Release(partition.id, app.id, key, allocation.id, Termination.STOPPED_BY_RM, why)
                )
        if app.allocations:
            yield
    while app.asks:
        answer = partition.outbox.answer(partition.rm)
        for key, ask in list(islice(app.asks.items(), PODS_PER_PART)):
            ledger.unlink(partition, app, key)
            ledger.remove_ask(partition, app, ask)
            if not ask.spec.is_virtual:
                answer.released_asks.append(AskRelease(partition.id, app.id, key, Termination.STOPPED_BY_RM, why))
        if app.asks:
            yield
    lifecycle.retire(partition, app, now_ns)


def _gang_refusal(partition: Partition, spec: ApplicationSpec, path: QueuePath, on_demand: QueueConfig | None) -> str:
    """Returns why the gang can never be reserved in the queue; empty = it can.

    `on_demand`: configuration of a dynamic leaf that does not exist yet.
    """
    if not spec.is_gang or spec.forced:
        return ""
    if refused := gangs.missing_groups_refusal(spec) or selectors.refusal(partition, spec):
        return refused
    if on_demand is not None:
        above = configured_bounds(queues.nearest(partition.queues, path))
        return gang_blocking_reason(
            spec, on_demand.policies.order, [(path, on_demand.max), *above], on_demand.origins.get(SORT, "")
        )
    leaf = partition.queues.by_path[path]
    most = queues.maximum(leaf, spec.quota)
    above = configured_bounds(leaf.parent) if leaf.parent is not None else ()
    return gang_blocking_reason(spec, leaf.policies.order, [(path, most), *above], leaf.set_elsewhere(SORT))


def _reject_application(partition: Partition, spec: ApplicationSpec, now_ns: int, reason: str) -> None:
    """Rejects the application and keeps it in the history."""
    app = Application(spec, detached_queue(spec.queue), partition.next_number(), spec.created_ns or now_ns)
    app.state = follow(APPLICATION, app.state, ApplicationEvent.REJECT)
    app.state_log.append((now_ns, app.state))
    app.rejected_message = reason
    partition.outbox.put(ApplicationRejected(partition.rm, spec.id, reason))
    records.application_state_changed(partition, app, reason)
    lifecycle.remember_application(partition, app, now_ns)
