"""Kubernetes events and pod conditions.

Messages come from the core's failure reasons. A condition is written only if it differs from the present one, and
repeated events are suppressed for some time.

Differs: a placeholder that a quota or the order holds back gets no condition; its gang's members do (``reserving``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Final

from muster_operator.controller import state
from muster_operator.controller.isolation import isolate
from muster_operator.controller.state import (
    Application,
    Deadline,
    Ledger,
    SlotState,
    Task,
    TimerKind,
    set_timer,
)
from muster_operator.model import messages
from muster_operator.model.commands import Outcome, SetCondition
from muster_operator.model.core_messages import CoreEvent, EventKind, SchedulingState, SchedulingStateChanged
from muster_operator.model.event_texts import Note
from muster_operator.model.ids import AppId, NodeName, PodUid
from muster_operator.model.pods import Condition, Placement, PodRef
from muster_operator.model.states import AppState, TaskState


def post(out: Outcome, pod: PodRef, note: Note, series: str = "") -> None:
    """Posts an event on a pod. Events with the same non-empty ``series`` are one event."""
    out.commands.append(note.about(pod.namespace, pod.name, pod.uid, series))


def post_node(out: Outcome, node: NodeName, uid: str, note: Note) -> None:
    """Posts an event on a node."""
    out.commands.append(note.about("", node, uid))


def post_namespace(out: Outcome, name: str, note: Note) -> None:
    """Posts an event on a namespace."""
    out.commands.append(note.about("", name, ""))


def gang_series(app: AppId) -> str:
    """The series name of a gang's progress events."""
    return f"gang/{app}"


def progress(out: Outcome, app: Application, note: Note) -> None:
    """Posts a progress event of a gang in one series on the originator."""
    post(out, app.originator.ref, note, gang_series(app.id))


_REASONS = {
    SchedulingState.FAILED: messages.UNSCHEDULABLE,
    SchedulingState.SKIPPED: messages.SKIPPED,
}

#: States of pods that wait for their own request or for the reservation of their gang.
_WAITING_STATES: Final = frozenset({TaskState.SCHEDULING, TaskState.PENDING})

#: Number of condition writes of a pod without an increasing pause.
_FREE_WRITES: Final = 3
_LONGEST_WRITE_PAUSE_S: Final = 300.0

#: Seconds after a restart in which a condition with the same reason is not written again. All pods get their first
#: report then, and most of them differ from the condition in amounts only.
_FIRST_PAUSE_S: Final = 60.0


def pod_states_changed(ledger: Ledger, out: Outcome, changes: Iterable[SchedulingStateChanged], now: float) -> None:
    """The core reported why requests of pods wait, or that they do not wait any more.

    The conditions are written after all changes, because a request can have two: a reason and a reserved node. If the
    reason of a gang's placeholder changes, the condition of the originator, which contains it, changes with it.
    """
    changed: dict[PodUid, Task] = {}
    for change in changes:
        isolate(partial(_record_reason, changed=changed), ledger, out, change, now)
    for task in changed.values():
        isolate(update_pod_condition, ledger, out, task, now)
    for app_id in dict.fromkeys(task.app for task in changed.values() if task.pod.membership.placeholder):
        isolate(_placeholder_states_changed, ledger, out, app_id, now)


