"""Application life cycle, history of ended applications, and applications without user groups or queue.

The other modules of `scheduling` call `change_state` and `settle` after each change. The states and their transitions
are in `muster_core.model.states`.

Differs: ended applications are kept for three days as in YuniKorn, but only the newest in 64 MiB per partition, which
are usually 8,000.

Differs: an application with placeholders but without a placeholderAsk is Running with its first allocation; YuniKorn
keeps it Accepted while it has only placeholders.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Final

from muster_core.model import limits, messages
from muster_core.model.effects import ApplicationSummarized, ApplicationUpdated
from muster_core.model.events import Timer, TimerKind
from muster_core.model.ids import RECOVERY, ROOT, ApplicationId, QueuePath, parent_path
from muster_core.model.specs import ApplicationSpec
from muster_core.model.states import APPLICATION, ApplicationEvent, ApplicationState, follow
from muster_core.queues.placement_rules import (
    Chosen,
    GroupsNeeded,
    choose_queue,
    group_limit_on,
    is_requested,
    why_not_requested,
)
from muster_core.scheduling import ledger, queues, records, reporting, requeue, selectors
from muster_core.state import ordering
from muster_core.state.applications import Application, enter_queue
from muster_core.state.queues import Queue
from muster_core.state.scheduler_state import Partition

#: States by which ended applications are counted per queue.
_ENDS: Final = tuple(ApplicationState)


#: The most that Python needs for a character of a text.
_BYTES_PER_CHARACTER: Final = 4


def remember_application(partition: Partition, app: Application, now_ns: int) -> None:
    """Adds an ended application to the history."""
    app.ended_ns = now_ns
    _store(partition, app)
    # Rejected applications are counted at the root. They may name any queue, so that the counts could grow without
    # bound.
    ended = (ROOT if app.rejected_message else app.queue.path, app.state)
    partition.ended[ended] = partition.ended.get(ended, 0) + 1
    _fold_counts(partition)
    if not app.rejected_message:
        partition.outbox.put(_summary(partition, app))
    if not partition.expiring:
        _set_expiry_timer(partition)


def _store(partition: Partition, app: Application) -> None:
    """Adds the application to the history, and removes the oldest ones above the limit."""
    _drop_unseen(app)
    app.kept_bytes = _size(app)
    partition.history.append(app)
    partition.ended_applications[app.id] = app
    partition.history_bytes += app.kept_bytes
    while partition.history_bytes > limits.HISTORY_BYTES:
        _pop_oldest(partition)


def _drop_unseen(app: Application) -> None:
    """Drops what no view shows of an ended application, because users determine its size."""
    app.spec = replace(app.spec, tags={}, members=(), topology=None)


def _pop_oldest(partition: Partition) -> Application:
    app = partition.history.popleft()
    partition.history_bytes -= app.kept_bytes
    if partition.ended_applications.get(app.id) is app:
        del partition.ended_applications[app.id]
    return app


def _size(app: Application) -> int:
    """Estimates the bytes of an ended application, generously."""
    spec = app.spec
    groups = app.gang.groups
    texts = (spec.id, spec.shown_as, spec.user, spec.namespace, spec.queue, app.queue.path, *spec.groups, *groups)
    reasons = (app.rejected_message, app.failure_message, app.gang.impossible, app.gang.members_missing)
    usages = (app.used, app.preempted, app.placeholder_consumption)
    amounts: list[Collection[str]] = [by_name for usage in usages for by_name in usage.amounts.values()]
    amounts += [tuple(of) for of in (spec.placeholder_ask, *(group.resources for group in groups.values()))]
    parts = len(app.state_log) + sum(1 + len(names) for names in amounts)
    return (
        limits.ENDED_APPLICATION_BYTES
        + sum(map(len, (*texts, *reasons))) * _BYTES_PER_CHARACTER
        + parts * limits.ENDED_APPLICATION_PART_BYTES
    )


def _fold_counts(partition: Partition) -> None:
    """Adds the counts of the oldest removed queues to their parents, if too many are kept."""
    there = partition.queues.by_path
    if len(partition.ended) <= limits.ENDED_COUNTS_OF_GONE_QUEUES + len(_ENDS) * len(there):
        return
    gone = [key for key in partition.ended if key[0] not in there]
    for key in gone[: limits.ENDED_COUNTS_OF_GONE_QUEUES // 2 + 1]:
        path, state = key
        while path not in there:
            path = parent_path(path)
        partition.ended[path, state] = partition.ended.get((path, state), 0) + partition.ended.pop(key)


def _summary(partition: Partition, app: Application) -> ApplicationSummarized:
    return ApplicationSummarized(
        rm=partition.rm,
        application=app.id,
        queue=app.queue.path,
        user=app.spec.user,
        state=app.state,
        times_ns=(app.oldest_ns, app.started_ns, app.ended_ns),
        used=app.used.seconds(),
        preempted=app.preempted.seconds(),
        placeholders=app.placeholder_consumption.seconds(),
    )


def expire_history(partition: Partition, timer: Timer, now_ns: int) -> None:
    """Removes applications from the history that ended long enough ago. They become Expired."""
    if timer.generation != partition.expiring:
        return
    oldest_ns = now_ns - partition.timing.expiry_ns
    while partition.history and partition.history[0].ended_ns <= oldest_ns:
        app = _pop_oldest(partition)
        if (app.state, ApplicationEvent.EXPIRE) in APPLICATION:
            app.state = follow(APPLICATION, app.state, ApplicationEvent.EXPIRE)
            records.application_state_changed(partition, app)
    partition.expiring = 0
    if partition.history:
        _set_expiry_timer(partition)


def _set_expiry_timer(partition: Partition) -> None:
    at_ns = partition.history[0].ended_ns + partition.timing.expiry_ns
    partition.expiring = partition.start_timer(TimerKind.EXPIRY, at_ns)


def reader(partition: Partition, spec: ApplicationSpec, queue: Queue) -> str:
    """Returns the setting that needs the unknown groups of the application's user; empty = none.

    `queue` is the queue of the application, or the nearest existing queue above it.
    """
    if not spec.groups_unknown:
        return ""
    if not queue.is_recovery:
        return group_limit_on(queue)
    chosen = choose_queue(partition.queues, partition.config.rules, spec)
    return chosen.reader if isinstance(chosen, GroupsNeeded) else ""


def unresolved_reason(spec: ApplicationSpec, found: str) -> str:
    """Returns why the application or its new requests wait.

    `found`: the setting that needs the groups; empty = none.
    """
    if not found:
        return ""
    return messages.waiting_for_groups(spec.user, spec.groups_unknown, found)


def note_unresolved(partition: Partition, spec: ApplicationSpec) -> None:
    """Adds the application to the index of users with unknown groups."""
    if spec.groups_unknown:
        partition.unresolved.setdefault(spec.user, {})[spec.id] = None


def forget_unresolved(partition: Partition, user: str, app: ApplicationId) -> None:
    """Removes an application from the index of users with unknown groups."""
    waiting = partition.unresolved.get(user, {})
    waiting.pop(app, None)
    if not waiting:
        partition.unresolved.pop(user, None)


def unresolved_users(partition: Partition) -> list[str]:
    """Returns the users whose groups some application waits for, sorted by name."""
    return sorted(user for user, names in partition.unresolved.items() if any(_waits(partition, one) for one in names))


def update_groups(partition: Partition, app: Application) -> None:
    """Counts the application for the group that limits it, after the groups of its user became known."""
    was_linked = app.linked
    before = app.group
    partition.users.regroup(app)
    reporting.bounds_changed(partition, (app,))
    if app.group == before:
        return
    if was_linked:
        records.group_changed(partition, app, before or "")
    partition.scheduling.requeue_all()


def _waits(partition: Partition, name: ApplicationId) -> bool:
    app = partition.applications.get(name)
    return name in partition.undecided or (app is not None and bool(app.withheld))


#: Event per state for a removed application, until it is Completing or Failed.
_CONCLUDING: Final = {
    ApplicationState.NEW: ApplicationEvent.ACCEPT,
    ApplicationState.ACCEPTED: ApplicationEvent.COMPLETE,
    ApplicationState.RUNNING: ApplicationEvent.COMPLETE,
    ApplicationState.RESUMING: ApplicationEvent.ACCEPT,
    ApplicationState.FAILING: ApplicationEvent.FAIL,
}

_ACTIVE = (ApplicationState.ACCEPTED, ApplicationState.RUNNING)


def change_state(
    partition: Partition, app: Application, event: ApplicationEvent, now_ns: int, message: str = ""
) -> None:
    """Makes one transition of the application state table, and reports it."""
    app.state = follow(APPLICATION, app.state, event)
    if event is ApplicationEvent.FAIL:
        app.failure_message = app.failure_message or message
    if not app.removed:  # its resource manager may have submitted the same ID again
        partition.outbox.put(ApplicationUpdated(partition.rm, app.id, app.state, now_ns, message))
    app.state_log.append((now_ns, app.state))
    ledger.count_running(partition, app)
    partition.scheduling.requeue(app)
    records.application_state_changed(partition, app, message)


def set_wait_timer(partition: Partition, app: Application, since_ns: int) -> None:
    """Starts the optional timer of a gang that holds nothing, counted from `since_ns`."""
    wait_ns = wait_timeout_ns(partition, app)
    if wait_ns:
        partition.set_timer(TimerKind.WAIT, app.sequence, since_ns + wait_ns, app.id)


def wait_timeout_ns(partition: Partition, app: Application) -> int:
    """Returns how long a gang may wait without any reservation; 0 = unlimited."""
    return app.spec.wait_timeout_ns or partition.timing.wait_timeout_ns


def placeholder_timeout_ns(partition: Partition, app: Application) -> int:
    """Returns the placeholder timeout of the application, at most `gang.maxPlaceholderTimeout`."""
    timing = partition.timing
    return min(app.spec.timeout_ns or timing.placeholder_timeout_ns, timing.max_placeholder_timeout_ns)


def run(partition: Partition, app: Application, now_ns: int) -> None:
    """Makes the application Running, and starts its run time limit if it has one."""
    app.ending = False
    app.completing = 0
    app.started_ns = app.started_ns or now_ns
    change_state(partition, app, ApplicationEvent.RUN, now_ns)
    set_run_timer(partition, app, now_ns)


def set_run_timer(partition: Partition, app: Application, now_ns: int) -> None:
    """Starts the run time limit of the application, counted from its first run.

    The timeout of a gang is its placeholder timeout instead (docs/internals/semantics.md, rule 2).
    """
    if not app.spec.timeout_ns or app.spec.is_gang:
        return
    at_ns = max(app.started_ns + app.spec.timeout_ns, now_ns)
    partition.set_timer(TimerKind.RUN, app.sequence, at_ns, app.id)


def complete_if_done(partition: Partition, app: Application, now_ns: int) -> None:
    """Makes the application Completing after its last real request or allocation has ended, and starts the timer.

    Remaining placeholders do not prevent that. A pending placeholder request or a reserving gang does
    (docs/internals/semantics.md, rule 13), except in a Direct or Auto gang that is Running.

    The placeholder timeout of a gang that declares its members expires now: members that appear later are a new run.

    Differs: YuniKorn keeps unused placeholders until the application is Completed.
    """
    is_busy = bool(app.real_asks or app.real_allocations)
    if app.state is not ApplicationState.RUNNING or not app.spec.uses_virtual_placeholders:
        is_busy = is_busy or bool(app.placeholder_asks) or app.is_reserving
    if is_busy or app.state not in _ACTIVE:
        return
    _start_completing(partition, app, now_ns)
    change_state(partition, app, ApplicationEvent.COMPLETE, now_ns)
    if app.spec.members and app.gang.timer:
        partition.set_timer(TimerKind.PLACEHOLDER, app.gang.timer, now_ns, app.id)


def _start_completing(partition: Partition, app: Application, now_ns: int) -> None:
    at_ns = now_ns + partition.timing.completing_timeout_ns
    app.completing = partition.start_timer(TimerKind.COMPLETING, at_ns, app.id)


def settle(partition: Partition, app: Application, now_ns: int) -> None:
    """Makes the transition, if any, that waited for the last allocation to end."""
    has_placeholders = bool(app.gang.allocated)
    match app.state:
        case ApplicationState.RESUMING if not has_placeholders:
            change_state(partition, app, ApplicationEvent.ACCEPT, now_ns)
            _go_on(partition, app, now_ns)
        case ApplicationState.FAILING if not app.allocations:
            end_application(partition, app, ApplicationEvent.FAIL, now_ns)
        case ApplicationState.COMPLETING if app.ending and not has_placeholders:
            end_application(partition, app, ApplicationEvent.COMPLETE, now_ns)
        case _:
            pass


def _go_on(partition: Partition, app: Application, now_ns: int) -> None:
    """Continues an application that is Accepted again. Real pods may have been allocated or ended meanwhile."""
    if app.real_allocations:
        run(partition, app, now_ns)
    elif app.had_real:
        complete_if_done(partition, app, now_ns)
    else:  # its pods may arrive later, but not at any time
        at_ns = now_ns + placeholder_timeout_ns(partition, app)
        app.completing = partition.start_timer(TimerKind.COMPLETING, at_ns, app.id)


def accept(partition: Partition, app: Application, now_ns: int) -> None:
    """Makes the application Accepted.

    For a gang, starts the timer after which it reserves quota first (docs/internals/semantics.md, rule 11).
    The update tells if its queue is not the requested one.
    """
    requested, path = app.spec.queue, app.queue.path
    message = ""
    if not is_requested(requested, path):
        message = messages.other_queue(requested, path, why_not_requested(partition.queues, requested))
    change_state(partition, app, ApplicationEvent.ACCEPT, now_ns, message)
    if app.is_reserving:
        at_ns = max(app.submitted_ns + partition.timing.starvation_age_ns, now_ns)
        partition.set_timer(TimerKind.STARVATION, app.sequence, at_ns, app.id)


def end_application(
    partition: Partition, app: Application, event: ApplicationEvent, now_ns: int, message: str = ""
) -> None:
    """Makes the last transition: the application leaves its queue, and its ID can be used again."""
    change_state(partition, app, event, now_ns, message)
    if not app.removed:
        _withdraw(partition, app)
    _leave(partition, app)
    remember_application(partition, app, now_ns)


def retire(partition: Partition, app: Application, now_ns: int) -> None:
    """Ends an application without allocations that its resource manager removed.

    It is shown as Completing in its queue until the completing timer fires, or until its ID is used again. An
    application that failed, or that has been Completing for this time, ends at once.
    """
    app.removed = True
    _withdraw(partition, app)
    was = app.state
    while (event := _CONCLUDING.get(app.state)) is not None:
        change_state(partition, app, event, now_ns)
    if app.state is ApplicationState.FAILED:
        _leave(partition, app)
        remember_application(partition, app, now_ns)
    elif app.ending:
        end_removed(partition, app, now_ns)
    else:
        if was is not ApplicationState.COMPLETING:
            _start_completing(partition, app, now_ns)
        _keep_completing(partition, app, now_ns)


def end_removed(partition: Partition, app: Application, now_ns: int) -> None:
    """Completes a removed application, because its time is over or its ID is used again."""
    end_application(partition, app, ApplicationEvent.COMPLETE, now_ns)


def _keep_completing(partition: Partition, app: Application, now_ns: int) -> None:
    """Stores a removed application until it is completed, and completes the oldest ones above the limit."""
    _drop_unseen(app)
    dynamic_queues = sum(not queue.managed for queue in app.queue.path_up)
    app.kept_bytes = _size(app) + dynamic_queues * limits.ENDED_APPLICATION_BYTES
    partition.removed[app.id] = app
    partition.removed_bytes += app.kept_bytes
    while partition.removed_bytes > limits.REMOVED_BYTES:
        end_removed(partition, next(iter(partition.removed.values())), now_ns)


def _withdraw(partition: Partition, app: Application) -> None:
    """Removes everything that an application without allocations requests or reserves."""
    for ask in list(app.asks.values()):
        ledger.unlink(partition, app, ask.spec.key)
        ledger.remove_ask(partition, app, ask)
    app.gang.over = True
    ledger.clear_quota_reservation(partition, app)
    requeue.leave(partition, app)
    ledger.set_counted(partition, app, counts=False)
    forget_unresolved(partition, app.spec.user, app.id)
    selectors.withdraw(partition, app.spec.members)


def _leave(partition: Partition, app: Application) -> None:
    """Removes an application from its queue and partition."""
    del app.queue.applications[app.id]
    del partition.applications[app.id]
    partition.texts.refused.pop(app.id, None)
    if partition.removed.pop(app.id, None) is not None:
        partition.removed_bytes -= app.kept_bytes
    records.application_removed(partition, app)
    queues.settle(partition, app.queue)


def withhold_recovered(partition: Partition, app: Application) -> None:
    """Updates whether new requests wait because the application has no queue, or because groups are unknown."""
    reason = _reason(partition, app)
    if reason != app.withheld:
        app.withheld = reason
        partition.scheduling.requeue(app)


def place_recovered(partition: Partition) -> None:
    """Moves applications out of the recovery queue that have another queue under the new rules or queues.

    An application with preempted allocations stays until the next change, because its queue counts them.
    """
    recovery = partition.queues.get(RECOVERY)
    if recovery is None:
        return
    for app in [partition.applications[name] for name in recovery.applications]:
        chosen = _choice(partition, app)
        if isinstance(chosen, Chosen) and not any(each.preemption for each in app.allocations.values()):
            on_demand = queues.leaf_on_demand(partition.queues, chosen.path, app.spec.quota)
            _move(partition, app, queues.open_leaf(partition, chosen, on_demand))
        withhold_recovered(partition, app)


def _reason(partition: Partition, app: Application) -> str:
    """Returns why new requests of the application wait; empty = they do not."""
    groups = unresolved_reason(app.spec, reader(partition, app.spec, app.queue))
    if groups or not app.queue.is_recovery:
        return groups
    named = app.spec.queue
    if named and partition.queues.get(QueuePath(named.lower())) is None:
        return messages.queue_missing(named)
    chosen = _choice(partition, app)
    return chosen if isinstance(chosen, str) else messages.waiting_for_queue()


def _choice(partition: Partition, app: Application) -> Chosen | GroupsNeeded | str:
    return choose_queue(partition.queues, partition.config.rules, replace(app.spec, forced=False))


def _move(partition: Partition, app: Application, leaf: Queue) -> None:
    """Moves the application to another leaf, with its usage and pending requests."""
    old, held, wanted = app.queue, app.allocated + app.gang.allocated, app.pending
    ledger.clear_quota_reservation(partition, app)
    ledger.stop_waiting(partition, app)
    ordering.leave(app)
    ledger.count_pending(partition, app, wanted, -1)
    ledger.charge(partition, app, held, -1)
    ledger.set_counted(partition, app, counts=False)
    records.queue_application_removed(partition, app)
    partition.node_demand.suspend(app)
    enter_queue(app, leaf)
    records.queue_application_added(partition, app)
    ledger.count_pending(partition, app, wanted, 1)
    ledger.charge(partition, app, held, 1)
    ledger.tolerate(app, held)
    requeue.path_shrank(partition, app)
    ledger.note_waiting(partition, app)
    reporting.bounds_changed(partition, (app,))
    partition.scheduling.requeue(app)
    queues.settle(partition, old)