def _placeholder_states_changed(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    app = ledger.applications.get(app_id)
    is_shown = app is not None and app.state is AppState.RESERVING and app.shortage is not None
    if app is not None and is_shown and not _is_reserving_in_core(app):
        _note_blocked_placeholder(app)
        _write_gang_conditions(ledger, out, app, now, all_members=False)


def _record_reason(
    ledger: Ledger, _out: Outcome, change: SchedulingStateChanged, _now: float, *, changed: dict[PodUid, Task]
) -> None:
    task = ledger.tasks.get(change.key)
    if task is None or task.state is not TaskState.SCHEDULING:
        return
    task.shortage = (
        _reserved(task.shortage, change) if change.state is SchedulingState.RESERVED else shortage_of(change)
    )
    task.reason_kind = change.kind
    changed[task.uid] = task


def shortage_of(change: SchedulingStateChanged) -> Condition | None:
    """The condition of a pod in this state; None if the pod does not wait."""
    reason = _REASONS.get(change.state)
    return Condition(reason, change.reason or messages.waits()) if reason else None


def _reserved(before: Condition | None, change: SchedulingStateChanged) -> Condition:
    """The condition of a pod with a reserved node. The pod still waits for resources, so autoscalers must see it.

    The missing resources stay in the message, because the core does not report them again. While preempted pods
    terminate for the pod, their node is nominated, as by kube-scheduler, so that autoscalers add no node.
    """
    shortage = missing_resources(before) if before and before.reason == messages.UNSCHEDULABLE else ""
    message = messages.node_reserved(shortage, change.reason) or messages.waits()
    return Condition(messages.UNSCHEDULABLE, message, change.preemption_node)


def missing_resources(condition: Condition) -> str:
    """The missing resources in the condition's message, without the reserved node."""
    return condition.message.partition(messages.RESERVED)[0]


def update_pod_condition(ledger: Ledger, out: Outcome, task: Task, now: float) -> None:
    """Writes the condition of a waiting pod if it has changed and the delay has passed. Otherwise sets a timer.

    Another reason is also an event, because `kubectl describe` shows no messages of conditions.
    """
    wanted, current = task.shortage, task.reported_condition or task.pod.condition
    if (
        wanted is None
        or task.state not in _WAITING_STATES
        or wanted == current
        or _is_condition_unneeded(task, wanted, current)
    ):
        return
    settings = ledger.settings
    since = now if task.waits_since is None else task.waits_since
    due = since + settings.condition_delay_s
    is_renominated = current is not None and current.nominated_node != wanted.nominated_node
    if is_renominated:
        pass  # without a pause: an autoscaler could add a node that is not needed, or ignore the pod
    elif current is not None and current.reason == wanted.reason:
        is_earlier = task.reported_condition is None  # written before a restart
        pause = _FIRST_PAUSE_S if is_earlier else _pause(task, settings.condition_refresh_s)
        due = max(due, (since if is_earlier else task.reported_at) + pause)
    elif task.writes >= _FREE_WRITES:
        due = max(due, task.reported_at + _pause(task, settings.condition_delay_s))
    if now >= due:
        task.reported_condition, task.reported_at, task.writes = wanted, now, task.writes + 1
        out.commands.append(SetCondition(task.pod.ref, wanted.reason, wanted.message, wanted.nominated_node))
        is_other = current is None or current.reason != wanted.reason
        if is_other and not task.pod.membership.placeholder and _is_unposted(task, wanted.message, now):
            post(out, task.pod.ref, messages.failed_scheduling(wanted.message))
    elif not now < task.checked_at <= due:
        task.checked_at = due
        set_timer(ledger, Deadline(due, TimerKind.WAITING, task.uid))


def _is_condition_unneeded(task: Task, wanted: Condition, current: Condition | None) -> bool:
    """Whether the condition is not needed: SchedulingSkipped on a placeholder.

    Only autoscalers read conditions of placeholders. SchedulingSkipped is written only to replace Unschedulable.
    """
    return (
        task.pod.membership.placeholder
        and wanted.reason == messages.SKIPPED
        and (current is None or current.reason != messages.UNSCHEDULABLE)
    )


def _pause(task: Task, first: float) -> float:
    return min(first * 2.0 ** max(0, min(task.writes, 30) - _FREE_WRITES), max(first, _LONGEST_WRITE_PAUSE_S))


#: Seconds between two checks of a gang. They double up to the maximum.
FIRST_CHECK_S: Final = 2.0
_LONGEST_GANG_PAUSE_S: Final = 60.0

#: From this pause on, a gang that waits only for the operator's writes gets a condition on its originator. Its other
#: members follow at the maximum pause, because their conditions would delay the writes of other gangs.
_OWN_WRITES_PAUSE_S: Final = 32.0
_REPORTED_STATES: Final = frozenset({AppState.SUBMITTED, AppState.ACCEPTED, AppState.RESERVING, AppState.RUNNING})


def watch_progress(ledger: Ledger, app: Application, now: float, pause: float = FIRST_CHECK_S) -> None:
    """Sets the timer for the next progress check of the gang."""
    app.check_pause = pause
    set_timer(ledger, Deadline(now + pause, TimerKind.GANG, app.id))


def check_progress(ledger: Ledger, out: Outcome, app_id: AppId, now: float) -> None:
    """Timer: posts the progress since the last check. Without progress, writes the reason as pod conditions."""
    app = ledger.applications.get(app_id)
    if app is None or app.state is not AppState.RESERVING or state.is_namespace_terminating(ledger, app.namespace):
        return
    if app.gang is not None and app.gang.placement is not Placement.DIRECT and not app.shortages:
        _note_blocked_placeholder(app)
    reached = count_placeholders(app)
    bound = reached[1]
    if reached == app.reached:
        waits_for_writes = _waits_for_own_writes(app)
        if not waits_for_writes or app.check_pause >= _OWN_WRITES_PAUSE_S:
            _write_gang_conditions(
                ledger, out, app, now, all_members=not waits_for_writes or app.check_pause >= _LONGEST_GANG_PAUSE_S
            )
    elif bound and bound != app.reached[1]:
        progress(out, app, messages.placeholders_bound(bound, app.wanted))
    if reached != app.reached and app.shortage is not None:
        _write_gang_conditions(ledger, out, app, now, all_members=False)
    app.reached = reached
    watch_progress(ledger, app, now, min(app.check_pause * 2, _LONGEST_GANG_PAUSE_S))


def count_placeholders(app: Application) -> tuple[int, int]:
    """Number of placeholders that were seen, and number that are bound."""
    seen = sum(slot.state is SlotState.SEEN for slot in app.slots.values())
    return seen, len(app.slots) - len(app.open_slots)


def _note_blocked_placeholder(app: Application) -> None:
    blocked = _blocked_placeholder(app)
    app.shortage = blocked.shortage if blocked is not None else app.impossible
    app.shortage_kind = blocked.reason_kind if blocked is not None else ""


def _blocked_placeholder(app: Application) -> Task | None:
    """The placeholder whose reason is shown for the gang; None if none waits. Missing nodes first, as in Direct."""
    short = [
        (task.shortage.reason != messages.UNSCHEDULABLE, task.uid)
        for task in app.placeholders.values()
        if task.state is TaskState.SCHEDULING and task.shortage is not None
    ]
    return app.placeholders[min(short)[1]] if short else None


def _waits_for_own_writes(app: Application) -> bool:
    """Whether the gang waits only for writes of the operator: placeholders to be created, seen or bound."""
    if app.shortages:
        return False
    if any(task.state is TaskState.SCHEDULING and task.shortage is not None for task in app.placeholders.values()):
        return False
    seen, _ = count_placeholders(app)
    return seen < app.wanted or any(task.state is TaskState.ALLOCATED for task in app.placeholders.values())


def reservation_note(app: Application) -> Note:
    """The event of a complete reservation."""
    if _is_reserving_in_core(app) and app.gang is not None:
        return messages.all_members_reserved(app.gang.size)
    return messages.all_placeholders_bound(len(app.slots))


def states_changed(ledger: Ledger, out: Outcome, changes: Iterable[SchedulingStateChanged], now: float) -> None:
    """The core reported why it cannot reserve for task groups, or that nothing blocks them any more.

    Reports before the first check are shown at the first check, because most gangs are reserved by then. A report can
    arrive before the application is accepted, because it uses another stream (docs/internals/semantics.md, 1). After a
    restart a gang with a bound member runs, and waits for the reservation of the other members.
    """
    changed: dict[AppId, Application] = {}
    for change in changes:
        isolate(partial(_record_shortage, changed=changed), ledger, out, change, now)
    for app in changed.values():
        isolate(_shortage_changed, ledger, out, app, now)


def _shortage_changed(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    before = _gang_conditions(app)
    app.shortage, app.shortage_kind = _first_shortage(app) or (app.impossible, "")
    if not app.shortages:
        _clear_conditions(app, before)
    elif app.state is AppState.RUNNING or (app.state is AppState.RESERVING and app.check_pause > FIRST_CHECK_S):
        _write_gang_conditions(ledger, out, app, now)


def _record_shortage(
    ledger: Ledger, _out: Outcome, change: SchedulingStateChanged, _now: float, *, changed: dict[AppId, Application]
) -> None:
    """Records the reason of a gang whose reservations the core keeps, and the gang if the reason has changed.

    The core reports a reason again when it requests the slot of an ended placeholder pod again.
    """
    app = ledger.applications.get(change.app)
    group = change.key.removeprefix(f"{change.app}/")
    if app is None or app.state not in _REPORTED_STATES or app.gang is None or app.gang.group(group) is None:
        return
    if change.state is SchedulingState.RESERVED:  # by preemption: no node has to be added for the members
        why: Condition | None = Condition(messages.SKIPPED, change.reason)
    else:
        why = shortage_of(change)
    before = app.shortages.pop(group, None)
    after = None if why is None else (why, change.kind)
    if after is not None:
        app.shortages[group] = after
    if after != before:
        changed[app.id] = app


def _first_shortage(app: Application) -> tuple[Condition, str] | None:
    """The reason, and its kind, of the task group that is shown for the gang. Missing nodes first."""
    first = min(
        app.shortages.items(), key=lambda item: (item[1][0].reason != messages.UNSCHEDULABLE, item[0]), default=None
    )
    return first[1] if first is not None else None


def joined(ledger: Ledger, out: Outcome, app: Application, task: Task, now: float) -> None:
    """A member joined a gang without placeholder pods that waits: gives the pod the condition of the gang."""
    if _is_reserving_in_core(app) and app.check_pause != FIRST_CHECK_S:
        task.shortage = _direct_condition(app, task)
        update_pod_condition(ledger, out, task, now)


def reservation_over(app: Application) -> None:
    """The gang does not wait for a reservation without placeholder pods any more. Each member waits for itself."""
    if _is_reserving_in_core(app):
        _clear_conditions(app, _gang_conditions(app))
        app.shortages.clear()


def _gang_conditions(app: Application) -> set[Condition | None]:
    """Conditions that members have because of the gang."""
    return {_full_direct_condition(app), _short_direct_condition(app), app.impossible}


def _clear_conditions(app: Application, gang_conditions: set[Condition | None]) -> None:
    for task in app.members.values():
        if task.shortage in gang_conditions:
            task.shortage = None


def _is_reserving_in_core(app: Application) -> bool:
    """Whether the core is reserving for the application without waiting for placeholder pods."""
    is_looked_for = app.state is AppState.RESERVING or (app.state is AppState.RUNNING and bool(app.shortages))
    return is_looked_for and app.gang is not None and app.gang.uses_virtual_placeholders


def cannot_fit(ledger: Ledger, out: Outcome, app: Application, message: str, now: float) -> None:
    """The gang would not fit even if the nodes were empty. Writes this condition on the originator without a delay."""
    ledger.unsatisfiable.add(app.id)
    app.impossible = Condition(messages.UNSCHEDULABLE, message)
    app.shortage = app.shortage or app.impossible
    task = ledger.tasks.get(app.originator.ref.uid)
    if task is not None and app.state is AppState.RESERVING:
        task.waits_since = now - ledger.settings.condition_delay_s
        task.shortage = _impossible_condition(app, message)
        update_pod_condition(ledger, out, task, now)


def members_missing(ledger: Ledger, out: Outcome, app: Application, now: float) -> None:
    """The gang waits for members that nothing creates, or for no such members any more. Writes it without a delay."""
    task = app.members.get(app.originator.ref.uid)
    if task is not None:
        since = now - max(ledger.settings.condition_delay_s, ledger.settings.condition_refresh_s)
        task.waits_since, task.reported_at, task.writes = since, since, 0
    _write_gang_conditions(ledger, out, app, now, all_members=False)


def _impossible_condition(app: Application, message: str) -> Condition:
    """The condition of the originator. An autoscaler must not add a node for it and for its placeholder."""
    return Condition(messages.UNSCHEDULABLE if _is_reserving_in_core(app) else messages.SKIPPED, message)


def may_fit(ledger: Ledger) -> None:
    """Nodes have changed: drops all conditions that a gang cannot fit, until the core reports them again."""
    for app_id in ledger.unsatisfiable:
        app = ledger.applications[app_id]
        app.shortage = None if app.shortage == app.impossible else app.shortage
        app.impossible = None
    ledger.unsatisfiable.clear()


def _write_gang_conditions(
    ledger: Ledger, out: Outcome, app: Application, now: float, *, all_members: bool = True
) -> None:
    """Writes the reason why the gang waits as conditions of all its pods, or only of the originator."""
    if _is_reserving_in_core(app):
        for task in app.members.values():
            if task.state in _WAITING_STATES:
                _wait(ledger, out, task, _direct_condition(app, task), now)
        return
    originator = app.members.get(app.originator.ref.uid)
    if originator is not None and originator.state is TaskState.PENDING:
        _wait(ledger, out, originator, _originator_condition(app), now)
    if all_members:
        condition = _member_condition(app, now)
        for task in app.members.values():
            if task.state is TaskState.PENDING and task is not originator:
                _wait(ledger, out, task, condition, now)


def _wait(ledger: Ledger, out: Outcome, task: Task, why: Condition, now: float) -> None:
    if task.waits_since is None:
        task.waits_since = now - ledger.settings.condition_delay_s
    task.shortage = why
    update_pod_condition(ledger, out, task, now)


def _direct_condition(app: Application, task: Task) -> Condition:
    """The reason why the reservation waits, for a member of a gang without placeholder pods.

    The originator has the details, unless it does not wait: after a restart it can have a node already.
    """
    originator = app.members.get(app.originator.ref.uid)
    has_details = originator is None or originator is task or originator.state not in _WAITING_STATES
    return _full_direct_condition(app) if has_details else _short_direct_condition(app)


def _full_direct_condition(app: Application) -> Condition:
    shortage = app.shortage
    if app.impossible is not None and shortage is not None and shortage.reason == messages.UNSCHEDULABLE:
        return app.impossible
    reason = shortage.reason if shortage else messages.SKIPPED
    return Condition(reason, messages.gang_waits(app.name, _why(app)))


def _why(app: Application) -> str:
    """The members that are missing, and what the gang waits for."""
    return "; ".join(filter(None, (app.members_missing, app.shortage.message if app.shortage else "")))


def _short_direct_condition(app: Application) -> Condition:
    """The reason in one sentence. Each member is `Unschedulable` for autoscalers, because there are no placeholders."""
    reason = app.shortage.reason if app.shortage else messages.SKIPPED
    is_impossible = app.impossible is not None and reason == messages.UNSCHEDULABLE
    kind = messages.NO_NODES_EMPTY if is_impossible else _kind(app)
    return Condition(reason, messages.member_waits(app.name, kind, app.originator.ref.name))


def _kind(app: Application) -> str:
    """The reason without names and amounts; empty = none is known."""
    if app.shortage is None or app.shortage.reason == messages.UNSCHEDULABLE:
        return messages.NO_NODES if app.shortage else ""
    return messages.SHORT_REASONS.get(app.shortage_kind, "")


def _member_condition(app: Application, now: float) -> Condition:
    """The kind of the reason why placeholders wait, for members other than the originator, which has the details.

    A large gang has many members, so their condition changes rarely: if the kind was the same at the last two checks,
    and to each kind at most once per hour.
    """
    kind = _kind(app)
    shown = next(reversed(app.shown_kinds), None)
    is_lasting = kind == app.last_kind and now >= app.shown_kinds.get(kind, -EVENT_TTL_S) + EVENT_TTL_S
    if shown is None or (kind != shown and is_lasting):
        app.shown_kinds.pop(kind, None)
        app.shown_kinds[kind], shown = now, kind
    app.last_kind = kind
    return Condition(messages.SKIPPED, messages.member_waits(app.name, shown or "", app.originator.ref.name))


def _originator_condition(app: Application) -> Condition:
    """The reason why placeholders wait, for the originator. A quota takes precedence over missing nodes."""
    shortage = app.shortage
    if app.impossible is not None and shortage is not None and shortage.reason == messages.UNSCHEDULABLE:
        return _impossible_condition(app, app.impossible.message)
    bound = len(app.slots) - len(app.open_slots)
    message = messages.originator_waits(app.name, bound, app.wanted, _why(app))
    return Condition(messages.SKIPPED, message)


#: Seconds that an API server keeps an event by default (kube-apiserver, --event-ttl).
EVENT_TTL_S: Final = 3600.0

#: Maximum number of remembered event messages per pod.
_CACHED_MESSAGES: Final = 8
_NUMBER: Final = re.compile(r"\d+(?:m|[KMGTP]i)?\b|\d+")


def report_core_event(ledger: Ledger, out: Outcome, event: CoreEvent, now: float) -> None:
    """Posts an event of the core on its pod, node or application. Events of queues are not posted."""
    match event.kind:
        case EventKind.REQUEST:
            task = ledger.tasks.get(PodUid(event.object_id))
            if task is not None and _is_unposted(task, event.message, now):
                _post_to_pod(out, task, event.message)
        case EventKind.APP:
            _application_event(ledger, out, event, now)
        case EventKind.NODE:
            node = ledger.nodes.get(NodeName(event.object_id))
            if node is not None:
                post_node(out, node.name, node.uid, messages.node_notice(event.message))
        case EventKind.QUEUE:
            return


def _post_to_pod(out: Outcome, task: Task, message: str) -> None:
    """Why the pod waits, or what of a pod with a node was ignored."""
    is_waiting = task.state in _WAITING_STATES
    post(out, task.pod.ref, messages.failed_scheduling(message) if is_waiting else messages.ignored(message))


def _is_unposted(task: Task, message: str, now: float) -> bool:
    """Whether the event was not posted within the event lifetime. Messages that differ only in numbers are equal.

    After a restart nothing is remembered, and a message that the pod's condition contains counts as posted.
    """
    text = _NUMBER.sub("#", message)
    before = () if task.posted or not _is_in_condition(task, text) else ((text, now),)
    posted = {message_text: at for message_text, at in (*task.posted, *before) if now < at + EVENT_TTL_S}
    if text in posted:
        return False
    task.posted = (*posted.items(), (text, now))[-_CACHED_MESSAGES:]
    return True


def _is_in_condition(task: Task, text: str) -> bool:
    """Whether the condition of the pod has this message, apart from numbers."""
    condition = task.pod.condition
    return condition is not None and _NUMBER.sub("#", missing_resources(condition)) == text


def _application_event(ledger: Ledger, out: Outcome, event: CoreEvent, now: float) -> None:
    """Posts an event of an application. With a task group it means that the members do not fit on the nodes.

    An event of a gang that still reserves reports what it waits for.

    See docs/internals/semantics.md, 10.
    """
    app = ledger.applications.get(AppId(event.object_id))
    if app is None:
        return
    task = ledger.tasks.get(app.originator.ref.uid)
    if task is None or _is_unposted(task, event.message, now):
        is_incomplete = event.reference_id or (app.gang is not None and app.state is AppState.RESERVING)
        text = messages.gang_incomplete if is_incomplete else messages.application_problem
        post(out, app.originator.ref, text(event.message))
    if event.reference_id:
        cannot_fit(ledger, out, app, event.message, now)
